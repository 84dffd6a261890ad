// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <optional>

#include "ui/models/workbench.h"

namespace piper::app {

/// Opens a workspace file and shows a run of it beside another; an empty name of `b` is the last
/// measured run, one of `a` the model of b's plan.
void showWorkspace(ui::Workbench& bench, const QString& path, const QString& a, const QString& b);

/// Makes the file of the user's own runs from the recorded example, whole or not at all; whether it
/// did: a file that is there is left alone. For the executor. Errors: Io names the file.
[[nodiscard]] Result<bool> startOwnRuns(const std::filesystem::path& example,
                                        const std::filesystem::path& own);

/// What a window without arguments opens: the user's own runs (RunsViewModel's default workspace).
/// At the first start these are `example`, which timeline and compare show at once.
void openOwnRuns(ui::Workbench& bench, const std::optional<std::filesystem::path>& example);

}  // namespace piper::app
