// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/run_groups.h"

#include <map>

namespace piper {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::int64_t kLargestDegree = 1 << 15;

/// A plan read back from a file may say anything.
bool gridsFit(const Plan& plan) {
    const Layout& l = plan.layout;
    for (const std::int64_t degree : {l.tp, l.cp, l.pp, l.ep, l.etp, l.dp})
        if (degree < 1 || degree > kLargestDegree) return false;
    if (l.world() < 1 || l.world() > kMostRanks) return false;
    return parseRankOrder(plan.rank_order).ok() && l.edp() * l.pp * l.ep * l.etp == l.world();
}

}  // namespace

CommunicationGroups groupsOfPlan(const Plan& plan, const Run& run) {
    if (!gridsFit(plan)) return groupsByStage(run);
    const ProcessGrid grid(plan.layout, plan.rank_order);
    std::map<RankId, std::size_t> position;
    for (std::size_t r = 0; r < run.ranks.size(); ++r) {
        const RankId rank = run.ranks[r].rank;
        if (rank.valid() && rank.value < grid.world()) position[rank] = r;
    }
    CommunicationGroups out;
    for (const auto& [dimension, groups] :
         {std::pair{"ep", &out.ep}, std::pair{"tp", &out.tp}, std::pair{"cp", &out.cp},
          std::pair{"dp", &out.dp}, std::pair{"pp", &out.pp}})
        for (const auto& [rank, place] : position) {
            std::vector<std::size_t> members;
            for (const RankId other : grid.group(rank, dimension))
                if (const auto found = position.find(other); found != position.end())
                    members.push_back(found->second);
            // Each group once: by its first rank that is there.
            if (members.front() == place) groups->push_back(std::move(members));
        }
    return out;
}

}  // namespace piper
