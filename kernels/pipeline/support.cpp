// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/support.h"

namespace piper {

Status canRun(const Plan& plan) {
    const std::vector<std::string> parts = unsupportedParts(plan);
    if (parts.empty()) return {};
    std::string all;
    for (const std::string& part : parts) all += (all.empty() ? "" : "; ") + part;
    return fail(ErrorCode::Unsupported, "the CPU worker does not run this plan: {}", all);
}

}  // namespace piper
