// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

#include "app/workbench/latencies.h"
#include "ui/models/workbench.h"
#include "ui/views/main_window.h"

namespace piper::app {

struct SliderBench {
    Latencies closed_form;  ///< mouse event delivered -> end of the paint that shows its value
    Latencies simulated;    ///< the same until the simulated schedule's value is painted
    int width = 0, height = 0;
};

/// Drags the experts slider over its legal values on the plan page and times each move. The shown
/// value is checked against the model after every move.
/// Errors: External when a paint does not come in time or a shown value is wrong.
[[nodiscard]] Result<SliderBench> benchSlider(ui::MainWindow& window, ui::Workbench& workbench,
                                              int moves);
[[nodiscard]] std::string benchJson(const SliderBench& bench);

}  // namespace piper::app
