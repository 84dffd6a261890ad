// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

#include "app/workbench/latencies.h"
#include "core/base/result.h"
#include "ui/models/workbench.h"
#include "ui/views/main_window.h"

namespace piper::app {

/// From the start of a process to its window painted and events answered.
struct StartBench {
    Latencies workbench;  ///< Plan page with its plan
    Latencies empty;      ///< a Qt window with nothing in it
    double ratio = 0.0;   ///< median over pairs
};

/// Starts the program `pairs` times, in turn with the empty window. Errors: External when one does
/// not start or paint.
[[nodiscard]] Result<StartBench> benchStart(int pairs);
[[nodiscard]] std::string benchJson(const StartBench& bench);

/// What such a process does (`--bench first-page`): says so on standard output once its page is
/// painted and the events posted after that were answered, and ends. Errors: External when it does
/// not come to that in a minute.
[[nodiscard]] Status sayFirstPage(ui::MainWindow& window, const ui::Workbench& bench);
/// The same of an empty window (`--bench empty-window`).
[[nodiscard]] Status sayEmptyWindow();

}  // namespace piper::app
