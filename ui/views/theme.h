// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPalette>

class QApplication;

namespace piper::ui {

enum class Theme { System, Light, Dark };

/// Fusion style, our palette, one small style sheet. System follows the palette the platform gave
/// the application at its start.
void applyTheme(QApplication& application, Theme theme);
/// What applyTheme was last told.
[[nodiscard]] Theme currentTheme();
[[nodiscard]] bool isDark(const QPalette& palette);

}  // namespace piper::ui
