// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/groups.h"

namespace piper {

Result<RankGroups> makeGroups(const Plan& plan, Transport& transport) {
    const std::int64_t world = transport.world().size();
    if (world != plan.layout.world()) {
        Error error = fail(ErrorCode::InvalidInput, "the plan's layout needs {} ranks, {} started",
                           plan.layout.world(), world);
        error.hint = fmt::format("start it with mpirun -np {}", plan.layout.world());
        return error;
    }
    RankGroups groups;
    groups.rank = RankId(static_cast<std::int32_t>(transport.world().rank()));
    const ProcessGrid grid(plan.layout, plan.rank_order);
    groups.place = grid.coordinates(groups.rank);
    PIPER_ASSIGN(groups.pp, transport.makeGroup(grid.group(groups.rank, "pp")));
    PIPER_ASSIGN(groups.ep, transport.makeGroup(grid.group(groups.rank, "ep")));
    PIPER_ASSIGN(groups.dp, transport.makeGroup(grid.group(groups.rank, "dp")));
    PIPER_ASSIGN(groups.edp, transport.makeGroup(grid.group(groups.rank, "edp")));
    return groups;
}

}  // namespace piper
