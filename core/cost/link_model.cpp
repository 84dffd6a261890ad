// SPDX-License-Identifier: Apache-2.0
// Calls between devices as alpha, beta and ramp. Sources of the constants: docs/formulas.md,
// "Communication constants".
#include "core/cost/link_model.h"

#include <algorithm>
#include <cmath>

#include "core/base/cast.h"

namespace piper {

template <>
std::span<const EnumName<CallKind>> enumNames<CallKind>() {
    static constexpr EnumName<CallKind> rows[] = {
        {CallKind::AllToAll, "all_to_all"},
        {CallKind::AllReduce, "all_reduce"},
        {CallKind::AllGather, "all_gather"},
        {CallKind::ReduceScatter, "reduce_scatter"},
        {CallKind::Dispatch, "dispatch"},
        {CallKind::Combine, "combine"},
        {CallKind::LowLatencyDispatch, "low_latency_dispatch"},
        {CallKind::LowLatencyCombine, "low_latency_combine"},
        {CallKind::CrossRailAllToAll, "cross_rail_all_to_all"},
        {CallKind::RailAllToAll, "rail_all_to_all"},
        {CallKind::NodeAllToAll, "node_all_to_all"},
        {CallKind::PointToPoint, "point_to_point"}};
    return rows;
}

namespace {

constexpr double us(double v) {
    return v * 1e-6;
}

/// Rings (all-reduce, all-gather, reduce-scatter) of NCCL or RCCL inside the scale-up domain.
constexpr LinkConstants ringConstants(LinkFamily family) {
    switch (family) {
        case LinkFamily::Ampere:
            return {us(9.3), us(0.87), us(28.6), 0.0, 0.21, 0.63};
        case LinkFamily::Hopper:
            return {us(5.2), us(0.85), us(17.7), 0.0, 0.28, 0.69};
        case LinkFamily::Blackwell:
            return {us(7.8), us(1.3), us(17.5), us(2.1), 0.26, 0.66};
        case LinkFamily::RackScale:
            return {us(8.3), us(1.2), us(11.8), us(3.9), 0.24, 0.635};
        case LinkFamily::Pcie:
            return {us(4.0), us(1.6), us(0.3), us(5.3), 0.18, 0.41};
        case LinkFamily::Cdna2:
        case LinkFamily::Cdna3:
            return {us(20.0), us(1.0), us(5.0), us(1.0), 0.20, 0.70};
        case LinkFamily::Unknown:
            break;
    }
    return {};
}

/// Grouped send and receive of NCCL or RCCL inside the scale-up domain.
constexpr LinkConstants pairConstants(LinkFamily family) {
    switch (family) {
        case LinkFamily::Ampere:
            return {us(11.9), us(0.26), us(18.0), 0.0, 0.21, 0.60};
        case LinkFamily::Hopper:
            return {us(6.5), us(0.37), us(6.3), 0.0, 0.041, 0.62};
        case LinkFamily::Blackwell:
            return {us(9.5), us(0.20), us(6.7), 0.0, 0.026, 0.49};
        case LinkFamily::RackScale:
            return {us(10.0), us(0.055), us(6.1), 0.0, 0.013, 0.453};
        case LinkFamily::Pcie:
            return {us(5.4), us(0.67), 0.0, us(2.9), 0.061, 0.354};
        case LinkFamily::Cdna2:
            return {us(29.0), us(0.20), us(5.0), 0.0, 0.20, 0.42};
        case LinkFamily::Cdna3:
            return {us(29.0), us(0.20), us(5.0), 0.0, 0.20, 0.80};
        case LinkFamily::Unknown:
            break;
    }
    return {};
}

/// DeepEP and its like inside the scale-up domain; low-latency kernels start sooner.
constexpr LinkConstants expertConstants(LinkFamily family, CallKind kind) {
    const bool combine = kind == CallKind::Combine || kind == CallKind::LowLatencyCombine;
    const bool low = kind == CallKind::LowLatencyDispatch || kind == CallKind::LowLatencyCombine;
    const bool newer = family == LinkFamily::Blackwell || family == LinkFamily::RackScale;
    if (family == LinkFamily::Unknown) return {};
    if (low) return {newer ? us(16) : us(12), 0, 0, 0, 0, newer ? 0.58 : 0.52};
    if (newer) return {combine ? us(45) : us(37), 0, 0, 0, 0, combine ? 0.48 : 0.36};
    return {combine ? us(50) : us(35), 0, 0, 0, 0, combine ? 0.67 : 0.66};
}

/// Over NICs. Ring steps: the network latencies of NCCL's own tuner (src/graph/tuning.cc: ring
/// low-latency 2.7 us at a quarter of the rate, simple 9.6 us; tree 5 us).
constexpr LinkConstants kNetworkRing = {0.0, us(2.7), 0.0, us(9.6), 0.25, 0.93};
constexpr double kTreeStep = us(5.0), kTreeShare = 0.9;
constexpr double kNetworkLaunch = us(20);  ///< proxies and NICs, before an all-to-all's first byte
constexpr double kNetworkPeer = us(0.25);
constexpr double kRailShare = 0.84;  ///< over the neighbour on the receiver's rail
/// RCCL over Slingshot: inside one switch (four nodes); a group that leaves it.
constexpr double kSlingshotShare = 0.70, kSlingshotFarShare = 0.37;
constexpr double kExpertShare = 0.92;    ///< low-latency and normal kernels with 4 and more nodes
constexpr double kExpertTwoNodes = 0.8;  ///< two nodes: the forwarding through NVLink bounds
constexpr double kExpertNetwork = us(10);
constexpr double kMessageShare = 0.93;

/// Straight to the receiver: share falls with the nodes that send to one NIC at a time.
double crossRailShare(double domains) {
    return std::max(0.5, 0.82 - 0.32 * std::log2(std::max(1.0, domains / 2.0)));
}

/// Members of a level's next inner domain.
std::int64_t below(const CallPlace& place, std::size_t level) {
    return level == 0 ? 1 : place.steps[level - 1].members;
}

/// Members that share the scale-up domain.
std::int64_t scaleUpMembers(const CallPlace& place) {
    std::int64_t members = 1;
    for (const LinkStep& step : place.levels())
        if (!step.network) members = std::max(members, step.members);
    return members;
}

double shareOf(const LinkStep& step, double share) {
    return step.measured ? 1.0 : share;
}

/// Latency of the fabrics on which the constants were measured.
constexpr double kUsualLatency = us(6);
double slower(const LinkStep& step) {
    return std::max(1.0, step.latency / kUsualLatency);
}
/// The slowest network a group crosses, over those of the constants.
double slowest(const CallPlace& place) {
    double factor = 1.0;
    for (std::size_t i = 0; i < place.num_steps; ++i)
        if (place.steps[i].network && place.steps[i].members > below(place, i))
            factor = std::max(factor, slower(place.steps[i]));
    return factor;
}

struct Protocol {
    double launch, near_step, near_share, far_step, far_share;
};

/// Ring or tree of one protocol: every level carries the whole of it, shared by the members of the
/// domain below.
double ringTime(const CallPlace& place, double passes, double bytes, const Protocol& p, bool tree) {
    const double g = asDouble(place.ranks);
    const double domains = std::max(1.0, std::ceil(g / asDouble(scaleUpMembers(place))));
    double moving = 0.0;
    for (std::size_t i = 0; i < place.num_steps; ++i) {
        const LinkStep& step = place.steps[i];
        const std::int64_t inner = below(place, i);
        if (step.members <= inner || step.bandwidth <= 0.0) continue;
        const double share = shareOf(step, step.network ? p.far_share : p.near_share);
        moving = std::max(
            moving, passes * (g - 1.0) / g * bytes / (step.bandwidth * asDouble(inner) * share));
    }
    const double far = tree ? 2.0 * std::ceil(std::log2(domains)) : passes * (domains - 1.0);
    const double near = tree ? 2.0 * (g / domains - 1.0) : passes * (g - domains);
    return p.launch + near * p.near_step + far * p.far_step * slowest(place) + moving;
}

double ringCall(CallKind kind, double bytes, const CallPlace& place) {
    const LinkConstants c = ringConstants(place.family);
    const LinkConstants& n = kNetworkRing;
    const double passes = kind == CallKind::AllReduce ? 2.0 : 1.0;
    const Protocol low = {c.launch, c.step, c.low_share, n.step, n.low_share};
    const Protocol simple = {c.launch + c.ramp, c.simple_step, c.share, n.simple_step, n.share};
    double best = std::min(ringTime(place, passes, bytes, low, false),
                           ringTime(place, passes, bytes, simple, false));
    if (kind == CallKind::AllReduce && place.crossesNetwork()) {
        const Protocol tree_low = {c.launch, c.step, c.low_share, kTreeStep, n.low_share};
        const Protocol tree = {c.launch + c.ramp, c.step, c.share * kTreeShare,
                               n.simple_step + kTreeStep, n.share * kTreeShare};
        best = std::min({best, ringTime(place, passes, bytes, tree_low, true),
                         ringTime(place, passes, bytes, tree, true)});
    }
    return best;
}

/// Networks that the group crosses, one above the other.
std::int64_t crossedNetworks(const CallPlace& place) {
    std::int64_t crossed = 0;
    for (std::size_t i = 0; i < place.num_steps; ++i)
        crossed += place.steps[i].network && place.steps[i].members > below(place, i);
    return crossed;
}

/// Share of a NIC in an all-to-all.
double networkShare(CallKind kind, const LinkStep& step, double domains, std::int64_t crossed) {
    if (step.slingshot) return crossed > 1 ? kSlingshotFarShare : kSlingshotShare;
    return kind == CallKind::CrossRailAllToAll ? crossRailShare(domains) : kRailShare;
}

/// Each level moves what goes to the members it joins and no nearer one does; through a NIC goes
/// what any network takes farther besides.
double pairCall(CallKind kind, double bytes, const CallPlace& place) {
    const LinkConstants c = pairConstants(place.family);
    const double g = asDouble(place.ranks);
    const double domains = std::ceil(g / asDouble(scaleUpMembers(place)));
    const std::int64_t crossed = crossedNetworks(place);
    double low = c.launch, simple = c.launch + c.ramp, low_move = 0.0, simple_move = 0.0;
    for (std::size_t i = 0; i < place.num_steps; ++i) {
        const LinkStep& step = place.steps[i];
        const double peers = asDouble(step.members - below(place, i));
        if (peers <= 0.0 || step.bandwidth <= 0.0) continue;
        const double away = step.network ? g - asDouble(below(place, i)) : peers;
        const double wire = bytes * away / g / step.bandwidth;
        const double network = networkShare(kind, step, domains, crossed);
        const double peer = kNetworkPeer * slower(step);
        low += peers * (step.network ? peer : c.step);
        simple += peers * (step.network ? peer : c.simple_step);
        low_move = std::max(low_move, wire / shareOf(step, step.network ? network : c.low_share));
        simple_move = std::max(simple_move, wire / shareOf(step, step.network ? network : c.share));
    }
    const double far = place.crossesNetwork() ? kNetworkLaunch * slowest(place) : 0.0;
    return far + std::min(low + low_move, simple + simple_move);
}

/// Three phases, the first beside the other two: inside the node; one message a pair of nodes,
/// which the ranks of a node share out among them; what came from outside once more inside.
double nodeCall(double bytes, const CallPlace& place) {
    const LinkConstants c = pairConstants(place.family);
    const double g = asDouble(place.ranks), m = asDouble(scaleUpMembers(place));
    const double domains = std::max(1.0, std::ceil(g / m));
    if (!place.crossesNetwork() || m <= 1.0) return pairCall(CallKind::RailAllToAll, bytes, place);
    double inside_rate = 0.0, outside = 0.0;
    for (std::size_t i = 0; i < place.num_steps; ++i) {
        const LinkStep& step = place.steps[i];
        const double peers = asDouble(step.members - below(place, i));
        if (peers <= 0.0 || step.bandwidth <= 0.0) continue;
        const double share =
            step.network ? (step.slingshot ? kSlingshotShare : kRailShare) : c.share;
        const double rate = step.bandwidth * shareOf(step, share);
        if (step.network)
            outside = std::max(outside, bytes * peers / g / rate);
        else
            inside_rate = inside_rate > 0.0 ? std::min(inside_rate, rate) : rate;
    }
    if (inside_rate <= 0.0) return pairCall(CallKind::RailAllToAll, bytes, place);
    const double first = c.launch + bytes * m / g * (m - 1.0) / m / inside_rate;
    const double second =
        (kNetworkLaunch + kNetworkPeer * std::ceil((domains - 1.0) / m)) * slowest(place) + outside;
    const double third = c.launch + c.ramp + bytes * (g - m) / g * (m - 1.0) / m / inside_rate;
    return std::max(first, second + third);
}

/// Rows sent once to a domain and spread there; low-latency kernels send each row by itself.
double expertCall(CallKind kind, const CallSize& size, const CallPlace& place) {
    const LinkConstants c = expertConstants(place.family, kind);
    const bool low = kind == CallKind::LowLatencyDispatch || kind == CallKind::LowLatencyCombine;
    const double g = asDouble(place.ranks), m = asDouble(scaleUpMembers(place));
    const double domains = std::max(1.0, std::ceil(g / m));
    const double k = std::max(1.0, size.topk);
    const double token = size.bytes / k;  // every token once
    const double reach =
        size.node_limit > 0 ? std::min(domains, asDouble(size.node_limit)) : domains;
    double inside = low ? size.bytes / domains : token * distinctDomains(g, k);
    double moving = 0.0;
    for (std::size_t i = 0; i < place.num_steps; ++i) {
        const LinkStep& step = place.steps[i];
        if (step.members <= below(place, i) || step.bandwidth <= 0.0) continue;
        const double away = (domains - 1.0) / domains;
        const double wire = step.network
                                ? (low ? size.bytes : token * distinctDomains(reach, k)) * away
                                : inside * (m - 1.0) / m;
        const double network = low || domains > 2.0 ? kExpertShare : kExpertTwoNodes;
        moving = std::max(
            moving, wire / (step.bandwidth * shareOf(step, step.network ? network : c.share)));
    }
    return c.launch + (place.crossesNetwork() ? kExpertNetwork * slowest(place) : 0.0) + moving;
}

/// The level that joins the ends is the outermost one.
double messageCall(double bytes, const CallPlace& place) {
    const LinkConstants c = pairConstants(place.family);
    for (std::size_t i = place.num_steps; i-- > 0;) {
        const LinkStep& step = place.steps[i];
        if (step.members <= below(place, i) || step.bandwidth <= 0.0) continue;
        if (step.network)
            return c.launch + step.latency +
                   bytes / (step.bandwidth * shareOf(step, kMessageShare));
        return std::min(c.launch + bytes / (step.bandwidth * shareOf(step, c.low_share)),
                        c.launch + c.ramp + bytes / (step.bandwidth * shareOf(step, c.share)));
    }
    return 0.0;
}

}  // namespace

LinkFamily linkFamily(std::string_view name) {
    if (contains(name, "GB200") || contains(name, "GB300")) return LinkFamily::RackScale;
    if (contains(name, "L40") || contains(name, "PCIe") || contains(name, "RTX"))
        return LinkFamily::Pcie;
    if (contains(name, "B200") || contains(name, "B300") || contains(name, "SM100"))
        return LinkFamily::Blackwell;
    for (const char* part : {"H100", "H200", "H800", "H20", "SM90", "unspecified 400G"})
        if (contains(name, part)) return LinkFamily::Hopper;
    if (contains(name, "A100") || contains(name, "A800") || contains(name, "V100"))
        return LinkFamily::Ampere;
    if (contains(name, "MI2")) return LinkFamily::Cdna2;
    if (contains(name, "MI3") || contains(name, "AMD")) return LinkFamily::Cdna3;
    return LinkFamily::Unknown;
}

bool CallPlace::crossesNetwork() const {
    std::int64_t inner = 1;
    for (const LinkStep& step : levels()) {
        if (step.network && step.members > inner) return true;
        inner = std::max(inner, step.members);
    }
    return false;
}

CallPlace usualPlace(std::string_view device, std::int64_t ranks, std::int64_t nodes) {
    CallPlace out;
    out.family = linkFamily(device);
    out.ranks = ranks;
    out.nodes = nodes;
    const std::int64_t per_node = std::max<std::int64_t>(1, (ranks + nodes - 1) / nodes);
    struct Usual {
        double scale_up, network;
        std::int64_t domain;
    };
    const auto usual = [&]() -> Usual {
        switch (out.family) {
            case LinkFamily::Ampere:
                return {300e9, 25e9, 8};
            case LinkFamily::Blackwell:
                return {900e9, 50e9, 8};
            case LinkFamily::RackScale:
                return {900e9, 100e9, 72};
            case LinkFamily::Pcie:
                return {64e9, 50e9, 8};
            case LinkFamily::Cdna3:
                return {448e9, 50e9, 8};
            default:
                return {450e9, 50e9, 8};
        }
    };
    Usual links = usual();
    if (const Result<DeviceSpec> known = findDevice(device); known.ok()) {
        // Wide enough for every level: only the innermost and the outermost rates are taken.
        const auto levels = defaultLevels(device, per_node, std::max<std::int64_t>(nodes, 512));
        if (levels.ok() && levels->size() > 1) {
            links.scale_up = levels->front().bandwidth.value;
            links.network = levels->back().bandwidth.value;
        }
    }
    const std::int64_t inside =
        out.family == LinkFamily::RackScale ? std::min(ranks, links.domain) : per_node;
    out.steps[out.num_steps++] = {inside, links.scale_up, 3e-6};
    if (inside < ranks) out.steps[out.num_steps++] = {ranks, links.network, kUsualLatency, true};
    return out;
}

double distinctDomains(double n, double k) {
    return n <= 1.0 ? 1.0 : n * (1.0 - std::pow(1.0 - 1.0 / n, k));
}

Seconds modelCall(CallKind kind, const CallSize& size, const CallPlace& place) {
    if (place.family == LinkFamily::Unknown || place.ranks < 2 || size.bytes <= 0.0) return {};
    switch (kind) {
        case CallKind::AllReduce:
        case CallKind::AllGather:
        case CallKind::ReduceScatter:
            return Seconds(ringCall(kind, size.bytes, place));
        case CallKind::PointToPoint:
            return Seconds(messageCall(size.bytes, place));
        case CallKind::AllToAll:
        case CallKind::CrossRailAllToAll:
        case CallKind::RailAllToAll:
            return Seconds(pairCall(kind, size.bytes, place));
        case CallKind::NodeAllToAll:
            return Seconds(nodeCall(size.bytes, place));
        default:
            return Seconds(expertCall(kind, size, place));
    }
}

}  // namespace piper
