// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "core/cluster/cluster.h"

namespace piper {

// A cluster with one number changed: what capacity and sensitivity ask about. Measured points of
// collectives that cross a changed link are dropped, since they were of the old one; a factor of 1
// changes nothing.

/// Whether some link level joins nodes.
[[nodiscard]] bool joinsNodes(const ClusterSpec& cluster);

/// The same nodes, more or fewer; fewer devices than a node holds make one smaller node: any number
/// up to a node's, or whole nodes. Link levels that span no more than an inner one go; the last
/// spans all devices.
[[nodiscard]] ClusterSpec withDevices(ClusterSpec cluster, std::int64_t devices);
[[nodiscard]] ClusterSpec withNodes(const ClusterSpec& cluster, std::int64_t nodes);

/// HBM of a device, times `factor`.
[[nodiscard]] ClusterSpec withMemory(ClusterSpec cluster, double factor);

/// Both rates of every level that joins nodes (`network`), or of every level inside a node.
[[nodiscard]] ClusterSpec withLinks(ClusterSpec cluster, bool network, double factor);
/// Of the level with that name. Errors: InvalidInput names the nearest level.
[[nodiscard]] Result<ClusterSpec> withLink(ClusterSpec cluster, std::string_view level,
                                           double factor);

}  // namespace piper
