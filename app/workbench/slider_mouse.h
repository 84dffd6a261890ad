// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QEvent>
#include <QSlider>

namespace piper::app {

/// Presses, moves or lets go of the left button where the handle stands at that value.
void slideMouse(QSlider& slider, QEvent::Type type, int value);

}  // namespace piper::app
