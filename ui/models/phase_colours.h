// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QColor>
#include <QString>

#include "core/run/vocabulary.h"

namespace piper::ui {

/// The one place where a phase, a pass or a memory term gets its colour; every page, plot and
/// canvas asks here, so the same thing has the same colour everywhere. Compute phases are cool,
/// communication is warm, so the two differ also for colour-blind readers; the hues are those of
/// the Okabe-Ito and Tol sets.
[[nodiscard]] QColor phaseColour(Phase phase, bool dark);
/// The text that is readable on `fill`.
[[nodiscard]] QColor textOn(const QColor& fill);
[[nodiscard]] QColor memoryTermColour(MemoryTerm term, bool dark);
/// The first and second run of a comparison: modelled and measured.
[[nodiscard]] QColor runColour(int index, bool dark);
/// Of a heat map, from the worst (0) to the best value (1): from the page's colour to the accent.
[[nodiscard]] QColor heatColour(double share, bool dark);
[[nodiscard]] QColor warningColour(bool dark);
[[nodiscard]] QColor goodColour(bool dark);

/// "dispatch" -> "Dispatch", "head_loss" -> "Head and loss".
[[nodiscard]] QString phaseLabel(Phase phase);
[[nodiscard]] QString memoryTermLabel(MemoryTerm term);

}  // namespace piper::ui
