// SPDX-License-Identifier: Apache-2.0
#include "core/cost/roof.h"

#include <algorithm>

namespace piper {

double busFactor(CollectiveKind kind, std::int64_t ranks) {
    const double n = static_cast<double>(std::max<std::int64_t>(1, ranks));
    switch (kind) {
        case CollectiveKind::PointToPoint:
            return 1.0;
        case CollectiveKind::AllReduce:
            return 2.0 * (n - 1.0) / n;
        default:
            return (n - 1.0) / n;
    }
}

Result<CollectiveRoof> collectiveRoof(const ClusterSpec& cluster, CollectiveKind kind,
                                      std::int64_t ranks) {
    if (ranks < 2 || ranks > cluster.numDevices())
        return fail(ErrorCode::InvalidInput,
                    "{} ranks: a collective on this cluster has between 2 and {}", ranks,
                    cluster.numDevices());
    GroupAxes axes;
    axes.count = 1;
    axes.axes[0] = {1, ranks};
    axes.world = ranks;
    return collectiveRoof(cluster, kind, spreadOver(cluster, axes));
}

Result<CollectiveRoof> collectiveRoof(const ClusterSpec& cluster, CollectiveKind kind,
                                      const GroupSpread& spread) {
    const std::int64_t ranks = spread.size;
    const double n = static_cast<double>(ranks), factor = busFactor(kind, ranks);
    CollectiveRoof out;
    double taper = 1.0;
    std::int64_t below = 1;
    for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
        const LinkLevel& level = cluster.levels[i];
        const std::int64_t here = spread.members[i];
        if (here > below) {
            const double rate = level.bandwidth.value / taper;
            if (!(rate > 0.0))
                return fail(ErrorCode::InvalidInput, "level '{}' has no bandwidth", level.name);
            // Of the buffer: what goes to peers of this level; a ring's share of a domain.
            double share = factor / static_cast<double>(below);
            if (kind == CollectiveKind::AllToAll) share = static_cast<double>(here - below) / n;
            if (kind == CollectiveKind::PointToPoint) share = 1.0;
            const double algbw = rate / share;
            if (out.level.empty() || algbw < out.algbw.value) {
                out.algbw = BytesPerSecond(algbw);
                out.level = level.name;
                out.wire_share = share;
                out.per_device = BytesPerSecond(rate);
            }
        }
        taper *= std::max(1.0, level.taper);
        below = std::max(below, here);
    }
    if (out.level.empty())
        return fail(ErrorCode::InvalidInput, "no link level joins {} ranks", ranks);
    out.busbw = out.algbw * factor;
    return out;
}

BytesPerSecond wireBandwidth(BytesPerSecond printed, std::int64_t nodes) {
    const double n = static_cast<double>(std::max<std::int64_t>(1, nodes));
    return printed * ((n - 1.0) / n);
}

}  // namespace piper
