// SPDX-License-Identifier: Apache-2.0
#include "core/cost/communication.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/cast.h"
#include "core/cost/cost.h"
#include "core/cost/curves.h"
#include "core/resources/exchange.h"
#include "core/resources/routing.h"

namespace piper {

namespace {

constexpr std::array<std::string_view, 7> kDimensions = {"tp", "cp",  "dp", "pp",
                                                         "ep", "etp", "edp"};

/// The whole buffer of a rank, as nccl-tests counts it, from what the rank sends to others.
double bufferOf(CollectiveKind kind, std::int64_t ranks, double payload) {
    const double g = asDouble(ranks);
    switch (kind) {
        case CollectiveKind::PointToPoint:
            return payload;
        case CollectiveKind::AllReduce:
            return payload * g / (g - 1.0) / 2.0;
        default:
            return payload * g / (g - 1.0);
    }
}

/// What a measured point of a cluster file names: bytes per pair of an all-to-all, else the buffer.
double messageOf(CollectiveKind kind, std::int64_t ranks, double payload) {
    return kind == CollectiveKind::AllToAll ? payload / asDouble(ranks - 1)
                                            : bufferOf(kind, ranks, payload);
}

double payloadOf(CollectiveKind kind, std::int64_t ranks, double message) {
    const double g = asDouble(ranks);
    switch (kind) {
        case CollectiveKind::AllToAll:
            return message * (g - 1.0);
        case CollectiveKind::PointToPoint:
            return message;
        case CollectiveKind::AllReduce:
            return message * 2.0 * (g - 1.0) / g;
        default:
            return message * (g - 1.0) / g;
    }
}

/// NVLink and xGMI keep their name over racks; anything else beyond a node is a network.
bool isNetwork(const ClusterSpec& cluster, const LinkLevel& level) {
    return level.domain_devices > cluster.devices_per_node && !level.name.starts_with("nvlink") &&
           !level.name.starts_with("xgmi");
}

/// Ranks of a node gather what goes to another node.
bool stagesByNode(AllToAllAlgorithm algorithm) {
    return algorithm == AllToAllAlgorithm::Node || algorithm == AllToAllAlgorithm::NodePair ||
           algorithm == AllToAllAlgorithm::NodeDedup;
}

/// Ranges by what stands behind a published figure: a curve of this group; one of another group or
/// size (whole curves left out of the tables: 0.85-1.15); the constants alone.
struct Range {
    double low, high;
};
constexpr Range kCurve = {kPublishedLow, kPublishedHigh};
constexpr Range kNearCurve = {0.75, 1.35};
constexpr Range kConstants = {0.6, 1.7};

/// Rings of RCCL over xGMI: no published rows of their own.
bool assumedConstants(CallKind kind, LinkFamily family) {
    const bool ring = kind == CallKind::AllReduce || kind == CallKind::AllGather ||
                      kind == CallKind::ReduceScatter;
    return ring && (family == LinkFamily::Cdna2 || family == LinkFamily::Cdna3);
}

Cost ranged(Seconds time, EvidenceKind kind, Range range, bool extrapolated) {
    return {time, {kind, time.value * range.low, time.value * range.high, extrapolated}};
}

}  // namespace

CommunicationModel::CommunicationModel(const Plan& plan)
    : m_plan(plan), m_family(linkFamily(plan.cluster.device.name)) {
    if (plan.cluster.device.kind == DeviceKind::Cpu) m_family = LinkFamily::Unknown;
    layoutChanged();
}

void CommunicationModel::layoutChanged() {
    if (m_indexed != m_plan.all_to_all.algorithm) indexMeasured();
    const bool same_exchange = m_exchange == m_plan.all_to_all;
    m_exchange = m_plan.all_to_all;
    m_dimensions.resize(kDimensions.size());
    for (std::size_t i = 0; i < kDimensions.size(); ++i) {
        const GroupAxes axes = groupAxes(m_plan.layout, m_plan.rank_order, kDimensions[i]);
        if (same_exchange && m_dimensions[i].axes == axes) {
            // Tokens and layers of a stage decide what is deduplicated, not the group alone.
            if (kDimensions[i] == "ep")
                m_dimensions[i].sent_share = sentShare(m_dimensions[i].spread);
            continue;
        }
        m_dimensions[i] = dimension(kDimensions[i], axes);
    }
}

CommunicationModel::Dimension CommunicationModel::dimension(std::string_view name,
                                                            const GroupAxes& axes) const {
    Dimension out;
    out.name = name;
    out.axes = axes;
    out.spread = spreadOver(m_plan.cluster, axes);
    const std::int64_t per_node = m_plan.cluster.devices_per_node;
    // Of a pipeline with several stages a node only the outer ones send out of it.
    const std::int64_t active =
        name == "pp" && axes.count > 0 ? std::min(axes.axes[0].stride, per_node) : per_node;
    out.place = placeOf(out.spread, active);
    if (out.spread.size <= 1) return out;
    for (std::size_t i = 0; i < kCollectives; ++i) {
        const auto kind = static_cast<CollectiveKind>(i);
        const bool used = kind == CollectiveKind::AllToAll       ? name == "ep"
                          : kind == CollectiveKind::PointToPoint ? name == "pp"
                                                                 : name != "ep" && name != "pp";
        if (!used) continue;
        out.measured[i] = nearestCurve(kind, out.spread);
        if (out.measured[i] == nullptr && m_family != LinkFamily::Unknown)
            out.published[i] = publishedMatch(callKind(kind, false, out.place), out.place);
    }
    if (name == "ep") out.sent_share = sentShare(out.spread);
    if (name == "ep" && movesTokens(m_plan.all_to_all.library))
        out.combine =
            publishedMatch(callKind(CollectiveKind::AllToAll, true, out.place), out.place);
    return out;
}

GroupSpread CommunicationModel::spreadOf(std::string_view dimension) const {
    for (const Dimension& d : m_dimensions)
        if (d.name == dimension) return d.spread;
    return {};
}

/// `active`: devices of a node that use the NICs at once; fewer than all may have more each, up to
/// what one port carries.
CallPlace CommunicationModel::placeOf(const GroupSpread& spread, std::int64_t active) const {
    const ClusterSpec& cluster = m_plan.cluster;
    CallPlace out;
    out.family = m_family;
    out.ranks = spread.size;
    out.nodes = spread.nodes;
    double taper = 1.0;
    for (std::size_t i = 0; i < cluster.levels.size() && out.num_steps < out.steps.size(); ++i) {
        const LinkLevel& level = cluster.levels[i];
        LinkStep step;
        step.members = spread.members[i];
        step.network = isNetwork(cluster, level);
        step.slingshot = level.name.starts_with("slingshot");
        step.latency = level.latency.value;
        step.measured = level.evidence.kind == EvidenceKind::Measured;
        double bandwidth = level.bandwidth.value;
        if (step.network && active < cluster.devices_per_node)
            bandwidth =
                std::max(bandwidth, std::min(level.port_bandwidth.value,
                                             bandwidth * asDouble(cluster.devices_per_node) /
                                                 asDouble(std::max<std::int64_t>(1, active))));
        step.bandwidth = bandwidth / taper;
        taper *= std::max(1.0, level.taper);
        out.steps[out.num_steps++] = step;
    }
    return out;
}

CallKind CommunicationModel::callKind(CollectiveKind kind, bool combine,
                                      const CallPlace& place) const {
    switch (kind) {
        case CollectiveKind::AllReduce:
            return CallKind::AllReduce;
        case CollectiveKind::AllGather:
            return CallKind::AllGather;
        case CollectiveKind::ReduceScatter:
            return CallKind::ReduceScatter;
        case CollectiveKind::PointToPoint:
            return CallKind::PointToPoint;
        case CollectiveKind::AllToAll:
            break;
    }
    if (movesTokens(m_plan.all_to_all.library))
        return combine ? CallKind::Combine : CallKind::Dispatch;
    if (!place.crossesNetwork()) return CallKind::AllToAll;
    const AllToAllAlgorithm algorithm = m_plan.all_to_all.algorithm;
    if (algorithm == AllToAllAlgorithm::Flat) return CallKind::CrossRailAllToAll;
    // NCCL takes rails by itself (PXN).
    return stagesByNode(algorithm) ? CallKind::NodeAllToAll : CallKind::AllToAll;
}

PublishedCurves::Match CommunicationModel::publishedMatch(CallKind kind,
                                                          const CallPlace& place) const {
    PublishedCall call;
    call.kind = kind;
    call.device = m_plan.cluster.device.name;
    call.ranks = place.ranks;
    call.nodes = place.nodes;
    // Rows of the library that the plan names stand nearer than those of others.
    if (isExpertParallel(kind) && movesTokens(m_plan.all_to_all.library))
        call.library =
            m_plan.all_to_all.library == AllToAllLibrary::HybridEp ? "HybridEP" : "DeepEP";
    if (isExpertParallel(kind))
        call.size.row_bytes =
            asDouble(m_plan.model.hidden_size) * activationElementBytes(m_plan.precision).value;
    return PublishedCurves::bundled().match(call, place.crossesNetwork());
}

/// Alpha-beta by link level. A member reaches members[i] - members[i-1] others over level i and no
/// nearer one; a level's bandwidth is its own over the tapers of the domains below it.
///   all-to-all:     latency * messages + max over levels of (bytes to those members / bandwidth)
///   ring reduction: what the rank sends, over the nearest level, and over level i shared by the
///                   members[i-1] members of a domain; latency of one step per member on the
///                   nearest level, of a tree's ceil(log2) steps above.
///   point to point: the level that joins both ends.
Cost CommunicationModel::alphaBeta(CollectiveKind kind, const GroupSpread& spread,
                                   double payload) const {
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
                moving = payload / bandwidth;
            } else if (kind == CollectiveKind::AllToAll) {
                latency += levels[i].latency.value * peers;
                moving = std::max(moving, payload * peers / (g - 1.0) / bandwidth);
            } else {
                const double domains = std::ceil(asDouble(here) / asDouble(below));
                const double steps = below == 1 ? domains - 1.0 : std::ceil(std::log2(domains));
                latency += passes * steps * levels[i].latency.value;
                moving = std::max(moving, payload / (bandwidth * asDouble(below)));
            }
        }
        taper *= std::max(1.0, levels[i].taper);
        below = std::max(below, here);
    }
    return costOf(Seconds(latency + moving), evidence, false);
}

