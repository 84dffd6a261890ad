// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/cost/curves.h"

namespace piper {

namespace {

double asDouble(std::int64_t v) {
    return static_cast<double>(v);
}

/// Bytes per pair of an all-to-all, the whole buffer of the others: what a measured point names.
double messageOf(CollectiveKind kind, std::int64_t ranks, double buffer) {
    return kind == CollectiveKind::AllToAll
               ? buffer / asDouble(std::max<std::int64_t>(1, ranks - 1))
               : buffer;
}

double bufferOf(CollectiveKind kind, std::int64_t ranks, double message) {
    return kind == CollectiveKind::AllToAll ? message * asDouble(ranks - 1) : message;
}

/// "tp-cp-ep-dp-pp": the size of each dimension of the order in one of the two grids, and from it
/// the distance in ranks between neighbours of a dimension.
struct Dimension {
    std::int64_t stride = 1;
    std::int64_t size = 1;
};

Dimension locate(const Layout& l, std::string_view order, std::string_view wanted) {
    const bool expert_grid = wanted == "ep" || wanted == "etp" || wanted == "edp";
    std::int64_t stride = 1;
    Dimension out;
    bool started = false;
    while (!order.empty()) {
        const std::size_t dash = order.find('-');
        const std::string_view name = order.substr(0, dash);
        order = dash == std::string_view::npos ? std::string_view() : order.substr(dash + 1);
        std::int64_t size = 1;
        std::string_view label = name;
        if (name == "tp") {
            size = expert_grid ? l.etp : l.tp;
            if (expert_grid) label = "etp";
        } else if (name == "cp") {
            size = expert_grid ? 1 : l.cp;
        } else if (name == "ep") {
            size = expert_grid ? l.ep : 1;
        } else if (name == "dp") {
            size = expert_grid ? l.edp() : l.dp;
            if (expert_grid) label = "edp";
        } else if (name == "pp") {
            size = l.pp;
        }
        // Gradients are reduced over dp and cp together.
        const bool member = label == wanted || (wanted == "dp" && label == "cp");
        if (member) {
            if (!started) out.stride = stride;
            started = true;
            out.size *= size;
        }
        stride *= size;
    }
    return out;
}

}  // namespace

GroupSpread CostModel::spread(std::int64_t stride, std::int64_t size) const {
    const ClusterSpec& cluster = m_plan.cluster;
    const auto inside = [&](std::int64_t domain) {
        return std::clamp<std::int64_t>(domain / std::max<std::int64_t>(1, stride), 1, size);
    };
    GroupSpread out;
    out.size = size;
    out.ranks_per_node = inside(cluster.devices_per_node);
    out.nodes = (size + out.ranks_per_node - 1) / out.ranks_per_node;
    out.members.reserve(cluster.levels.size());
    for (const LinkLevel& level : cluster.levels)
        out.members.push_back(inside(level.domain_devices));
    if (!out.members.empty()) out.members.back() = size;  // the last level spans the cluster
    return out;
}

GroupSpread CostModel::spreadOf(std::string_view dimension) const {
    const Dimension d = locate(m_plan.layout, m_plan.rank_order, dimension);
    return spread(d.stride, d.size);
}

/// Alpha-beta by link level. A member reaches members[i] - members[i-1] others over level i and no
/// nearer one; a level's bandwidth is its own over the tapers of the domains below it.
///   all-to-all:     latency * messages + max over levels of (bytes to those members / bandwidth)
///   ring reduction: passes (g-1)/g * buffer over the nearest level, and over level i shared by the
///                   members[i-1] members of a domain; latency of one step per member on the
///                   nearest level, of a tree's ceil(log2) steps above.
///   point to point: the level that joins both ends.
Cost CostModel::alphaBeta(CollectiveKind kind, const GroupSpread& spread, Bytes buffer) const {
    const std::vector<LinkLevel>& levels = m_plan.cluster.levels;
    const double g = asDouble(spread.size);
    const double passes = kind == CollectiveKind::AllReduce ? 2.0 : 1.0;
    double latency = 0.0, moving = 0.0, taper = 1.0;
    EvidenceKind evidence = EvidenceKind::VendorPeak;
    std::int64_t below = 1;
    for (std::size_t i = 0; i < levels.size(); ++i) {
        const std::int64_t here = spread.members[i];
        if (here > below && levels[i].bandwidth.value > 0.0) {
            const double bandwidth = levels[i].bandwidth.value / taper;
            const double peers = asDouble(here - below);
            evidence = std::max(evidence, levels[i].evidence.kind);
            if (kind == CollectiveKind::PointToPoint) {
                latency = levels[i].latency.value;
                moving = buffer.value / bandwidth;
            } else if (kind == CollectiveKind::AllToAll) {
                latency += levels[i].latency.value * peers;
                moving = std::max(moving, buffer.value * peers / (g - 1.0) / bandwidth);
            } else {
                const double domains = std::ceil(asDouble(here) / asDouble(below));
                const double steps = below == 1 ? domains - 1.0 : std::ceil(std::log2(domains));
                latency += passes * steps * levels[i].latency.value;
                moving = std::max(
                    moving, passes * (g - 1.0) / g * buffer.value / (bandwidth * asDouble(below)));
            }
        }
        taper *= std::max(1.0, levels[i].taper);
        below = std::max(below, here);
    }
    return costOf(Seconds(latency + moving), evidence, false);
}

void CostModel::indexCollectives() {
    for (const CollectivePoint& p : m_plan.cluster.curves.collective) {
        const bool staged = m_plan.all_to_all.algorithm == AllToAllAlgorithm::Node;
        if (p.kind == CollectiveKind::AllToAll && !p.algorithm.empty() &&
            (p.algorithm == "node") != staged)
            continue;
        if (p.ranks < 2 || p.time.value <= 0.0 || p.message.value <= 0.0) continue;
        auto curve = std::find_if(m_collectives.begin(), m_collectives.end(), [&](const auto& c) {
            return c.kind == p.kind && c.ranks == p.ranks && c.ranks_per_node == p.ranks_per_node;
        });
        if (curve == m_collectives.end()) {
            m_collectives.push_back({p.kind, p.ranks, p.ranks_per_node, {}});
            curve = m_collectives.end() - 1;
        }
        const std::int64_t per_node = std::max<std::int64_t>(1, m_plan.cluster.devices_per_node);
        const GroupSpread place =
            spread(std::max<std::int64_t>(1, per_node / p.ranks_per_node), p.ranks);
        const Seconds model =
            alphaBeta(p.kind, place, Bytes(bufferOf(p.kind, p.ranks, p.message.value))).time;
        // Without a link to model, the measured time itself is what is scaled.
        curve->points.push_back(
            {std::log2(p.message.value), p.time.value / (model.value > 0.0 ? model.value : 1.0)});
    }
    for (CollectiveCurve& c : m_collectives) sortBySize(c.points);
}

const CostModel::CollectiveCurve* CostModel::nearestCurve(CollectiveKind kind,
                                                          const GroupSpread& spread) const {
    const CollectiveCurve* best = nullptr;
    double best_distance = std::numeric_limits<double>::max();
    for (const CollectiveCurve& c : m_collectives) {
        if (c.kind != kind) continue;
        const double distance =
            std::abs(std::log2(asDouble(c.ranks) / asDouble(spread.size))) +
            std::abs(std::log2(asDouble(c.ranks_per_node) / asDouble(spread.ranks_per_node)));
        if (distance >= best_distance) continue;
        best = &c;
        best_distance = distance;
    }
    return best;
}

Cost CostModel::communication(const CommunicationWork& work) const {
    const double calls = asDouble(std::max<std::int64_t>(1, work.calls));
    const double buffer = std::max(work.bytes.value, work.hottest_bytes.value) / calls;
    if (work.group_size <= 1 || buffer <= 0.0) return {};
    GroupSpread place = spreadOf(work.dimension);
    if (work.kind != CollectiveKind::PointToPoint && place.size != work.group_size)
        place = spread(1, work.group_size);  // a group that is not one of the layout's
    Cost model = alphaBeta(work.kind, place, Bytes(buffer));
    const CollectiveCurve* curve = nearestCurve(work.kind, place);
    if (curve == nullptr) {
        if (model.time.value <= 0.0) model = costOf(model.time, EvidenceKind::Assumed, true);
        return model * calls;
    }
    const Interpolated at =
        interpolateRatio(curve->points, std::log2(messageOf(work.kind, place.size, buffer)));
    const bool same = work.kind == CollectiveKind::PointToPoint ||
                      (curve->ranks == place.size && curve->ranks_per_node == place.ranks_per_node);
    const double base = model.time.value > 0.0 ? model.time.value : 1.0;
    return costOf(Seconds(base * at.value), EvidenceKind::Measured, at.extrapolated || !same) *
           calls;
}

}  // namespace piper
