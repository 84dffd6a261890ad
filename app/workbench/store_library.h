// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/models/run_controller.h"

namespace piper::app {

/// Workspace files through collectors/store. Each call opens the file anew: it is used from the
/// executor's thread and holds nothing open between requests.
class StoreLibrary final : public ui::RunLibrary {
public:
    [[nodiscard]] Result<std::vector<ui::RunSummary>> list(const QString& workspace) const override;
    [[nodiscard]] Result<Run> load(const QString& workspace, const QString& run) const override;
};

}  // namespace piper::app
