// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/export/export.h"

// What of a plan a framework's options cannot say; not for other folders.
namespace piper {

/// The plan an import starts from: nothing but the cluster is known.
[[nodiscard]] Plan blankPlan(const ClusterSpec& cluster);

/// RFC 7396 patch from what the options gave back to the plan itself; the cluster is left out.
/// Empty when the options said everything.
[[nodiscard]] Json residualOf(const Plan& plan, const Plan& read_back);

/// Applies that patch. Errors: InvalidInput as of a plan file.
[[nodiscard]] Result<Plan> applyResidual(const Plan& read_back, const Json& residual,
                                         std::string_view where);

/// One sentence for each part of the patch.
[[nodiscard]] std::vector<std::string> residualSentences(const Json& residual,
                                                         std::string_view framework);

}  // namespace piper