void CommunicationModel::indexMeasured() {
    m_measured.clear();
    m_indexed = m_plan.all_to_all.algorithm;
    const ClusterSpec& cluster = m_plan.cluster;
    for (const CollectivePoint& p : cluster.curves.collective) {
        const bool staged = stagesByNode(m_plan.all_to_all.algorithm);
        if (p.kind == CollectiveKind::AllToAll && !p.algorithm.empty() &&
            (p.algorithm == "node") != staged)
            continue;
        if (p.ranks < 2 || p.time.value <= 0.0 || p.message.value <= 0.0) continue;
        auto curve = std::find_if(m_measured.begin(), m_measured.end(), [&](const auto& c) {
            return c.kind == p.kind && c.ranks == p.ranks && c.ranks_per_node == p.ranks_per_node;
        });
        if (curve == m_measured.end()) {
            m_measured.push_back({p.kind, p.ranks, p.ranks_per_node, {}});
            curve = m_measured.end() - 1;
        }
        GroupAxes axes;
        axes.count = 1;
        axes.axes[0] = {std::max<std::int64_t>(1, cluster.devices_per_node /
                                                      std::max<std::int64_t>(1, p.ranks_per_node)),
                        p.ranks};
        axes.world = axes.axes[0].stride * p.ranks;
        const Seconds model = alphaBeta(p.kind, spreadOver(cluster, axes),
                                        payloadOf(p.kind, p.ranks, p.message.value))
                                  .time;
        // Without a link to model, the measured time itself is what is scaled.
        curve->points.push_back(
            {std::log2(p.message.value), p.time.value / (model.value > 0.0 ? model.value : 1.0)});
    }
    for (MeasuredCurve& c : m_measured) sortBySize(c.points);
}

