// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_painter.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>

#include "core/base/units.h"
#include "ui/models/phase_colours.h"
#include "ui/timeline/describe_event.h"

namespace piper::ui {
namespace {

constexpr double kAxis = 24.0;
constexpr double kHeader = 22.0;
constexpr double kComputeRow = 20.0;
constexpr double kOtherRow = 13.0;
constexpr double kFoldedRow = 17.0;
constexpr double kMemoryRow = 26.0;
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
    m_ratio = canvas.devicePixelRatioF();
    m_ns_per_pixel = canvas.m_view.span() / (canvas.trackWidth() * m_ratio);
    m_columns = static_cast<std::size_t>(std::max(1.0, std::ceil(canvas.trackWidth() * m_ratio)));
    // As many strips as the lowest of them can be.
    m_lines = static_cast<std::size_t>(canvas.height() / kOtherRow) + 2 * canvas.panes().size() + 2;
    m_pixels.resize(m_columns * m_lines);
    for (std::size_t i = 0; i < kNumPhases; ++i) {
        const QColor base = phaseColour(static_cast<Phase>(i), canvas.m_dark);
        m_fill[i] = {colour(base), colour(base.darker(135)), colour(base.lighter(130))};
    }
}

double TimelinePainter::stripHeight(std::size_t pane, const Strip& strip) const {
    const Lane lane = m_canvas.panes()[pane].source->rows()[strip.rows.front()].lane;
    const bool wide = lane == Lane::Compute || lane == Lane::Stream;
    return std::round((strip.folded ? kFoldedRow : wide ? kComputeRow : kOtherRow) * m_stretch);
}

double TimelinePainter::gapAfter(std::size_t pane, std::size_t strip) const {
    const auto& strips = m_canvas.m_layouts[pane].strips();
    const bool last = strip + 1 == strips.size() || strips[strip + 1].rank != strips[strip].rank ||
                      strips[strip + 1].pinned != strips[strip].pinned;
    return kRowGap + (last ? kRankGap : 0.0);
}

double TimelinePainter::contentHeight(std::size_t pane) const {
    const auto& strips = m_canvas.m_layouts[pane].strips();
    double height = 0.0;
    for (std::size_t i = 0; i < strips.size(); ++i)
        height += stripHeight(pane, strips[i]) + gapAfter(pane, i) + memoryHeight(pane, i);
    return height;
}

double TimelinePainter::memoryHeight(std::size_t pane, std::size_t strip) const {
    const Strip& s = m_canvas.m_layouts[pane].strips()[strip];
    if (s.folded || s.pinned || gapAfter(pane, strip) <= kRowGap) return 0.0;
    const std::vector<MemoryCurve>& curves = m_canvas.m_model.memory(pane);
    const bool known = s.rank < curves.size() && !curves[s.rank].empty();
    return known ? std::round(kMemoryRow * m_stretch) : 0.0;
}

double TimelinePainter::x(double ns) const {
    return kGutter + m_canvas.m_view.toShare(ns) * m_canvas.trackWidth();
}

TimeWindow TimelinePainter::visible(const PaneBox& box) const {
    const TimelineViewport& view = m_canvas.m_view;
    return {box.origin + static_cast<std::int64_t>(std::floor(view.begin())),
            box.origin + static_cast<std::int64_t>(std::ceil(view.begin() + view.span()))};
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
    m_canvas.m_curves_drawn = 0;
    m_canvas.m_painted.clear();
    const std::size_t panes = m_canvas.panes().size();
    const auto wantedHeight = [&] {
        double sum = 0.0;
        for (std::size_t i = 0; i < panes; ++i) sum += kHeader + contentHeight(i);
        return sum;
    };
    const double room = m_canvas.height() - kAxis;
    double overflow = 0.0;
    m_stretch = std::clamp(room / std::max(1.0, wantedHeight()), 1.0, kMostStretch);
    const double wanted = wantedHeight();
    double top = kAxis;
    findGrid();
    for (std::size_t i = 0; i < panes; ++i) {
        const double content = kHeader + contentHeight(i);
        PaneBox box;
        box.top = top;
        box.height = wanted <= room ? content : room / static_cast<double>(panes);
        box.origin = m_canvas.m_model.origin(i);
        overflow = std::max(overflow, content - box.height);
        m_canvas.m_model.want(i, visible(box), m_ns_per_pixel);
        paintPane(i, box);
        top += box.height;
    }
    m_canvas.m_scroll_limit = overflow;
    m_canvas.scrollRows(0);
    if (m_used > 0) m_canvas.setStrips(m_pixels, m_columns, m_lines);
    paintAxis();
    paintArea();
    paintMeasure();
    paintMarks();
    paintHover();
    paintHelp();
}

void TimelinePainter::findGrid() {
    m_grid.clear();
    const TimelineViewport& view = m_canvas.m_view;
    const double distance =
        markDistance(view.span(), static_cast<int>(m_canvas.trackWidth() / 110.0));
    for (double t = std::ceil(view.begin() / distance) * distance; t < view.begin() + view.span();
         t += distance)
        if (x(t) >= kGutter) m_grid.push_back(t);
}

/// Under what is painted later.
void TimelinePainter::paintGrid(double top, double bottom) {
    for (const double t : m_grid)
        m_list->AddLine(point(x(t), top), point(x(t), bottom), colour(m_colours.line));
}

void TimelinePainter::paintAxis() {
    const double width = m_canvas.width();
    m_list->AddRectFilled(point(0, 0), point(width, kAxis), colour(m_colours.header));
    paintGrid(kAxis - 6, kAxis);
    for (const double t : m_grid) {
        const double at = x(t);
        text(at + 4, 4, m_colours.faint, std::abs(t) < 0.5 ? "0" : humanSeconds(nanoseconds(t)),
             width);
    }
    text(10, 4, m_colours.faint, "time from the step's start", kGutter - 4);
}

void TimelinePainter::paintPane(std::size_t index, const PaneBox& box) {
    const double bottom = box.top + box.height, width = m_canvas.width();
    const auto& strips = m_canvas.m_layouts[index].strips();
    m_list->PushClipRect(point(0, box.top + kHeader), point(width, bottom), true);
    double y = box.top + kHeader + 2 - m_canvas.m_scroll;
    std::size_t group = 0;
    for (std::size_t i = 0; i < strips.size();) {
        // The strips of one rank, or the pinned ones of it.
        std::size_t end = i;
        double height = 0.0;
        do height += stripHeight(index, strips[end]) + kRowGap;
        while (gapAfter(index, end++) <= kRowGap);
        const double memory = memoryHeight(index, end - 1);
        height += memory;
        if (y + height >= box.top + kHeader && y <= bottom) {
            if (group % 2 == 1)
                m_list->AddRectFilled(point(0, y - kRankGap / 2),
                                      point(width, y + height + kRankGap / 2),
                                      colour(m_colours.band));
            paintGrid(y - kRankGap / 2, y + height + kRankGap / 2);
            double top = y;
            for (std::size_t strip = i; strip < end; ++strip) {
                const double strip_height = stripHeight(index, strips[strip]);
                paintStrip(index, strip, box, top, strip_height);
                paintGutter(index, strip, top, strip_height, strip == i ? height : 0.0);
                top += strip_height + kRowGap;
            }
            if (memory > 0.0) paintMemory(index, strips[i].rank, box, top, memory);
        }
        y += height + kRankGap;
        i = end;
        ++group;
    }
    m_list->PopClipRect();
    m_list->AddRectFilled(point(0, box.top), point(width, box.top + kHeader),
                          colour(m_colours.header));
    m_list->AddLine(point(0, box.top), point(width, box.top), colour(m_colours.line));
    text(10, box.top + 4, m_colours.text, m_canvas.panes()[index].title.toStdString(), width - 8);
}

/// The lane's name, and on the first strip of a rank (`rank_height` > 0) the rank's.
void TimelinePainter::paintGutter(std::size_t pane, std::size_t strip, double top, double height,
                                  double rank_height) {
    const TimelineSource& source = *m_canvas.panes()[pane].source;
    const Strip& s = m_canvas.m_layouts[pane].strips()[strip];
    const RankTimeline& rank = source.header().ranks[s.rank];
    const std::string lane =
        s.folded ? fmt::format("{} rows", s.rows.size()) : rowText(source.rows()[s.rows[0]], rank);
    text(kGutter - 54, top + (height - 15) / 2, m_colours.faint, lane, kGutter - 4);
    if (rank_height <= 0.0) return;
    const std::string name = (s.pinned ? "pinned · " : s.folded ? "+ " : "") + rankText(rank);
    text(10, top + std::min(3.0, rank_height / 2 - 8), m_colours.text, name, kGutter - 58);
    if (rank_height >= kTwoLines && !s.pinned)
        text(10, top + 19, m_colours.faint, rank.host, kGutter - 58);
}

void TimelinePainter::setPixels(std::span<const TimelineBlock> blocks, const PaneBox& box,
                                std::span<std::uint32_t> line) {
    const double origin = static_cast<double>(box.origin) + m_canvas.m_view.begin();
    const auto columns = static_cast<double>(m_columns);
    const double gap_from = 3.0 * m_ratio;
    std::int64_t owner = -1, owner_ns = 0;  // the last column of the block before
    for (const TimelineBlock& b : blocks) {
        const double from = (static_cast<double>(b.begin_ns) - origin) / m_ns_per_pixel;
        const double to = (static_cast<double>(b.end_ns) - origin) / m_ns_per_pixel;
        if (to < 0.0 || from >= columns) continue;
        auto first = static_cast<std::int64_t>(std::max(0.0, std::floor(from)));
        auto last = static_cast<std::int64_t>(std::min(columns, std::round(to)));
        const bool narrow = to - from < 1.0;
        last = std::max(last, first + 1);
        // Two in one column: the longer one is seen, beside a wide one the narrow one.
        if (narrow && first == owner && b.longest_ns < owner_ns) ++first;
        // A hairline between neighbours where there is room for it.
        if (to - from > gap_from) --last;
        last = std::min(last, static_cast<std::int64_t>(m_columns));
        const std::uint32_t fill =
            m_fill[static_cast<std::size_t>(b.label.phase)][static_cast<std::size_t>(b.label.pass)];
        for (std::int64_t column = first; column < last; ++column)
            line[static_cast<std::size_t>(column)] = fill;
        owner = last - 1;
        owner_ns = narrow ? b.longest_ns : 0;
        ++m_canvas.m_blocks_drawn;
    }
}

void TimelinePainter::paintStrip(std::size_t pane, std::size_t strip, const PaneBox& box,
                                 double top, double height) {
    const double bottom = box.top + box.height;
    if (top + height <= box.top + kHeader || top >= bottom || m_used >= m_lines) return;
    m_canvas.m_painted.push_back(
        {pane, strip, std::max(top, box.top + kHeader), std::min(top + height, bottom)});
    const TimelineView* picture = m_canvas.m_model.picture(pane);
    if (picture == nullptr) return;
    const Strip& s = m_canvas.m_layouts[pane].strips()[strip];
    const TimeWindow seen = visible(box);
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const bool mouse_in_strip = mouse.y >= m_canvas.m_painted.back().top &&
                                mouse.y < m_canvas.m_painted.back().bottom && mouse.x >= kGutter;
    const double mouse_ns = m_canvas.nsAt(mouse.x) + static_cast<double>(box.origin);
    const double slack = m_ns_per_pixel * m_ratio;  // the thinnest column can be hit
    const std::span<std::uint32_t> line =
        std::span(m_pixels).subspan(m_used * m_columns, m_columns);
    const auto line_at = static_cast<float>(m_used++);
    const auto lines = static_cast<float>(m_lines);
    const float right =
        static_cast<float>(m_canvas.trackWidth() * m_ratio) / static_cast<float>(m_columns);
    m_list->AddImage(m_canvas.stripTexture(), point(kGutter, top),
                     point(m_canvas.width(), top + height), ImVec2(0.0F, (line_at + 0.5F) / lines),
                     ImVec2(right, (line_at + 0.5F) / lines));
    // The rows of a folded rank lie over each other, the first on top.
    for (std::size_t i = s.rows.size(); i-- > 0;) {
        const std::span<const TimelineBlock> all = picture->row(s.rows[i]);
        const auto begin = std::partition_point(
            all.begin(), all.end(), [&](const auto& b) { return b.end_ns < seen.begin_ns; });
        const auto end = std::partition_point(
            begin, all.end(), [&](const auto& b) { return b.begin_ns < seen.end_ns; });
        const std::span<const TimelineBlock> blocks(begin, end);
        setPixels(blocks, box, line);
        if (!s.folded) paintLabels(pane, s.rows[i], blocks, box, top, height);
        paintChosen(pane, s.rows[i], box, top, height);
        if (!mouse_in_strip) continue;
        for (const TimelineBlock& b : blocks)
            if (mouse_ns >= static_cast<double>(b.begin_ns) - slack &&
                mouse_ns <= static_cast<double>(b.end_ns) + slack)
                m_hover = {pane, s.rows[i], b};
    }
}

void TimelinePainter::paintLabels(std::size_t pane, std::size_t row,
                                  std::span<const TimelineBlock> blocks, const PaneBox& box,
                                  double top, double height) {
    if (height < 12) return;
    const TimelineSource& source = *m_canvas.panes()[pane].source;
    const RankTimeline& rank = source.header().ranks[source.rows()[row].rank];
    const double least_ns = kLabelFrom * m_ns_per_pixel * m_ratio;
    for (const TimelineBlock& b : blocks) {
        if (b.count > 1 || static_cast<double>(b.end_ns - b.begin_ns) < least_ns) continue;
        const double x0 = x(static_cast<double>(b.begin_ns - box.origin));
        const double x1 = x(static_cast<double>(b.end_ns - box.origin));
        const ImVec4 f =
            ImGui::ColorConvertU32ToFloat4(m_fill[static_cast<std::size_t>(b.label.phase)]
                                                 [static_cast<std::size_t>(b.label.pass)]);
        std::string label = labelText(b.label, rank);
        if (b.micro_batch.valid()) label = fmt::format("{} · {}", b.micro_batch.value, label);
        text(std::max(x0, kGutter) + 4, top + (height - 15) / 2,
             textOn(QColor::fromRgbF(f.x, f.y, f.z)), label, x1 - 2);
    }
}

/// From nothing up to the peak of the pane's ranks.
void TimelinePainter::paintMemory(std::size_t pane, std::size_t rank, const PaneBox& box,
                                  double top, double height) {
    ++m_canvas.m_curves_drawn;
    const TimelineSource& source = *m_canvas.panes()[pane].source;
    const std::vector<MemoryCurve>& curves = m_canvas.m_model.memory(pane);
    const MemoryCurve& curve = curves[rank];
    std::int64_t most = 1;
    for (const MemoryCurve& other : curves) most = std::max(most, other.peak());
    const double scale = (height - 3.0) / static_cast<double>(most);
    const double bottom = top + height - 1.0;
    QColor area = m_colours.mark;
    area.setAlpha(60);
    const auto timeAt = [&](double column) {
        return static_cast<std::int64_t>(m_canvas.nsAt(column)) + box.origin;
    };
    const auto columns = static_cast<int>(m_canvas.trackWidth());
    const auto paintStretch = [&](int from, int to, std::int64_t bytes) {
        const double y = bottom - static_cast<double>(bytes) * scale;
        m_list->AddRectFilled(point(kGutter + from, y), point(kGutter + to, bottom), colour(area));
        m_list->AddRectFilled(point(kGutter + from, y), point(kGutter + to, y + 1),
                              colour(m_colours.mark));
    };
    int from = 0;
    std::int64_t held = 0;
    for (int c = 0; c <= columns; ++c) {
        const std::int64_t here =
            c < columns ? curve.mostIn(timeAt(kGutter + c), timeAt(kGutter + c + 1)) : 0;
        if (here == held) continue;
        if (held > 0) paintStretch(from, c, held);
        from = c;
        held = here;
    }
    text(kGutter - 54, top + (height - 15) / 2, m_colours.faint, "memory", kGutter - 4);
    const std::string peak = humanBytes(Bytes(static_cast<double>(curve.peak())));
    text(10, top + (height - 15) / 2, m_colours.faint, "peak " + peak, kGutter - 58);
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    if (mouse.y < top || mouse.y >= top + height || mouse.x < kGutter) return;
    const auto under = static_cast<double>(curve.at(timeAt(mouse.x)));
    m_memory_hover = {fmt::format("{} held", humanBytes(Bytes(under))),
                      fmt::format("{}, peak {}", rankText(source.header().ranks[rank]), peak)};
}

void TimelinePainter::paintChosen(std::size_t pane, std::size_t row, const PaneBox& box, double top,
                                  double height) {
    const auto& chosen = m_canvas.m_model.chosen();
    if (!chosen || chosen->pane != pane || chosen->found.row != row) return;
    const Event& e = chosen->found.event;
    const double x0 = std::max(x(static_cast<double>(e.start_ns - box.origin)), kGutter);
    const double x1 = x(static_cast<double>(e.end_ns() - box.origin));
    if (x1 < kGutter) return;
    m_list->AddRect(point(x0 - 1, top), point(std::max(x1, x0 + 2) + 1, top + height),
                    colour(m_colours.text), 0.0F, 0, 2.0F);
}

void TimelinePainter::paintArea() {
    if (!m_canvas.m_area) return;
    const auto [from, to] = *m_canvas.m_area;
    const double x0 = std::max(x(std::min(from.x(), to.x())), kGutter);
    const double x1 = std::max(x(std::max(from.x(), to.x())), x0);
    const double y0 = std::max(std::min(from.y(), to.y()), kAxis);
    const double y1 = std::max(from.y(), to.y());
    QColor veil = m_colours.mark;
    veil.setAlpha(46);
    m_list->AddRectFilled(point(x0, y0), point(x1, y1), colour(veil));
    m_list->AddRect(point(x0, y0), point(x1, y1), colour(m_colours.mark));
}

void TimelinePainter::paintMarks() {
    for (std::size_t i = 0; i < m_canvas.m_marks.size(); ++i) {
        const double ns = m_canvas.m_marks[i], at = x(ns);
        if (at < kGutter || at > m_canvas.width()) continue;
        m_list->AddLine(point(at, 0), point(at, m_canvas.height()), colour(m_colours.text));
        const std::string label = fmt::format("{}: {}", i + 1, humanSeconds(nanoseconds(ns)));
        const double width = ImGui::CalcTextSize(label.c_str()).x;
        m_list->AddRectFilled(point(at, 2), point(at + width + 8, kAxis - 2),
                              colour(m_colours.text));
        text(at + 4, 4, m_colours.background, label, at + width + 8);
    }
}

void TimelinePainter::paintHelp() {
    if (!m_canvas.m_help) return;
    constexpr double kKeys = 200.0, kWidth = 600.0;
    m_list = ImGui::GetForegroundDrawList();
    const auto help = m_canvas.m_keys.help();
    // All lines are shown, closer together on a low canvas.
    const double line =
        std::clamp((m_canvas.height() - 32.0) / static_cast<double>(help.size()), 13.0, 21.0);
    const double height = line * static_cast<double>(help.size()) + 24;
    const double left = std::max(4.0, (m_canvas.width() - kWidth) / 2);
    const double top = std::max(4.0, (m_canvas.height() - height) / 2);
    const double right = std::min(left + kWidth, m_canvas.width() - 4.0);
    m_list->AddRectFilled(point(left, top), point(right, top + height), colour(m_colours.header),
                          6.0F);
    m_list->AddRect(point(left, top), point(right, top + height), colour(m_colours.line), 6.0F);
    double y = top + 12;
    for (const auto& [key, what] : help) {
        text(left + 16, y, m_colours.text, key, left + kKeys);
        text(left + kKeys, y, m_colours.faint, what, right - 8);
        y += line;
    }
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
    m_canvas.hoverOver(m_hover);
    if (!m_hover) m_canvas.m_hover_lines = m_memory_hover;
    const std::vector<std::string>& lines = m_canvas.m_hover_lines;
    if (lines.empty()) return;
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
