// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <string_view>

#include "core/plan/plan.h"

namespace piper::test {

/// Of all groups of a dimension: the most nodes one spans, the fewest of its members on a node.
struct WorstGroup {
    std::int64_t nodes = 0;
    std::int64_t ranks_per_node = 1 << 30;
};

inline WorstGroup worstGroup(const ProcessGrid& grid, const Layout& layout,
                             std::string_view dimension, std::int32_t devices_per_node) {
    WorstGroup out;
    for (std::int32_t rank = 0; rank < layout.world(); ++rank) {
        std::map<std::int32_t, std::int64_t> members;
        for (const RankId r : grid.group(RankId(rank), dimension))
            ++members[r.value / devices_per_node];
        out.nodes = std::max(out.nodes, static_cast<std::int64_t>(members.size()));
        for (const auto& [node, count] : members)
            out.ranks_per_node = std::min(out.ranks_per_node, count);
    }
    return out;
}

}  // namespace piper::test
