// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_painter.h"

#include <imgui.h>

#include <cmath>

#include "core/base/units.h"
#include "ui/models/phase_colours.h"

namespace piper::ui {
namespace {

constexpr double kAxis = 24.0;
constexpr double kHeader = 22.0;
constexpr double kComputeRow = 20.0;
constexpr double kOtherRow = 13.0;
constexpr double kRowGap = 1.0;
constexpr double kRankGap = 6.0;
constexpr double kMostStretch = 1.6;
constexpr double kTwoLines = 36.0;   ///< a rank at least this high names its host too
constexpr double kLabelFrom = 34.0;  ///< blocks at least this wide carry their name

ImU32 colour(const QColor& c) {
    return IM_COL32(c.red(), c.green(), c.blue(), c.alpha());
}

ImVec2 point(double x, double y) {
    return {static_cast<float>(x), static_cast<float>(y)};
}

}  // namespace

const CanvasColours& canvasColours(bool dark) {
    static const CanvasColours night{"#16191d", "#20252b", "#1b1f24", "#2e343b",
                                     "#d5dae0", "#8b949e", "#4c9be8"};
    static const CanvasColours day{"#ffffff", "#eef1f4", "#f7f8fa", "#d8dde3",
                                   "#1f2429", "#68727d", "#1f6fb5"};
    return dark ? night : day;
}

TimelinePainter::TimelinePainter(TimelineCanvas& canvas)
    : m_canvas(canvas), m_colours(canvasColours(canvas.m_dark)) {
    m_list = ImGui::GetBackgroundDrawList();
    m_ns_per_pixel = canvas.m_view.span() / canvas.trackWidth();
    for (std::size_t i = 0; i < kNumPhases; ++i) {
        const QColor base = phaseColour(static_cast<Phase>(i), canvas.m_dark);
        m_fill[i] = {colour(base), colour(base.darker(135)), colour(base.lighter(130))};
    }
}

double TimelinePainter::rowHeight(const TimelineRow& row) const {
    const bool wide = row.lane == Lane::Compute || row.lane == Lane::Stream;
    return std::round((wide ? kComputeRow : kOtherRow) * m_stretch);
}

double TimelinePainter::contentHeight(const TimelineSource& source) const {
    double height = 0.0;
    const auto& rows = source.rows();
    for (std::size_t i = 0; i < rows.size(); ++i)
        height += rowHeight(rows[i]) + kRowGap +
                  (i + 1 == rows.size() || rows[i + 1].rank != rows[i].rank ? kRankGap : 0.0);
    return height;
}

double TimelinePainter::x(double ns) const {
    return kGutter + m_canvas.m_view.toShare(ns) * m_canvas.trackWidth();
}

void TimelinePainter::text(double x, double y, const QColor& c, const std::string& s,
                           double clip_right) {
    const ImVec4 clip(static_cast<float>(x), static_cast<float>(y), static_cast<float>(clip_right),
                      static_cast<float>(y + 20.0));
    m_list->AddText(ImGui::GetFont(), ImGui::GetFontSize(), point(x, y), colour(c), s.c_str(),
                    nullptr, 0.0F, &clip);
}

void TimelinePainter::paint() {
    m_canvas.m_blocks_drawn = 0;
    m_canvas.m_hover.reset();
    m_canvas.m_hover_lines.clear();
    const auto& panes = m_canvas.m_panes;
    const auto wantedHeight = [&] {
        double sum = 0.0;
        for (const TimelinePane& pane : panes) sum += kHeader + contentHeight(*pane.source);
        return sum;
    };
    const double room = m_canvas.height() - kAxis;
    double overflow = 0.0;
    m_stretch = std::clamp(room / std::max(1.0, wantedHeight()), 1.0, kMostStretch);
    const double wanted = wantedHeight();
    double top = kAxis;
    for (std::size_t i = 0; i < panes.size(); ++i) {
        const double content = kHeader + contentHeight(*panes[i].source);
        PaneBox box;
        box.top = top;
        box.height = wanted <= room ? content : room / static_cast<double>(panes.size());
        const auto& steps = panes[i].source->steps();
        box.origin = steps[std::min(panes[i].step, steps.size() - 1)].begin_ns;
        overflow = std::max(overflow, content - box.height);
        paintPane(i, box);
        top += box.height;
    }
    m_canvas.m_scroll_limit = overflow;
    m_canvas.scrollRows(0);
    paintAxis();
    paintMeasure();
    paintHover();
}

void TimelinePainter::paintAxis() {
    const double width = m_canvas.width();
    m_list->AddRectFilled(point(0, 0), point(width, kAxis), colour(m_colours.header));
    const TimelineViewport& view = m_canvas.m_view;
    const double distance =
        markDistance(view.span(), static_cast<int>(m_canvas.trackWidth() / 110.0));
    for (double t = std::ceil(view.begin() / distance) * distance; t < view.begin() + view.span();
         t += distance) {
        const double at = x(t);
        if (at < kGutter) continue;
        m_list->AddLine(point(at, kAxis - 6), point(at, m_canvas.height()), colour(m_colours.line));
        text(at + 4, 4, m_colours.faint, std::abs(t) < 0.5 ? "0" : humanSeconds(nanoseconds(t)),
             width);
    }
    text(10, 4, m_colours.faint, "time from the step's start", kGutter - 4);
}

void TimelinePainter::paintPane(std::size_t index, const PaneBox& box) {
    const TimelineSource& source = *m_canvas.m_panes[index].source;
    const double bottom = box.top + box.height, width = m_canvas.width();
    m_list->PushClipRect(point(0, box.top + kHeader), point(width, bottom), true);
    double y = box.top + kHeader + 2 - m_canvas.m_scroll;
    const auto& rows = source.rows();
    for (std::size_t i = 0; i < rows.size();) {
        std::size_t end = i;
        double height = 0.0;
        while (end < rows.size() && rows[end].rank == rows[i].rank)
            height += rowHeight(rows[end++]) + kRowGap;
        const bool visible = y + height >= box.top && y <= bottom;
        if (visible) {
            double row_top = y;
            if (rows[i].rank % 2 == 1)
                m_list->AddRectFilled(point(0, y - kRankGap / 2),
                                      point(width, y + height + kRankGap / 2),
                                      colour(m_colours.band));
            for (std::size_t row = i; row < end; ++row) {
                paintRow(index, row, box, row_top, rowHeight(rows[row]));
                row_top += rowHeight(rows[row]) + kRowGap;
            }
            paintRankLabel(source, rows[i].rank, y, height);
        }
        y += height + kRankGap;
        i = end;
    }
    m_list->PopClipRect();
    m_list->AddRectFilled(point(0, box.top), point(width, box.top + kHeader),
                          colour(m_colours.header));
    m_list->AddLine(point(0, box.top), point(width, box.top), colour(m_colours.line));
    text(10, box.top + 4, m_colours.text, m_canvas.m_panes[index].title.toStdString(), width - 8);
}

void TimelinePainter::paintRankLabel(const TimelineSource& source, std::size_t rank, double top,
                                     double height) {
    text(10, top + std::min(3.0, height / 2 - 8), m_colours.text, source.rankLabel(rank),
         kGutter - 58);
    if (height >= kTwoLines)
        text(10, top + 19, m_colours.faint, source.rankHost(rank), kGutter - 58);
}

void TimelinePainter::paintRow(std::size_t pane, std::size_t row, const PaneBox& box, double top,
                               double height) {
    const TimelineSource& source = *m_canvas.m_panes[pane].source;
    text(kGutter - 54, top + (height - 15) / 2, m_colours.faint, source.rows()[row].label,
         kGutter - 4);
    const TimelineViewport& view = m_canvas.m_view;
    const auto origin = static_cast<double>(box.origin);
    const TimelineSpan span{static_cast<std::int64_t>(view.begin() + origin),
                            static_cast<std::int64_t>(view.begin() + view.span() + origin)};
    const double right = m_canvas.width();
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const bool mouse_in_row = mouse.y >= top && mouse.y < top + height && mouse.x >= kGutter &&
                              mouse.y > box.top + kHeader && mouse.y < box.top + box.height;
    const auto merge = static_cast<std::int64_t>(m_ns_per_pixel);
    m_list->PushClipRect(point(kGutter, top), point(right, top + height), true);
    source.visit(row, span, merge, [&](const TimelineBlock& block) {
        const double x0 = x(static_cast<double>(block.begin_ns) - origin);
        const double x1 = std::max(x(static_cast<double>(block.end_ns) - origin), x0 + 1.0);
        const bool labelled = x1 - x0 >= kLabelFrom && height >= 12 && block.count == 1;
        const Event event = labelled ? source.event(row, block.event) : Event{};
        paintBlock(block, labelled ? &event : nullptr, x0, x1, top, height);
        ++m_canvas.m_blocks_drawn;
        // One pixel of slack, so that the thinnest column can be hit.
        if (mouse_in_row && mouse.x >= x0 - 1 && mouse.x <= x1 + 1)
            m_canvas.m_hover = {pane, row, block};
    });
    m_list->PopClipRect();
}

void TimelinePainter::paintBlock(const TimelineBlock& block, const Event* event, double x0,
                                 double x1, double top, double height) {
    const auto phase = static_cast<std::size_t>(block.phase);
    const ImU32 fill = m_fill[phase][static_cast<std::size_t>(block.pass)];
    // A hairline between neighbours where there is room for it.
    const double gap = x1 - x0 > 3.0 ? 0.5 : 0.0;
    m_list->AddRectFilled(point(x0, top), point(x1 - gap, top + height), fill);
    if (event == nullptr) return;
    const ImVec4 f = ImGui::ColorConvertU32ToFloat4(fill);
    const QColor ink = textOn(QColor::fromRgbF(f.x, f.y, f.z));
    std::string label = eventName(*event);
    if (event->micro_batch.valid()) label = fmt::format("{} · {}", event->micro_batch.value, label);
    text(std::max(x0, kGutter) + 4, top + (height - 15) / 2, ink, label, x1 - 2);
}

void TimelinePainter::paintMeasure() {
    if (!m_canvas.m_measured) return;
    const auto [from, to] = *m_canvas.m_measured;
    const double x0 = std::max(x(from), kGutter), x1 = x(to);
    QColor veil = m_colours.mark;
    veil.setAlpha(40);
    m_list->AddRectFilled(point(x0, kAxis), point(x1, m_canvas.height()), colour(veil));
    m_list->AddLine(point(x0, 0), point(x0, m_canvas.height()), colour(m_colours.mark));
    m_list->AddLine(point(x1, 0), point(x1, m_canvas.height()), colour(m_colours.mark));
    const std::string label = humanSeconds(nanoseconds(to - from));
    const double width = ImGui::CalcTextSize(label.c_str()).x;
    const double at = std::max(x0, (x0 + x1 - width) / 2);
    m_list->AddRectFilled(point(at - 4, 2), point(at + width + 4, kAxis - 2),
                          colour(m_colours.background));
    text(at, 4, m_colours.text, label, at + width + 2);
}

void TimelinePainter::paintHover() {
    if (!m_canvas.m_hover) return;
    const auto& hover = *m_canvas.m_hover;
    const TimelineSource& source = *m_canvas.m_panes[hover.pane].source;
    std::vector<std::string>& lines = m_canvas.m_hover_lines;
    if (hover.block.count > 1)
        lines.push_back(fmt::format("{} events in this pixel; the longest:", hover.block.count));
    for (std::string& line : describeEvent(source.event(hover.row, hover.block.event)))
        lines.push_back(std::move(line));
    const TimelineRow& row = source.rows()[hover.row];
    std::string place = source.rankLabel(row.rank) + " · lane " + row.label;
    if (const std::string host = source.rankHost(row.rank); !host.empty()) place += " · " + host;
    lines.push_back(std::move(place));
    ImGui::PushStyleColor(ImGuiCol_PopupBg, colour(m_colours.header));
    ImGui::PushStyleColor(ImGuiCol_Border, colour(m_colours.line));
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(10, 8));
    ImGui::BeginTooltip();
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const QColor& c = i == 0 ? m_colours.text : m_colours.faint;
        ImGui::PushStyleColor(ImGuiCol_Text, colour(c));
        ImGui::TextUnformatted(lines[i].c_str());
        ImGui::PopStyleColor();
    }
    ImGui::EndTooltip();
    ImGui::PopStyleVar();
    ImGui::PopStyleColor(2);
}

}  // namespace piper::ui
