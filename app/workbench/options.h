// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QSize>
#include <QString>
#include <QStringList>
#include <optional>

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
    QString report;        ///< directory
    QStringList commands;  ///< "Section: Text", done one after the other once the page is there
    QSize size{1600, 900};
    double scale = 0.0;              ///< 0: the platform's
    std::optional<ui::Theme> theme;  ///< nothing: as last chosen in the window
    QString bench;
    bool json = false;
};

/// What the command line asks for: options, or an exit status when help, the version or what is
/// wrong (the option, its value and the legal ones) has been printed.
struct ParsedOptions {
    Options options;
    std::optional<int> exit_status;
};
[[nodiscard]] ParsedOptions parseOptions(int argc, const char* const* argv);

}  // namespace piper::app