const CommunicationModel::MeasuredCurve* CommunicationModel::nearestCurve(
    CollectiveKind kind, const GroupSpread& spread) const {
    const MeasuredCurve* best = nullptr;
    double best_distance = std::numeric_limits<double>::max();
    for (const MeasuredCurve& c : m_measured) {
        if (c.kind != kind) continue;
        const double distance =
            std::abs(std::log2(asDouble(c.ranks) / asDouble(spread.size))) +
            std::abs(std::log2(asDouble(std::max<std::int64_t>(1, c.ranks_per_node)) /
                               asDouble(spread.ranks_per_node)));
        if (distance >= best_distance) continue;
        best = &c;
        best_distance = distance;
    }
    return best;
}

Cost CommunicationModel::measuredCost(CollectiveKind kind, const Dimension& at,
                                      double payload) const {
    const MeasuredCurve& curve = *at.measured[static_cast<std::size_t>(kind)];
    const Cost model = alphaBeta(kind, at.spread, payload);
    const Interpolated ratio =
        interpolateRatio(curve.points, std::log2(messageOf(kind, at.spread.size, payload)));
    const bool same =
        kind == CollectiveKind::PointToPoint ||
        (curve.ranks == at.spread.size && curve.ranks_per_node == at.spread.ranks_per_node);
    const double base = model.time.value > 0.0 ? model.time.value : 1.0;
    return costOf(Seconds(base * ratio.value), EvidenceKind::Measured, ratio.extrapolated || !same);
}

