// SPDX-License-Identifier: Apache-2.0
// A parser of JSON that a user writes: PIPER_FUZZED(text, where).
#include <cstdint>
#include <string_view>

#include "core/plan/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    (void)piper::PIPER_FUZZED(text, "input");
    return 0;
}
