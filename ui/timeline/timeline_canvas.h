// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPointF>
#include <optional>
#include <vector>

#include "ui/models/timeline_keys.h"
#include "ui/models/timeline_view_model.h"
#include "ui/timeline/imgui_widget.h"
#include "ui/timeline/row_layout.h"
#include "ui/timeline/timeline_viewport.h"

namespace piper::ui {

/// Runs above each other with one coupled zoom: ranks and lanes as rows, events coloured by phase.
/// TimelineKeys says what keys do.
class TimelineCanvas : public ImGuiWidget {
    Q_OBJECT
public:
    /// `topic`: its own on the executor. The keys outlive the canvas.
    TimelineCanvas(Executor& executor, const TimelineKeys& keys, const QString& topic,
                   QWidget* parent = nullptr);

    /// A rank whose memory the source knows has its curve under its rows.
    void setPanes(std::vector<TimelinePane> panes);
    [[nodiscard]] const std::vector<TimelinePane>& panes() const { return m_model.panes(); }
    [[nodiscard]] TimelineViewModel& model() { return m_model; }
    [[nodiscard]] const TimelineViewport& viewport() const { return m_view; }
    [[nodiscard]] const RowLayout& layoutOf(std::size_t pane) const { return m_layouts[pane]; }
    /// Blocks drawn in the last frame, after merging and culling.
    [[nodiscard]] std::int64_t blocksDrawn() const { return m_blocks_drawn; }
    /// Curves of memory drawn in the last frame.
    [[nodiscard]] int curvesDrawn() const { return m_curves_drawn; }
    /// What the pointer was over in the last frame; empty over nothing.
    [[nodiscard]] const std::vector<std::string>& hoverLines() const { return m_hover_lines; }
    /// Of the chosen event; empty without one.
    [[nodiscard]] std::vector<std::string> pinnedLines() const;
    /// Relative times, in the order they were made.
    [[nodiscard]] const std::vector<double>& marks() const { return m_marks; }
    /// The length of the measured stretch in nanoseconds; 0 without one.
    [[nodiscard]] double measuredNs() const {
        return m_measured ? m_measured->second - m_measured->first : 0.0;
    }
    void setDark(bool dark);
    void fit();
    /// The next event whose name holds `text`, from the chosen one or the left border on.
    void search(const QString& text, bool forward);

    /// Whether something here does it: only a page with a search line searches.
    [[nodiscard]] bool offers(TimelineCommand command) const;
    /// What its key does. Fold, pin and mark act where the pointer was last.
    void perform(TimelineCommand command);
    [[nodiscard]] bool showsHelp() const { return m_help; }

    /// The key that an event means, as keys are bound and looked up: W, A, S and D by their place.
    [[nodiscard]] static QKeyCombination keyOf(const QKeyEvent& event);

Q_SIGNALS:
    void searchWanted();

protected:
    void drawFrame() override;
    [[nodiscard]] QColor background() const override;
    bool event(QEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void mouseMoveEvent(QMouseEvent* event) override;
    void mouseReleaseEvent(QMouseEvent* event) override;
    void wheelEvent(QWheelEvent* event) override;

private:
    friend class TimelinePainter;
    enum class Drag { None, Pan, Measure, Area };
    struct Hover {
        std::size_t pane = 0;
        std::size_t row = 0;
        TimelineBlock block;
    };
    /// Where a strip was painted in the last frame.
    struct PaintedStrip {
        std::size_t pane = 0, strip = 0;
        double top = 0.0, bottom = 0.0;
    };
    [[nodiscard]] double trackWidth() const;
    [[nodiscard]] double shareAt(double x) const;
    [[nodiscard]] double nsAt(double x) const { return m_view.toNs(shareAt(x)); }
    [[nodiscard]] const PaintedStrip* stripAt(double y) const;
    void scrollRows(double pixels);
    void moveView(double zoom, double pan);
    void foldAt(const PaintedStrip* strip);
    void pinAt(const PaintedStrip* strip);
    void fitChosen();
    void toggleMark(double ns);
    void escape();
    void click(QPointF at);
    void dragTo(QPointF at);
    void selectArea();
    void hoverOver(const std::optional<Hover>& hover);
    void showChosen();

    const TimelineKeys& m_keys;
    TimelineViewModel m_model;
    TimelineViewport m_view;
    std::vector<RowLayout> m_layouts;     ///< [pane]
    std::vector<PaintedStrip> m_painted;  ///< of the last frame
    double m_scroll = 0.0;                ///< pixels, the same in every pane
    double m_scroll_limit = 0.0;          ///< set by the last frame
    std::int64_t m_blocks_drawn = 0;
    int m_curves_drawn = 0;
    std::optional<Hover> m_hover;  ///< of the last frame
    std::vector<std::string> m_hover_lines;
    std::optional<std::pair<double, double>> m_measured;  ///< ns, as dragged
    std::optional<std::pair<QPointF, QPointF>> m_area;    ///< ns and pixels below the axis
    std::vector<double> m_marks;
    QPointF m_press;
    QPointF m_last;
    Drag m_drag = Drag::None;
    bool m_help = false;
    bool m_dark = true;
};

}  // namespace piper::ui
