// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/plan/plan.h"

namespace piper {

/// Where the members of one process group sit: `members[i]` of them (the asking one included) share
/// one domain of link level i; the last entry is the size of the group. Groups of one dimension
/// need not lie alike (six ranks a group on nodes of eight): this is the worst of them, the fewest
/// neighbours that any rank has and the most nodes that any group spans.
struct GroupSpread {
    std::int64_t size = 1;
    std::int64_t nodes = 1;             ///< nodes the group spans
    std::int64_t ranks_per_node = 1;    ///< of the group on one node
    std::vector<std::int64_t> members;  ///< [cluster.levels]
};

/// Ranks `stride` apart, `size` of them, every such group of a world.
struct GroupAxis {
    std::int64_t stride = 1;
    std::int64_t size = 1;
    bool operator==(const GroupAxis&) const = default;
};

/// A dimension's groups: one axis, or two where another dimension stands between them ("dp" with cp
/// under an order that puts pp between).
struct GroupAxes {
    std::array<GroupAxis, 2> axes{};
    std::size_t count = 0;
    std::int64_t world = 0;  ///< ranks of all groups together; 0: as many as there are alignments
    [[nodiscard]] std::int64_t size() const { return axes[0].size * axes[1].size; }
    bool operator==(const GroupAxes&) const = default;
};

/// "tp", "cp", "dp" (with cp), "pp", "ep", "etp", "edp" of a layout under a rank order.
[[nodiscard]] GroupAxes groupAxes(const Layout& layout, std::string_view order,
                                  std::string_view dimension);

/// How groups fall onto domains of `domain` consecutive ranks.
struct DomainSplit {
    std::int64_t members = 1;  ///< fewest of a group that one rank finds in its domain, itself too
    std::int64_t domains = 1;  ///< most domains that a group touches
};
[[nodiscard]] DomainSplit splitOver(const GroupAxes& axes, std::int64_t domain);

[[nodiscard]] GroupSpread spreadOver(const ClusterSpec& cluster, const GroupAxes& axes);

}  // namespace piper
