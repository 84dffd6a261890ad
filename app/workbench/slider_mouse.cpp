// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/slider_mouse.h"

#include <QCoreApplication>
#include <QMouseEvent>
#include <QStyle>
#include <QStyleOptionSlider>

namespace piper::app {
namespace {

double handleX(const QSlider& slider, int value) {
    QStyleOptionSlider option;
    option.initFrom(&slider);
    option.minimum = slider.minimum();
    option.maximum = slider.maximum();
    const int handle = slider.style()->pixelMetric(QStyle::PM_SliderLength, &option, &slider);
    const int span = slider.width() - handle;
    return handle / 2.0 +
           QStyle::sliderPositionFromValue(slider.minimum(), slider.maximum(), value, span);
}

}  // namespace

void slideMouse(QSlider& slider, QEvent::Type type, int value) {
    const QPointF at(handleX(slider, value), slider.height() / 2.0);
    const Qt::MouseButtons held =
        type == QEvent::MouseButtonRelease ? Qt::MouseButtons() : Qt::LeftButton;
    QMouseEvent event(type, at, slider.mapToGlobal(at),
                      type == QEvent::MouseMove ? Qt::NoButton : Qt::LeftButton, held,
                      Qt::NoModifier);
    QCoreApplication::sendEvent(&slider, &event);
}

}  // namespace piper::app
