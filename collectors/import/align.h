// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "collectors/store/workspace.h"
#include "core/run/clock_alignment.h"
#include "core/run/communication_rule.h"

namespace piper {

/// What became of one rank's clock.
struct RankAlignment {
    RankId rank, reference;
    std::int64_t offset_before_ns = 0;
    std::int64_t offset_ns = 0;  ///< in the middle of its samples
    AlignedRank found;
};

/// Sets the clocks of a run's ranks by the communication kernels they share (clock_alignment.h) and
/// keeps the samples in the file. Ranks that cannot be aligned stay as they were.
/// Errors: NotFound; InvalidInput when the run has fewer than two ranks.
[[nodiscard]] Result<std::vector<RankAlignment>> alignRun(Workspace& workspace,
                                                          std::string_view run_name,
                                                          const CommunicationRule& rule);

}  // namespace piper
