// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QColor>
#include <array>

#include "ui/timeline/timeline_canvas.h"

struct ImDrawList;

namespace piper::ui {

inline constexpr double kGutter = 176.0;  ///< labels left of the tracks, logical pixels

struct CanvasColours {
    QColor background, header, band, line, text, faint, mark;
};
[[nodiscard]] const CanvasColours& canvasColours(bool dark);

/// Draws one frame of a canvas with ImGui's draw list, and finds what the pointer is over.
class TimelinePainter {
public:
    explicit TimelinePainter(TimelineCanvas& canvas);
    void paint();

private:
    struct PaneBox {
        double top = 0.0;
        double height = 0.0;
        std::int64_t origin = 0;  ///< ns of time zero
    };
    /// Rows grow where the window has room to spare, up to a limit.
    [[nodiscard]] double rowHeight(const TimelineRow& row) const;
    [[nodiscard]] double contentHeight(const TimelineSource& source) const;
    void paintAxis();
    void paintPane(std::size_t index, const PaneBox& box);
    void paintRankLabel(const TimelineSource& source, std::size_t rank, double top, double height);
    void paintRow(std::size_t pane, std::size_t row, const PaneBox& box, double top, double height);
    void paintBlock(const TimelineBlock& block, const Event* event, double x0, double x1,
                    double top, double height);
    void paintMeasure();
    void paintHover();
    void text(double x, double y, const QColor& colour, const std::string& s, double clip_right);
    [[nodiscard]] double x(double ns) const;

    TimelineCanvas& m_canvas;
    const CanvasColours& m_colours;
    ImDrawList* m_list = nullptr;
    std::array<std::array<std::uint32_t, 3>, kNumPhases> m_fill{};  ///< [phase][pass]
    double m_ns_per_pixel = 1.0;
    double m_stretch = 1.0;
};

}  // namespace piper::ui
