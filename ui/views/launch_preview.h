// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>

#include "ui/models/run_controller.h"

namespace piper::ui {

/// Command, script, rank map and warnings of a launch; accepted, it is launched
/// as shown.
class LaunchPreviewDialog : public QDialog {
    Q_OBJECT
public:
    explicit LaunchPreviewDialog(const RunPreview& preview, QWidget* parent = nullptr);
};

}  // namespace piper::ui
