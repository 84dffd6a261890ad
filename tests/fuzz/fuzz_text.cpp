// SPDX-License-Identifier: Apache-2.0
// Training logs, output of nccl-tests, rank profiles.
#include "collectors/import/imported.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::filesystem::path& path = piper::fuzz::inputFile(data, size);
    (void)piper::importTrainingLog(path);
    (void)piper::importNcclTests(path);
    (void)piper::importRankProfile(path);
    return 0;
}
