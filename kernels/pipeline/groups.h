// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/plan/plan.h"
#include "kernels/transport/transport.h"

namespace piper {

/// One rank's place in the plan's grids and the communicators of its groups.
struct RankGroups {
    RankId rank;
    RankCoordinates place;
    /// dp and edp hold every replica of this rank's weights: those of the other copy of a
    /// bidirectional pipeline too.
    std::unique_ptr<Communicator> pp, ep, dp, edp;
    std::unique_ptr<Communicator> tp, etp;  ///< null for one rank

    [[nodiscard]] StageId stage() const { return StageId(static_cast<std::int32_t>(place.pp)); }
};

/// Collective over the world. Errors: InvalidInput when the world is not the plan's.
[[nodiscard]] Result<RankGroups> makeGroups(const Plan& plan, Transport& transport);

}  // namespace piper
