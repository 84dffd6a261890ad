// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/cluster_boxes.h"

#include <algorithm>

#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

constexpr std::int64_t kMostGroups = 4;    ///< drawn of equal nodes or racks
constexpr std::int64_t kMostDevices = 16;  ///< drawn of one group's devices

/// A border of the picture: every `devices` consecutive devices lie in one box.
struct Border {
    std::int64_t devices = 1;
    const LinkLevel* link = nullptr;  ///< null: a node whose devices another level joins
    int level = 0;
};

/// Innermost first. A node is a border too, whether or not a level ends there.
std::vector<Border> bordersOf(const ClusterSpec& cluster) {
    std::vector<Border> out;
    for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
        const LinkLevel& level = cluster.levels[i];
        if (level.domain_devices > (out.empty() ? 1 : out.back().devices))
            out.push_back({level.domain_devices, &level, static_cast<int>(i)});
    }
    const auto at = std::find_if(out.begin(), out.end(), [&](const Border& b) {
        return b.devices >= cluster.devices_per_node;
    });
    if (cluster.devices_per_node > 1 &&
        (at == out.end() || at->devices != cluster.devices_per_node))
        out.insert(at, {cluster.devices_per_node, nullptr, at == out.end() ? 0 : at->level});
    return out;
}

QString linkText(const LinkLevel& level) {
    return QStringLiteral("%1 · %2 · %3")
        .arg(text(level.name), text(humanBytesPerSecond(level.bandwidth)),
             secondsText(level.latency));
}

ClusterBox deviceBox(const ClusterSpec& cluster, std::int64_t index) {
    ClusterBox box;
    box.title = QString::number(index);
    box.hint = QStringLiteral("Device %1: %2, %3. %4")
                   .arg(index)
                   .arg(text(cluster.device.name), bytesText(cluster.device.memory),
                        text(cluster.device.source));
    return box;
}

/// The box of `borders[depth]` that begins at device `first`.
ClusterBox boxAt(const ClusterSpec& cluster, const std::vector<Border>& borders, std::size_t depth,
                 std::int64_t first) {
    const Border& border = borders[depth];
    ClusterBox box;
    box.level = border.level;
    box.title = border.devices == cluster.devices_per_node
                    ? QStringLiteral("node %1").arg(first / border.devices)
                    : QStringLiteral("domain %1").arg(first / border.devices);
    if (border.link != nullptr) {
        box.link = linkText(*border.link);
        box.hint = QStringLiteral("Bandwidth of a device and direction; latency of a message. ") +
                   text(border.link->source);
    }
    const std::int64_t step = depth == 0 ? 1 : borders[depth - 1].devices;
    box.count = border.devices / step;
    for (std::int64_t i = 0; i < std::min(box.count, depth == 0 ? kMostDevices : kMostGroups); ++i)
        box.inside.push_back(depth == 0 ? deviceBox(cluster, (first + i) % cluster.devices_per_node)
                                        : boxAt(cluster, borders, depth - 1, first + i * step));
    return box;
}

}  // namespace

ClusterBox clusterBoxes(const ClusterSpec& cluster) {
    const std::vector<Border> borders = bordersOf(cluster);
    ClusterBox box =
        borders.empty() ? deviceBox(cluster, 0) : boxAt(cluster, borders, borders.size() - 1, 0);
    box.title = QStringLiteral("%1 × %2 %3")
                    .arg(cluster.nodes)
                    .arg(cluster.devices_per_node)
                    .arg(text(cluster.device.name));
    return box;
}

QString clusterBoxesText(const ClusterBox& box, int depth) {
    QString out = QString(2 * depth, u' ') + box.title;
    if (!box.link.isEmpty()) out += QStringLiteral(" | ") + box.link;
    out += u'\n';
    const bool devices = !box.inside.empty() && box.inside.front().inside.empty();
    if (devices)
        return out + QString(2 * depth + 2, u' ') + QStringLiteral("%1 devices\n").arg(box.count);
    for (const ClusterBox& one : box.inside) out += clusterBoxesText(one, depth + 1);
    const auto shown = static_cast<std::int64_t>(box.inside.size());
    if (box.count > shown)
        out +=
            QString(2 * depth + 2, u' ') + QStringLiteral("and %1 more\n").arg(box.count - shown);
    return out;
}

}  // namespace piper::ui
