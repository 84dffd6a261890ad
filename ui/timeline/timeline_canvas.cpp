// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_canvas.h"

#include <QKeyEvent>
#include <QMetaMethod>
#include <QMouseEvent>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "ui/timeline/describe_event.h"
#include "ui/timeline/timeline_painter.h"

namespace piper::ui {
namespace {

constexpr double kZoomKey = 0.8;
constexpr double kPanKey = 0.12;
constexpr double kScrollKey = 40.0;  ///< pixels
constexpr double kClickPixels = 4.0;
constexpr double kMarkPixels = 5.0;  ///< a mark this near is the one meant

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

QKeyCombination TimelineCanvas::keyOf(const QKeyEvent& event) {
    return meantKey(keyByPlace(event), event.modifiers());
}

TimelineCanvas::TimelineCanvas(Executor& executor, const TimelineKeys& keys, const QString& topic,
                               QWidget* parent)
    : ImGuiWidget(parent), m_keys(keys), m_model(executor, topic) {
    setMinimumHeight(160);
    setAccessibleName(QStringLiteral("Timeline"));
    const auto repaint = [this] { update(); };
    connect(&keys, &TimelineKeys::changed, this, repaint);
    connect(&m_model, &TimelineViewModel::pictureChanged, this, repaint);
    connect(&m_model, &TimelineViewModel::eventHovered, this, repaint);
    connect(&m_model, &TimelineViewModel::eventChosen, this, &TimelineCanvas::showChosen);
}

void TimelineCanvas::setPanes(std::vector<TimelinePane> panes) {
    m_layouts.resize(panes.size());
    for (std::size_t i = 0; i < panes.size(); ++i) m_layouts[i].setRows(panes[i].source->rows());
    m_model.setPanes(std::move(panes));
    m_painted.clear();
    m_hover.reset();
    m_hover_lines.clear();
    m_measured.reset();
    m_area.reset();
    m_marks.clear();
    m_view.forget();
    fit();
}

void TimelineCanvas::setDark(bool dark) {
    m_dark = dark;
    update();
}

void TimelineCanvas::fit() {
    double longest = 0.0;
    for (const TimelinePane& pane : panes()) {
        const auto& steps = pane.source->steps();
        const TimeWindow step = steps[std::min(pane.step, steps.size() - 1)];
        longest = std::max(longest, static_cast<double>(step.length()));
    }
    m_view.setBounds(longest);
    m_view.fit();
    update();
}

std::vector<std::string> TimelineCanvas::pinnedLines() const {
    return m_model.chosen() ? m_model.lines(*m_model.chosen()) : std::vector<std::string>();
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

const TimelineCanvas::PaintedStrip* TimelineCanvas::stripAt(double y) const {
    for (const PaintedStrip& strip : m_painted)
        if (y >= strip.top && y < strip.bottom) return &strip;
    return nullptr;
}

void TimelineCanvas::scrollRows(double pixels) {
    m_scroll = std::clamp(m_scroll + pixels, 0.0, std::max(0.0, m_scroll_limit));
}

void TimelineCanvas::drawFrame() {
    TimelinePainter(*this).paint();
}

void TimelineCanvas::search(const QString& text, bool forward) {
    m_model.search(text, forward, m_view.begin());
}

/// Brings the chosen event into view where it is not.
void TimelineCanvas::showChosen() {
    if (const auto& chosen = m_model.chosen()) {
        const double begin =
            static_cast<double>(chosen->found.event.start_ns - m_model.origin(chosen->pane));
        if (begin < m_view.begin() || begin > m_view.begin() + m_view.span()) {
            m_view.remember();
            m_view.show(begin - 0.5 * m_view.span(), m_view.span());
        }
    }
    update();
}

void TimelineCanvas::fitChosen() {
    const auto& chosen = m_model.chosen();
    m_view.remember();
    if (m_area) {
        m_view.show(std::min(m_area->first.x(), m_area->second.x()),
                    std::abs(m_area->second.x() - m_area->first.x()));
    } else if (m_measured) {
        m_view.show(m_measured->first, measuredNs());
    } else if (chosen) {
        const Event& e = chosen->found.event;
        const double length = std::max(100.0, static_cast<double>(e.duration_ns));
        const auto begin = static_cast<double>(e.start_ns - m_model.origin(chosen->pane));
        const bool fitted = std::abs(m_view.span() - 3 * length) < 1.0;
        if (fitted)  // again: all
            m_view.fit();
        else
            m_view.show(begin - length, 3 * length);
    } else {
        m_view.fit();
    }
    m_measured.reset();
}

void TimelineCanvas::toggleMark(double ns) {
    const double near = kMarkPixels * m_view.span() / trackWidth();
    const auto removed =
        std::erase_if(m_marks, [&](double mark) { return std::abs(mark - ns) <= near; });
    if (removed == 0) m_marks.push_back(ns);
}

void TimelineCanvas::escape() {
    m_help = false;
    m_measured.reset();
    m_area.reset();
    m_model.select({});
    m_model.clearChosen();
}

void TimelineCanvas::moveView(double zoom, double pan) {
    m_view.remember();
    m_view.zoom(zoom, 0.5);
    m_view.pan(pan);
}

void TimelineCanvas::foldAt(const PaintedStrip* strip) {
    if (strip == nullptr) return;
    RowLayout& layout = m_layouts[strip->pane];
    layout.toggleFold(layout.strips()[strip->strip].rank);
}

void TimelineCanvas::pinAt(const PaintedStrip* strip) {
    if (strip == nullptr) return;
    RowLayout& layout = m_layouts[strip->pane];
    layout.togglePin(layout.strips()[strip->strip].rows.front());
}

bool TimelineCanvas::offers(TimelineCommand command) const {
    return command != TimelineCommand::Search ||
           isSignalConnected(QMetaMethod::fromSignal(&TimelineCanvas::searchWanted));
}

void TimelineCanvas::perform(TimelineCommand command) {
    switch (command) {
        case TimelineCommand::ZoomIn:
        case TimelineCommand::ZoomOut:
            moveView(command == TimelineCommand::ZoomIn ? kZoomKey : 1 / kZoomKey, 0.0);
            break;
        case TimelineCommand::Earlier:
        case TimelineCommand::Later:
            moveView(1.0, command == TimelineCommand::Later ? kPanKey : -kPanKey);
            break;
        case TimelineCommand::RowsUp:
        case TimelineCommand::RowsDown:
            scrollRows(command == TimelineCommand::RowsDown ? kScrollKey : -kScrollKey);
            break;
        case TimelineCommand::Fit:
            fitChosen();
            break;
        case TimelineCommand::UndoZoom:
            (void)m_view.undo();
            break;
        case TimelineCommand::NextEvent:
        case TimelineCommand::PreviousEvent:
            m_model.chooseNeighbour(command == TimelineCommand::NextEvent);
            break;
        case TimelineCommand::Search:
            Q_EMIT searchWanted();
            break;
        case TimelineCommand::Mark:
            toggleMark(nsAt(std::max(m_last.x(), kGutter)));
            break;
        case TimelineCommand::ClearMarks:
            m_marks.clear();
            break;
        case TimelineCommand::Fold:
            foldAt(stripAt(m_last.y()));
            break;
        case TimelineCommand::FoldAll:
            for (RowLayout& layout : m_layouts) layout.toggleAll();
            break;
        case TimelineCommand::Pin:
            pinAt(stripAt(m_last.y()));
            break;
        case TimelineCommand::Clear:
            escape();
            break;
        case TimelineCommand::Help:
            m_help = !m_help;
            break;
    }
    update();
}

/// A bound key is the canvas's, whatever the window does with it elsewhere.
bool TimelineCanvas::event(QEvent* event) {
    if (event->type() == QEvent::ShortcutOverride &&
        m_keys.find(keyOf(*static_cast<QKeyEvent*>(event)))) {
        event->accept();
        return true;
    }
    return ImGuiWidget::event(event);
}

void TimelineCanvas::keyPressEvent(QKeyEvent* event) {
    if (const auto command = m_keys.find(keyOf(*event)))
        perform(*command);
    else
        ImGuiWidget::keyPressEvent(event);
}

void TimelineCanvas::mousePressEvent(QMouseEvent* event) {
    m_press = m_last = event->position();
    const bool left = event->button() == Qt::LeftButton;
    m_drag = !left                                    ? Drag::Pan
             : event->modifiers() & Qt::ShiftModifier ? Drag::Measure
                                                      : Drag::Area;
    if (m_drag == Drag::Pan) m_view.remember();
}

void TimelineCanvas::dragTo(QPointF at) {
    const bool far = (at - m_press).manhattanLength() > kClickPixels;
    const double from = nsAt(std::max(m_press.x(), kGutter)), to = nsAt(std::max(at.x(), kGutter));
    if (m_drag == Drag::Pan) {
        m_view.pan((m_last.x() - at.x()) / trackWidth());
        scrollRows(m_last.y() - at.y());
    } else if (m_drag == Drag::Measure && far) {
        m_measured = std::minmax(from, to);
    } else if (m_drag == Drag::Area && far && m_press.x() >= kGutter) {
        m_area = {QPointF(from, m_press.y()), QPointF(to, at.y())};
    }
}

void TimelineCanvas::mouseMoveEvent(QMouseEvent* event) {
    dragTo(event->position());
    m_last = event->position();
}

void TimelineCanvas::click(QPointF at) {
    const PaintedStrip* strip = stripAt(at.y());
    m_measured.reset();
    if (at.x() < kGutter && strip != nullptr) {
        foldAt(strip);
    } else if (m_hover) {
        m_model.choose(m_hover->pane, m_hover->row, m_hover->block);
    } else {
        m_area.reset();
        m_model.select({});
        m_model.clearChosen();
    }
}

/// The rows of the pane that the area begins in.
void TimelineCanvas::selectArea() {
    const auto [from, to] = *m_area;
    const double top = std::min(from.y(), to.y()), bottom = std::max(from.y(), to.y());
    TimelineArea area;
    bool first = true;
    for (const PaintedStrip& painted : m_painted) {
        if (painted.bottom <= top || painted.top >= bottom) continue;
        if (first) area.pane = painted.pane;
        first = false;
        if (painted.pane != area.pane) continue;
        const RowLayout::Strip& strip = m_layouts[painted.pane].strips()[painted.strip];
        area.rows.insert(area.rows.end(), strip.rows.begin(), strip.rows.end());
    }
    // A pinned row may be among them twice.
    std::sort(area.rows.begin(), area.rows.end());
    area.rows.erase(std::unique(area.rows.begin(), area.rows.end()), area.rows.end());
    const std::int64_t origin = area.rows.empty() ? 0 : m_model.origin(area.pane);
    area.window = {origin + std::llround(std::min(from.x(), to.x())),
                   origin + std::llround(std::max(from.x(), to.x()))};
    m_model.select(std::move(area));
}

void TimelineCanvas::mouseReleaseEvent(QMouseEvent* event) {
    const bool is_click = (event->position() - m_press).manhattanLength() <= kClickPixels;
    if (m_drag == Drag::Area && is_click)
        click(event->position());
    else if (m_drag == Drag::Area && m_area)
        selectArea();
    m_drag = Drag::None;
    update();
}

void TimelineCanvas::wheelEvent(QWheelEvent* event) {
    const double notches = event->angleDelta().y() / 120.0;
    if (event->modifiers() & Qt::ControlModifier) {
        m_view.remember();
        m_view.zoom(std::pow(kZoomKey, notches),
                    std::clamp(shareAt(event->position().x()), 0., 1.));
    } else if (event->modifiers() & Qt::ShiftModifier) {
        m_view.remember();
        m_view.pan(-kPanKey * (notches != 0 ? notches : event->angleDelta().x() / 120.0));
    } else {
        scrollRows(-48 * notches);
    }
    event->accept();
    update();
}

/// What the frame found under the pointer; the event behind it is read when it is another one.
void TimelineCanvas::hoverOver(const std::optional<Hover>& hover) {
    const bool same = hover && m_hover && hover->pane == m_hover->pane &&
                      hover->row == m_hover->row &&
                      hover->block.begin_ns == m_hover->block.begin_ns &&
                      hover->block.end_ns == m_hover->block.end_ns;
    m_hover = hover;
    m_hover_lines.clear();
    if (!m_hover) return;
    if (!same) m_model.hover(m_hover->pane, m_hover->row, m_hover->block);
    const TimelineSource& source = *panes()[m_hover->pane].source;
    const TimelineRow& row = source.rows()[m_hover->row];
    const RankTimeline& rank = source.header().ranks[row.rank];
    m_hover_lines = describeBlock(m_hover->block, rank);
    if (same && m_model.hovered()) {
        const std::vector<std::string> lines = m_model.lines(*m_model.hovered());
        m_hover_lines.resize(m_hover->block.count > 1 ? 1 : 0);
        m_hover_lines.insert(m_hover_lines.end(), lines.begin(), lines.end());
    } else {
        m_hover_lines.push_back(placeText(row, rank));
    }
}

}  // namespace piper::ui
