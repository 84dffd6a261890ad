// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/models/run_controller.h"

namespace piper::app {

/// Workspace files through collectors/store. Each call opens the file anew; only a timeline holds
/// it open.
class StoreLibrary final : public ui::RunLibrary {
public:
    [[nodiscard]] Result<std::vector<ui::RunSummary>> list(const QString& workspace) const override;
    [[nodiscard]] Result<Run> load(const QString& workspace, const QString& run) const override;
    [[nodiscard]] Result<std::shared_ptr<TimelineSource>> timeline(
        const QString& workspace, const QString& run) const override;
    [[nodiscard]] Status label(const QString& workspace, const QString& run,
                               const RunLabels& labels) const override;
};

}  // namespace piper::app