Cost CommunicationModel::publishedCost(const CommunicationWork& work, const Dimension& at,
                                       double payload) const {
    const CallKind kind = callKind(work.kind, work.combine, at.place);
    CallSize size;
    size.bytes = bufferOf(work.kind, at.spread.size, payload);
    if (isExpertParallel(kind) && m_plan.model.moe) {
        size.topk = asDouble(m_plan.model.moe->router_topk);
        size.node_limit = nodeLimit(m_plan, at.spread.nodes);
        size.row_bytes =
            asDouble(m_plan.model.hidden_size) * activationElementBytes(m_plan.precision).value;
    }
    const Seconds model = modelCall(kind, size, at.place);
    const PublishedCurves::Match& match = work.combine && isExpertParallel(kind)
                                              ? at.combine
                                              : at.published[static_cast<std::size_t>(work.kind)];
    if (match.count == 0)
        return ranged(model,
                      assumedConstants(kind, at.place.family) ? EvidenceKind::Assumed
                                                              : EvidenceKind::Published,
                      kConstants, true);
    const PublishedCurves::Ratio ratio = PublishedCurves::bundled().ratio(match, size.bytes);
    return ranged(model * ratio.value, EvidenceKind::Published,
                  ratio.extrapolated ? kNearCurve : kCurve, ratio.extrapolated);
}

/// Of the rows of (token, expert) pairs, the share that node_dedup sends between nodes: a token
/// once to each node, one sum back (docs/alltoall.md).
double CommunicationModel::sentShare(const GroupSpread& spread) const {
    if (!m_plan.model.moe || movesTokens(m_plan) || spread.nodes <= 1 ||
        spread.size != m_plan.layout.ep ||
        exchangeAlgorithm(m_plan) != AllToAllAlgorithm::NodeDedup)
        return 1.0;
    const auto sent = [&](AllToAllAlgorithm algorithm) {
        return stageExchangeRows(m_plan, algorithm, StageId(0)).between_nodes;
    };
    return sent(AllToAllAlgorithm::NodeDedup) / sent(AllToAllAlgorithm::Flat);
}

Cost CommunicationModel::cost(const CommunicationWork& work) const {
    const double calls = asDouble(std::max<std::int64_t>(1, work.calls));
    const bool exchange = work.kind == CollectiveKind::AllToAll;
    double payload =
        exchange ? work.hottest_bytes.value : std::max(work.bytes.value, work.hottest_bytes.value);
    payload /= calls;
    if (work.group_size <= 1 || payload <= 0.0) return {};
    const Dimension* at = nullptr;
    for (const Dimension& d : m_dimensions)
        if (d.name == work.dimension) at = &d;
    Dimension other;
    if (at == nullptr ||
        (work.kind != CollectiveKind::PointToPoint && at->spread.size != work.group_size)) {
        // A group that is not one of the layout's: consecutive ranks.
        GroupAxes axes;
        axes.count = 1;
        axes.axes[0] = {1, work.group_size};
        other = dimension(exchange                                    ? "ep"
                          : work.kind == CollectiveKind::PointToPoint ? "pp"
                                                                      : "tp",
                          axes);
        at = &other;
    }
    if (at->spread.size <= 1) return {};
    payload *= at->sent_share;
    if (at->measured[static_cast<std::size_t>(work.kind)] != nullptr)
        return measuredCost(work.kind, *at, payload) * calls;
    if (m_family != LinkFamily::Unknown) return publishedCost(work, *at, payload) * calls;
    Cost model = alphaBeta(work.kind, at->spread, payload);
    if (model.time.value <= 0.0) model = costOf(model.time, EvidenceKind::Assumed, true);
    return model * calls;
}

}  // namespace piper
