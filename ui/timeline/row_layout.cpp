// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/row_layout.h"

#include <algorithm>

#include "ui/timeline/describe_event.h"

namespace piper::ui {

void RowLayout::setRows(const std::vector<TimelineRow>& rows) {
    if (rows == m_rows) return;  // another step of the same run keeps what was arranged
    m_rows = rows;
    m_folded.clear();
    m_pinned.clear();
    arrange();
}

void RowLayout::toggleFold(std::size_t rank) {
    if (m_folded.erase(rank) == 0) m_folded.insert(rank);
    arrange();
}

void RowLayout::toggleAll() {
    std::set<std::size_t> ranks;
    for (const TimelineRow& row : m_rows) ranks.insert(row.rank);
    m_folded = m_folded == ranks ? std::set<std::size_t>{} : ranks;
    arrange();
}

void RowLayout::togglePin(std::size_t row) {
    const auto found = std::find(m_pinned.begin(), m_pinned.end(), row);
    if (found == m_pinned.end())
        m_pinned.push_back(row);
    else
        m_pinned.erase(found);
    arrange();
}

void RowLayout::arrange() {
    m_strips.clear();
    for (const std::size_t row : m_pinned)
        m_strips.push_back({m_rows[row].rank, {row}, true, false});
    for (std::size_t row = 0; row < m_rows.size(); ++row) {
        const std::size_t rank = m_rows[row].rank;
        const bool folded = m_folded.contains(rank);
        if (folded && !m_strips.empty() && m_strips.back().folded && m_strips.back().rank == rank)
            m_strips.back().rows.push_back(row);
        else
            m_strips.push_back({rank, {row}, false, folded});
    }
}

std::string RowLayout::dump(const TimelineSource& source) const {
    std::string out;
    for (const Strip& strip : m_strips) {
        const RankTimeline& rank = source.header().ranks[strip.rank];
        out += (strip.pinned ? "pinned " : strip.folded ? "folded " : "") + rankText(rank) + ":";
        for (const std::size_t row : strip.rows) out += " " + rowText(m_rows[row], rank);
        out += "\n";
    }
    return out;
}

}  // namespace piper::ui
