// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <vector>

#include "core/run/timeline.h"

namespace piper::ui {

/// Lines of the text over an event: operation, layer, micro-batch, start, duration, bytes, FLOPs.
[[nodiscard]] std::vector<std::string> describeEvent(const Event& event, const RankTimeline& rank);
/// What is known of a block at once, before its event was read.
[[nodiscard]] std::vector<std::string> describeBlock(const TimelineBlock& block,
                                                     const RankTimeline& rank);
/// "rank 3 · stage 1 · lane ep · node7".
[[nodiscard]] std::string placeText(const TimelineRow& row, const RankTimeline& rank);
/// "rank 3 · stage 1".
[[nodiscard]] std::string rankText(const RankTimeline& rank);

}  // namespace piper::ui
