// SPDX-License-Identifier: Apache-2.0
#include "core/plan/placement.h"

#include <algorithm>
#include <numeric>

namespace piper {

namespace {

/// One axis, exactly: every alignment of a group to the domains that a world of that size has.
DomainSplit splitAxis(const GroupAxis& axis, std::int64_t domain, std::int64_t world) {
    const std::int64_t extent = axis.stride * axis.size;
    if (domain % extent == 0 || (world > 0 && domain >= world)) return {axis.size, 1};
    if (axis.stride % domain == 0) return {1, axis.size};
    if (extent % domain == 0 && domain % axis.stride == 0)
        return {domain / axis.stride, extent / domain};
    DomainSplit out{axis.size, 1};
    std::int64_t alignments = domain / std::gcd(extent, domain);
    if (world > 0) alignments = std::min(alignments, std::max<std::int64_t>(1, world / extent));
    const std::int64_t offsets = std::min(axis.stride, domain);
    for (std::int64_t block = 0; block < alignments; ++block)
        for (std::int64_t offset = 0; offset < offsets; ++offset) {
            const std::int64_t first = block * extent + offset;
            std::int64_t touched = 0;
            for (std::int64_t j = 0; j < axis.size; ++touched) {
                // Members up to the end of the domain of member j.
                const std::int64_t at = first + j * axis.stride;
                const std::int64_t end = (at / domain + 1) * domain;
                const std::int64_t here =
                    std::min(axis.size - j, (end - at + axis.stride - 1) / axis.stride);
                out.members = std::min(out.members, here);
                j += here;
            }
            out.domains = std::max(out.domains, touched);
        }
    return out;
}

}  // namespace

GroupAxes groupAxes(const Layout& l, std::string_view order, std::string_view wanted) {
    const bool expert_grid = wanted == "ep" || wanted == "etp" || wanted == "edp";
    std::int64_t stride = 1;
    GroupAxes out;
    out.world = l.world();
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
        if ((label == wanted || (wanted == "dp" && label == "cp")) && size > 1) {
            GroupAxis& last = out.axes[out.count > 0 ? out.count - 1 : 0];
            if (out.count > 0 && last.stride * last.size == stride)
                last.size *= size;
            else if (out.count < out.axes.size())
                out.axes[out.count++] = {stride, size};
        }
        stride *= size;
    }
    return out;
}

DomainSplit splitOver(const GroupAxes& axes, std::int64_t domain) {
    domain = std::max<std::int64_t>(1, domain);
    if (axes.count == 0) return {};
    DomainSplit out = splitAxis(axes.axes[0], domain, axes.world);
    if (axes.count > 1) {
        // Along the outer axis the inner one repeats.
        const DomainSplit outer = splitAxis(axes.axes[1], domain, axes.world);
        out.members *= outer.members;
        out.domains *= outer.domains;
    }
    return out;
}

GroupSpread spreadOver(const ClusterSpec& cluster, const GroupAxes& axes) {
    GroupSpread out;
    out.size = axes.size();
    const DomainSplit nodes = splitOver(axes, cluster.devices_per_node);
    out.ranks_per_node = nodes.members;
    out.nodes = nodes.domains;
    out.members.reserve(cluster.levels.size());
    std::int64_t inner = 1;
    for (const LinkLevel& level : cluster.levels) {
        inner = std::max(inner, splitOver(axes, level.domain_devices).members);
        out.members.push_back(inner);
    }
    if (!out.members.empty()) out.members.back() = out.size;  // the last level spans the cluster
    return out;
}

}  // namespace piper
