// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/models/executor.h"
#include "ui/views/main_window.h"

namespace piper::app {

/// Runs the event loop until the executor is idle and every visible canvas has painted what it was
/// given, at most `timeout_ms`. False when the time ran out.
[[nodiscard]] bool settle(ui::MainWindow& window, const ui::Executor& executor, int timeout_ms);

/// Shows the page, lets it settle and writes it to a PNG file. Errors: External when it does not
/// settle in time, Io when the file cannot be written.
[[nodiscard]] Status writeScreenshot(ui::MainWindow& window, const ui::Executor& executor,
                                     const QString& path);

}  // namespace piper::app
