// SPDX-License-Identifier: Apache-2.0
// Plans and models as JSON.
#include <string_view>

#include "core/model/model.h"
#include "core/plan/plan.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    (void)piper::readPlanText(text, "input");
    (void)piper::readModelText(text, "input");
    return 0;
}
