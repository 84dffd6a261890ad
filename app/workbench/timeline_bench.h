// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "app/workbench/latencies.h"
#include "ui/models/workbench.h"
#include "ui/views/main_window.h"

namespace piper::app {

struct TimelineBench {
    std::int64_t events = 0;
    double open_ms = 0.0;   ///< from the request to open the file to a painted picture of the run
    Latencies frames;       ///< key delivered -> the frame that shows its zoom or pan is painted
    Latencies pictures;     ///< the same until the blocks of that stretch are read and painted
    Latencies build;        ///< CPU time of building a frame, without GL
    double peak_mib = 0.0;  ///< most memory the process had resident
    int width = 0, height = 0;
};

/// Opens a run on the timeline page and zooms and pans over it. `open` asks for the file.
/// Errors: External when a frame does not come in time or the run is not shown.
[[nodiscard]] Result<TimelineBench> benchTimeline(ui::MainWindow& window, ui::Workbench& workbench,
                                                  const std::function<void()>& open);
[[nodiscard]] std::string benchJson(const TimelineBench& bench);

}  // namespace piper::app
