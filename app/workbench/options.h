// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QSize>
#include <QString>
#include <QStringList>
#include <optional>

#include "core/base/result.h"
#include "ui/views/page_icons.h"
#include "ui/views/theme.h"

namespace piper::app {

/// The command line of piper-workbench.
struct Options {
    QString workspace;  ///< FILE.piper
    QString plan;
    QString run_a, run_b;
    std::optional<ui::PageId> page;
    QString screenshot;
    QSize size{1600, 900};
    double scale = 0.0;  ///< 0: the platform's
    ui::Theme theme = ui::Theme::System;
    QString bench;
    bool json = false;
    bool help = false;
    bool version = false;
};

/// Errors: InvalidInput names the option, its value and the legal ones.
[[nodiscard]] Result<Options> parseOptions(const QStringList& arguments);
[[nodiscard]] QString helpText();

}  // namespace piper::app
