// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

#include "app/workbench/latencies.h"
#include "ui/models/workbench.h"
#include "ui/views/main_window.h"

namespace piper::app {

/// Each from the request to the end of the paint that shows it.
struct TableBench {
    std::size_t plans = 0;
    double fill_ms = 0.0;  ///< plans handed over -> table and plot painted
    Latencies sort;        ///< by each column, both ways
    Latencies filter;      ///< as if typed, letter by letter
    Latencies scroll;
    int width = 0, height = 0;
};

/// Predicts so many plans from the search space of the plan at hand, puts them into the table of
/// the explore page and sorts, filters and scrolls it. Errors: RuleBroken for a space of fewer
/// plans; External when a paint does not come in time.
[[nodiscard]] Result<TableBench> benchTable(ui::MainWindow& window, ui::Workbench& workbench,
                                            std::size_t plans);
[[nodiscard]] std::string benchJson(const TableBench& bench);

}  // namespace piper::app
