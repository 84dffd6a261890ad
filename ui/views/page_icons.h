// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QIcon>

namespace piper::ui {

enum class PageId { Sessions, Plan, Explore, Schedule, Runs, Timeline, Compare, Export };
inline constexpr int kNumPages = 8;

/// "sessions", as on the command line.
[[nodiscard]] QString pageName(PageId page);
/// "Sessions", as in the window.
[[nodiscard]] QString pageTitle(PageId page);
/// Drawn from lines, so sharp at any scale and in the colour of the text.
[[nodiscard]] QIcon pageIcon(PageId page, const QColor& colour, double device_pixel_ratio);

}  // namespace piper::ui
