// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPointF>
#include <optional>
#include <vector>

#include "ui/timeline/imgui_widget.h"
#include "ui/timeline/timeline_source.h"
#include "ui/timeline/timeline_viewport.h"

namespace piper::ui {

/// One run on the canvas.
struct TimelinePane {
    QString title;  ///< "modelled", "measured · run 3"
    std::shared_ptr<const TimelineSource> source;
    std::size_t step = 0;  ///< the step whose start is time zero of this pane
};

/// Runs above each other with one coupled zoom: ranks and lanes as rows, events coloured by phase.
///
/// Ctrl+wheel zooms at the pointer, W and S at the middle; A and D, Shift+drag, right-drag and
/// Shift+wheel pan; the wheel scrolls rows; left-drag measures a span, F fits it or everything,
/// Esc clears it; a click pins an event.
class TimelineCanvas : public ImGuiWidget {
    Q_OBJECT
public:
    explicit TimelineCanvas(QWidget* parent = nullptr);

    void setPanes(std::vector<TimelinePane> panes);
    [[nodiscard]] const std::vector<TimelinePane>& panes() const { return m_panes; }
    [[nodiscard]] const TimelineViewport& viewport() const { return m_view; }
    /// Blocks drawn in the last frame, after merging and culling.
    [[nodiscard]] std::int64_t blocksDrawn() const { return m_blocks_drawn; }
    /// What the pointer was over in the last frame; empty over nothing.
    [[nodiscard]] const std::vector<std::string>& hoverLines() const { return m_hover_lines; }
    [[nodiscard]] const std::vector<std::string>& pinnedLines() const { return m_pinned_lines; }
    void setDark(bool dark);
    void fit();

Q_SIGNALS:
    void pinned();

protected:
    void drawFrame() override;
    [[nodiscard]] QColor background() const override;
    void keyPressEvent(QKeyEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;

private:
    friend class TimelinePainter;
    struct Hover {
        std::size_t pane = 0;
        std::size_t row = 0;
        TimelineBlock block;
    };
    [[nodiscard]] double trackWidth() const;
    [[nodiscard]] double shareAt(double x) const;
    void scrollRows(double pixels);
    [[nodiscard]] bool handleKey(int key);

    std::vector<TimelinePane> m_panes;
    TimelineViewport m_view;
    double m_scroll = 0.0;        ///< pixels, the same in every pane
    double m_scroll_limit = 0.0;  ///< set by the last frame
    std::int64_t m_blocks_drawn = 0;
    std::optional<Hover> m_hover;  ///< of the last frame
    std::optional<Hover> m_pinned_at;
    std::vector<std::string> m_hover_lines;
    std::vector<std::string> m_pinned_lines;
    std::optional<std::pair<double, double>> m_measured;  ///< ns, as dragged
    QPointF m_press;
    QPointF m_last;
    bool m_panning = false;
    bool m_measuring = false;
    bool m_dark = true;
};

}  // namespace piper::ui
