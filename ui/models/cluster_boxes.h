// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <vector>

#include "core/cluster/cluster.h"

namespace piper::ui {

/// A part of a cluster as a picture shows it: boxes in a box, joined by one link.
struct ClusterBox {
    QString title;  ///< "node 3", "H100 SXM"
    QString link;  ///< what joins the boxes inside, "nvlink · 450 GB/s · 2.0 µs"; empty inside one
    QString hint;                    ///< definition and source of the numbers
    int level = 0;                   ///< of that link, 0 the innermost
    std::int64_t count = 0;          ///< boxes inside, also those that are not drawn
    std::vector<ClusterBox> inside;  ///< the first of them; none in a device
};

/// The cluster from the outermost link inwards; of many equal parts the first few are drawn.
[[nodiscard]] ClusterBox clusterBoxes(const ClusterSpec& cluster);

/// The picture as indented text.
[[nodiscard]] QString clusterBoxesText(const ClusterBox& box, int depth = 0);

}  // namespace piper::ui
