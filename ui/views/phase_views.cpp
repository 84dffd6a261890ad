// SPDX-License-Identifier: GPL-3.0-or-later
#include <QPainter>
#include <algorithm>

#include "ui/models/phase_colours.h"
#include "ui/models/text_format.h"
#include "ui/views/theme.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr int kRow = 22, kSmallestRow = 16;
constexpr int kNameWidth = 132;
constexpr int kNumberWidth = 84;
constexpr int kLegendRow = 18;
constexpr int kSwatch = 15;  ///< a colour and the gap beside it

}  // namespace

PhaseShareView::PhaseShareView(QWidget* parent) : QWidget(parent) {
    setAccessibleName(QStringLiteral("Time per phase"));
    setToolTip(QStringLiteral(
        "Time of one step by phase, mean over stages; solid: communication that no compute hides "
        "or compute itself, pale: hidden communication."));
}

void PhaseShareView::setShares(std::vector<PhaseShare> shares) {
    const bool as_many = shares.size() == m_shares.size();
    m_shares = std::move(shares);
    if (!as_many) updateGeometry();
    update();
}

QSize PhaseShareView::sizeHint() const {
    // A page of the least height that shows all: what is more is shared out.
    return minimumSizeHint();
}

QSize PhaseShareView::minimumSizeHint() const {
    return {320, kSmallestRow * static_cast<int>(std::max<std::size_t>(m_shares.size(), 5))};
}

/// Every phase has its row; where there is little room they stand closer together.
void PhaseShareView::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const int row = std::clamp(
        height() / static_cast<int>(std::max<std::size_t>(m_shares.size(), 1)), kSmallestRow, kRow);
    const int inset = row / 6;
    const bool dark = isDark(palette());
    const QColor text = palette().color(QPalette::WindowText);
    const QColor faint = palette().color(QPalette::PlaceholderText);
    double most = 0.0;
    for (const PhaseShare& s : m_shares) most = std::max(most, s.time.value);
    const int room = width() - kNameWidth - 2 * kNumberWidth;
    int y = 0;
    for (const PhaseShare& s : m_shares) {
        const QColor fill = phaseColour(s.phase, dark);
        const double full = most > 0 ? room * s.time.value / most : 0.0;
        const double shown =
            isCommunication(s.phase) && s.time.value > 0 ? full * (s.exposed / s.time) : full;
        QColor pale = fill;
        pale.setAlpha(90);
        painter.fillRect(QRectF(kNameWidth, y + inset, full, row - 2 * inset), pale);
        painter.fillRect(QRectF(kNameWidth, y + inset, shown, row - 2 * inset), fill);
        painter.setPen(text);
        painter.drawText(QRect(0, y, kNameWidth - 8, row), Qt::AlignVCenter, phaseLabel(s.phase));
        const int right = width() - 2 * kNumberWidth;
        painter.drawText(QRect(right, y, kNumberWidth, row), Qt::AlignVCenter | Qt::AlignRight,
                         secondsText(s.time));
        painter.setPen(faint);
        painter.drawText(QRect(right + kNumberWidth, y, kNumberWidth, row),
                         Qt::AlignVCenter | Qt::AlignRight, percentText(s.share_of_step));
        y += row;
    }
}

ColourLegend::ColourLegend(QWidget* parent) : QWidget(parent) {
    QSizePolicy policy(QSizePolicy::Preferred, QSizePolicy::Fixed);
    policy.setHeightForWidth(true);
    setSizePolicy(policy);
}

void ColourLegend::setEntries(std::vector<Entry> entries) {
    const auto same = [](const Entry& a, const Entry& b) { return a.label == b.label; };
    if (std::equal(m_entries.begin(), m_entries.end(), entries.begin(), entries.end(), same))
        return;
    m_entries = std::move(entries);
    updateGeometry();
    update();
}

std::vector<QRect> ColourLegend::places(int width) const {
    std::vector<QRect> out;
    int x = 0, y = 0;
    for (const Entry& entry : m_entries) {
        const int wide = kSwatch + fontMetrics().horizontalAdvance(entry.label) + 2;
        if (x > 0 && x + wide > width) {
            x = 0;
            y += kLegendRow;
        }
        out.emplace_back(x, y, wide, kLegendRow);
        x += wide + kSwatch;
    }
    return out;
}

int ColourLegend::heightForWidth(int width) const {
    const std::vector<QRect> all = places(width);
    return all.empty() ? kLegendRow : all.back().bottom() + 1;
}

void ColourLegend::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const bool dark = isDark(palette());
    painter.setPen(palette().color(QPalette::WindowText));
    const std::vector<QRect> all = places(width());
    for (std::size_t i = 0; i < all.size(); ++i) {
        const QRect& at = all[i];
        painter.fillRect(QRect(at.x(), at.center().y() - 4, 10, 10),
                         dark ? m_entries[i].dark : m_entries[i].light);
        painter.drawText(at.adjusted(kSwatch, 0, 0, 0), Qt::AlignVCenter, m_entries[i].label);
    }
}

ColourLegend* makePhaseLegend(QWidget* parent) {
    auto* legend = new ColourLegend(parent);
    std::vector<ColourLegend::Entry> entries;
    for (std::size_t i = 0; i < kNumPhases; ++i) {
        const auto phase = static_cast<Phase>(i);
        if (phase == Phase::Idle) continue;
        const QString label =
            phaseLabel(phase).replace(QStringLiteral("communication"), QStringLiteral("comm."));
        entries.push_back({label, phaseColour(phase, false), phaseColour(phase, true)});
    }
    legend->setEntries(std::move(entries));
    return legend;
}

std::vector<ColourLegend::Entry> memoryLegend(const MemoryPrediction& memory) {
    std::vector<ColourLegend::Entry> entries;
    for (std::size_t i = 0; i < kNumMemoryTerms; ++i) {
        const auto term = static_cast<MemoryTerm>(i);
        bool held = false;
        for (const StageMemory& stage : memory.stages) held = held || stage.at_peak[i].value > 0;
        if (held)
            entries.push_back({memoryTermLabel(term), memoryTermColour(term, false),
                               memoryTermColour(term, true)});
    }
    return entries;
}

}  // namespace piper::ui
