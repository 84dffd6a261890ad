// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPalette>
#include <QString>
#include <optional>

class QApplication;

namespace piper::ui {

enum class Theme { System, Light, Dark };

/// Fusion style, our palette, one small style sheet. System follows the palette the platform gave
/// the application at its start.
void applyTheme(QApplication& application, Theme theme);
/// Of the light theme: that of paper.
[[nodiscard]] QPalette lightPalette();
/// What applyTheme was last told.
[[nodiscard]] Theme currentTheme();
/// "system", "light", "dark": as on the command line and in the settings.
[[nodiscard]] QString themeName(Theme theme);
[[nodiscard]] std::optional<Theme> themeOf(const QString& name);
[[nodiscard]] bool isDark(const QPalette& palette);

}  // namespace piper::ui
