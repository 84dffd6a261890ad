// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_canvas.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>

#include "ui/timeline/timeline_painter.h"

namespace piper::ui {
namespace {

constexpr double kZoomKey = 0.8;
constexpr double kPanKey = 0.12;
constexpr double kClickPixels = 4.0;

/// Keys by their place, so that W A S D lie together on every layout: evdev codes of X11 and
/// Wayland. Events without a scan code (tests, remote input) go by their letter.
int keyByPlace(const QKeyEvent& event) {
    switch (event.nativeScanCode()) {
        case 25:
            return Qt::Key_W;
        case 38:
            return Qt::Key_A;
        case 39:
            return Qt::Key_S;
        case 40:
            return Qt::Key_D;
        default:
            return event.key();
    }
}

}  // namespace

TimelineCanvas::TimelineCanvas(QWidget* parent) : ImGuiWidget(parent) {
    setMinimumHeight(160);
    setAccessibleName(QStringLiteral("Timeline"));
}

void TimelineCanvas::setPanes(std::vector<TimelinePane> panes) {
    m_panes = std::move(panes);
    m_hover.reset();
    m_pinned_at.reset();
    m_hover_lines.clear();
    m_pinned_lines.clear();
    m_measured.reset();
    fit();
}

void TimelineCanvas::setDark(bool dark) {
    m_dark = dark;
    update();
}

void TimelineCanvas::fit() {
    double longest = 0.0;
    for (const TimelinePane& pane : m_panes) {
        const auto& steps = pane.source->steps();
        const TimelineSpan step = steps[std::min(pane.step, steps.size() - 1)];
        longest = std::max(longest, static_cast<double>(step.length()));
    }
    m_view.setBounds(longest);
    m_view.fit();
    update();
}

QColor TimelineCanvas::background() const {
    return canvasColours(m_dark).background;
}

double TimelineCanvas::trackWidth() const {
    return std::max(1.0, width() - kGutter);
}

double TimelineCanvas::shareAt(double x) const {
    return (x - kGutter) / trackWidth();
}

void TimelineCanvas::scrollRows(double pixels) {
    m_scroll = std::clamp(m_scroll + pixels, 0.0, std::max(0.0, m_scroll_limit));
}

void TimelineCanvas::drawFrame() {
    TimelinePainter(*this).paint();
}

bool TimelineCanvas::handleKey(int key) {
    switch (key) {
        case Qt::Key_W:
            m_view.zoom(kZoomKey, 0.5);
            return true;
        case Qt::Key_S:
            m_view.zoom(1 / kZoomKey, 0.5);
            return true;
        case Qt::Key_A:
        case Qt::Key_Left:
            m_view.pan(-kPanKey);
            return true;
        case Qt::Key_D:
        case Qt::Key_Right:
            m_view.pan(kPanKey);
            return true;
        case Qt::Key_Up:
            scrollRows(-40);
            return true;
        case Qt::Key_Down:
            scrollRows(40);
            return true;
        case Qt::Key_F:
            if (m_measured)
                m_view.show(m_measured->first, m_measured->second - m_measured->first);
            else
                m_view.fit();
            m_measured.reset();
            return true;
        case Qt::Key_Escape:
            m_measured.reset();
            m_pinned_at.reset();
            m_pinned_lines.clear();
            Q_EMIT pinned();
            return true;
        default:
            return false;
    }
}

void TimelineCanvas::keyPressEvent(QKeyEvent* event) {
    const bool modified = event->modifiers() & (Qt::ControlModifier | Qt::AltModifier);
    if (modified || !handleKey(keyByPlace(*event))) {
        ImGuiWidget::keyPressEvent(event);
        return;
    }
    update();
}

void TimelineCanvas::mousePressEvent(QMouseEvent* event) {
    m_press = m_last = event->position();
    m_panning = event->button() == Qt::RightButton || event->button() == Qt::MiddleButton ||
                (event->button() == Qt::LeftButton && event->modifiers() & Qt::ShiftModifier);
    m_measuring = !m_panning && event->button() == Qt::LeftButton;
}

void TimelineCanvas::mouseMoveEvent(QMouseEvent* event) {
    const QPointF at = event->position();
    if (m_panning) {
        m_view.pan((m_last.x() - at.x()) / trackWidth());
        scrollRows(m_last.y() - at.y());
    } else if (m_measuring && (at - m_press).manhattanLength() > kClickPixels) {
        const double from = m_view.toNs(shareAt(m_press.x()));
        const double to = m_view.toNs(shareAt(at.x()));
        m_measured = std::minmax(from, to);
    }
    m_last = at;
}

void TimelineCanvas::mouseReleaseEvent(QMouseEvent* event) {
    const bool click = (event->position() - m_press).manhattanLength() <= kClickPixels;
    if (m_measuring && click) {
        m_pinned_at = m_hover;
        m_pinned_lines = m_hover_lines;
        m_measured.reset();
        Q_EMIT pinned();
    }
    m_panning = m_measuring = false;
}

void TimelineCanvas::wheelEvent(QWheelEvent* event) {
    const double notches = event->angleDelta().y() / 120.0;
    if (event->modifiers() & Qt::ControlModifier)
        m_view.zoom(std::pow(kZoomKey, notches),
                    std::clamp(shareAt(event->position().x()), 0., 1.));
    else if (event->modifiers() & Qt::ShiftModifier)
        m_view.pan(-kPanKey * (notches != 0 ? notches : event->angleDelta().x() / 120.0));
    else
        scrollRows(-48 * notches);
    event->accept();
    update();
}

}  // namespace piper::ui
