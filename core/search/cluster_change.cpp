// SPDX-License-Identifier: Apache-2.0
#include "core/search/cluster_change.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/enum_text.h"
#include "core/plan/placement.h"

namespace piper {
namespace {

bool isNetwork(const ClusterSpec& cluster, const LinkLevel& level) {
    return level.domain_devices > cluster.devices_per_node;
}

/// Whether ranks of the measured group meet on that level only.
bool crosses(const ClusterSpec& cluster, const CollectivePoint& point, std::size_t level) {
    GroupAxes axes;
    axes.count = 1;
    const std::int64_t on_node = std::max<std::int64_t>(1, point.ranks_per_node);
    axes.axes[0] = {std::max<std::int64_t>(1, cluster.devices_per_node / on_node), point.ranks};
    axes.world = axes.axes[0].stride * point.ranks;
    const std::vector<std::int64_t> members = spreadOver(cluster, axes).members;
    const std::int64_t below = level == 0 ? 1 : members[level - 1];
    return members[level] > below;
}

void scaleLevel(ClusterSpec& cluster, std::size_t index, double factor) {
    if (factor == 1.0) return;
    std::erase_if(cluster.curves.collective,
                  [&](const CollectivePoint& point) { return crosses(cluster, point, index); });
    LinkLevel& level = cluster.levels[index];
    level.bandwidth *= factor;
    level.port_bandwidth *= factor;
    level.evidence = {EvidenceKind::Assumed, 0.0, 0.0, false};
}

}  // namespace

bool joinsNodes(const ClusterSpec& cluster) {
    return std::ranges::any_of(
        cluster.levels, [&cluster](const LinkLevel& level) { return isNetwork(cluster, level); });
}

ClusterSpec withDevices(ClusterSpec cluster, std::int64_t devices) {
    cluster.devices_per_node = std::min(cluster.devices_per_node, devices);
    cluster.nodes = devices / cluster.devices_per_node;
    PIPER_CHECK(cluster.numDevices() == devices);
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
    for (std::size_t i = 0; i < cluster.levels.size(); ++i)
        if (isNetwork(cluster, cluster.levels[i]) == network) scaleLevel(cluster, i, factor);
    return cluster;
}

Result<ClusterSpec> withLink(ClusterSpec cluster, std::string_view level, double factor) {
    std::vector<std::string_view> names;
    for (const LinkLevel& l : cluster.levels) names.push_back(l.name);
    const auto found = std::ranges::find(cluster.levels, level, &LinkLevel::name);
    if (found == cluster.levels.end())
        return fail(ErrorCode::InvalidInput, "{} has no link level '{}'; nearest: '{}'",
                    cluster.name, level, nearestWord(level, names));
    scaleLevel(cluster, static_cast<std::size_t>(found - cluster.levels.begin()), factor);
    return cluster;
}

}  // namespace piper
