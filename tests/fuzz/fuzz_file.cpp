// SPDX-License-Identifier: Apache-2.0
// A parser of traces or logs that takes a file: PIPER_FUZZED(path).
#include "collectors/import/imported.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    (void)piper::PIPER_FUZZED(piper::fuzz::inputFile(data, size));
    return 0;
}
