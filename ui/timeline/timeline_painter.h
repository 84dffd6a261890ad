// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QColor>
#include <array>
#include <span>

#include "ui/timeline/timeline_canvas.h"

struct ImDrawList;

namespace piper::ui {

inline constexpr double kGutter = 176.0;  ///< labels left of the tracks, logical pixels

struct CanvasColours {
    QColor background, header, band, line, text, faint, mark;
};
[[nodiscard]] const CanvasColours& canvasColours(bool dark);

/// Draws one frame of a canvas with ImGui's draw list, and finds what the pointer is over. Blocks
/// are set pixel by pixel into one picture of all strips, which is a quad a strip for the device
/// however many events there are.
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
    using Strip = RowLayout::Strip;

    /// Rows grow where the window has room to spare, up to a limit.
    [[nodiscard]] double stripHeight(std::size_t pane, const Strip& strip) const;
    [[nodiscard]] double gapAfter(std::size_t pane, std::size_t strip) const;
    [[nodiscard]] double contentHeight(std::size_t pane) const;
    /// Of the curve under that strip: under the last one of a rank that has memory samples.
    [[nodiscard]] double memoryHeight(std::size_t pane, std::size_t strip) const;
    /// Times of the marks of the axis that are seen.
    void findGrid();
    void paintGrid(double top, double bottom);
    void paintAxis();
    void paintPane(std::size_t index, const PaneBox& box);
    void paintGutter(std::size_t pane, std::size_t strip, double top, double height,
                     double rank_height);
    void paintStrip(std::size_t pane, std::size_t strip, const PaneBox& box, double top,
                    double height);
    /// Sets the pixels of one row's blocks in a line of the picture.
    void setPixels(std::span<const TimelineBlock> blocks, const PaneBox& box,
                   std::span<std::uint32_t> line);
    void paintLabels(std::size_t pane, std::size_t row, std::span<const TimelineBlock> blocks,
                     const PaneBox& box, double top, double height);
    void paintMemory(std::size_t pane, std::size_t rank, const PaneBox& box, double top,
                     double height);
    void paintChosen(std::size_t pane, std::size_t row, const PaneBox& box, double top,
                     double height);
    void paintMeasure();
    void paintArea();
    void paintMarks();
    void paintHover();
    void paintHelp();
    void text(double x, double y, const QColor& colour, const std::string& s, double clip_right);
    [[nodiscard]] double x(double ns) const;
    [[nodiscard]] TimeWindow visible(const PaneBox& box) const;

    TimelineCanvas& m_canvas;
    const CanvasColours& m_colours;
    ImDrawList* m_list = nullptr;
    std::array<std::array<std::uint32_t, 3>, kNumPhases> m_fill{};  ///< [phase][pass]
    double m_ns_per_pixel = 1.0;                                    ///< of the device
    double m_ratio = 1.0;
    double m_stretch = 1.0;
    std::size_t m_columns = 1;            ///< of the picture, device pixels
    std::size_t m_lines = 0;              ///< of the picture
    std::size_t m_used = 0;               ///< lines set so far
    std::vector<std::uint32_t> m_pixels;  ///< [lines, columns]
    std::vector<double> m_grid;           ///< ns from the step's start
    std::optional<TimelineCanvas::Hover> m_hover;
    std::vector<std::string> m_memory_hover;  ///< lines
};

}  // namespace piper::ui
