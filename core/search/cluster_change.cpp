// SPDX-License-Identifier: Apache-2.0
#include "core/search/cluster_change.h"

#include <algorithm>

#include "core/base/enum_text.h"

namespace piper {
namespace {

void scale(LinkLevel& level, double factor) {
    level.bandwidth *= factor;
    level.port_bandwidth *= factor;
    level.evidence = {EvidenceKind::Assumed, 0.0, 0.0, false};
}

}  // namespace

ClusterSpec withDevices(ClusterSpec cluster, std::int64_t devices) {
    cluster.devices_per_node = std::min(cluster.devices_per_node, devices);
    cluster.nodes = devices / cluster.devices_per_node;
    std::int64_t inner = 1;
    std::vector<LinkLevel> levels;
    for (LinkLevel& level : cluster.levels) {
        level.domain_devices = std::min(level.domain_devices, cluster.numDevices());
        if (level.domain_devices <= inner && !levels.empty()) continue;
        inner = level.domain_devices;
        levels.push_back(std::move(level));
    }
    if (!levels.empty()) levels.back().domain_devices = cluster.numDevices();
    cluster.levels = std::move(levels);
    return cluster;
}

ClusterSpec withNodes(const ClusterSpec& cluster, std::int64_t nodes) {
    return withDevices(cluster, nodes * cluster.devices_per_node);
}

ClusterSpec withMemory(ClusterSpec cluster, double factor) {
    cluster.device.memory *= factor;
    return cluster;
}

ClusterSpec withLinks(ClusterSpec cluster, bool network, double factor) {
    for (LinkLevel& level : cluster.levels)
        if ((level.domain_devices > cluster.devices_per_node) == network) scale(level, factor);
    cluster.curves.collective.clear();
    return cluster;
}

Result<ClusterSpec> withLink(ClusterSpec cluster, std::string_view level, double factor) {
    std::vector<std::string_view> names;
    for (const LinkLevel& l : cluster.levels) names.push_back(l.name);
    const auto found = std::ranges::find(cluster.levels, level, &LinkLevel::name);
    if (found == cluster.levels.end())
        return fail(ErrorCode::InvalidInput, "{} has no link level '{}'; nearest: '{}'",
                    cluster.name, level, nearestWord(level, names));
    scale(*found, factor);
    cluster.curves.collective.clear();
    return cluster;
}

}  // namespace piper
