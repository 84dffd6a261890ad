// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/groups.h"

#include <algorithm>

#include "core/plan/pipeline_shape.h"

namespace piper {
namespace {

/// Ranks that hold the same weights as `rank`.
std::vector<RankId> replicas(const Plan& plan, const ProcessGrid& grid, RankId rank,
                             std::string_view dimension) {
    std::vector<RankId> members = grid.group(rank, dimension);
    if (pipelineShape(plan).modelCopies() == 1) return members;
    const std::vector<RankId> pipeline = grid.group(rank, "pp");
    const auto own = static_cast<std::size_t>(grid.coordinates(rank).pp);
    const RankId mirror = pipeline[pipeline.size() - 1 - own];
    for (const RankId other : grid.group(mirror, dimension)) members.push_back(other);
    std::ranges::sort(members);
    return members;
}

}  // namespace

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
    PIPER_ASSIGN(groups.dp, transport.makeGroup(replicas(plan, grid, groups.rank, "dp")));
    PIPER_ASSIGN(groups.edp, transport.makeGroup(replicas(plan, grid, groups.rank, "edp")));
    if (plan.layout.tp > 1) {
        PIPER_ASSIGN(groups.tp, transport.makeGroup(grid.group(groups.rank, "tp")));
    }
    if (plan.layout.etp > 1) {
        PIPER_ASSIGN(groups.etp, transport.makeGroup(grid.group(groups.rank, "etp")));
    }
    return groups;
}

}  // namespace piper
