// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/run/timeline.h"

namespace piper::ui {

/// Which rows of a source are shown, in which order: pinned ones first, then those of each rank,
/// where a folded rank has one strip for all of its rows.
class RowLayout {
public:
    /// What is drawn as one strip of blocks.
    struct Strip {
        std::size_t rank = 0;           ///< index in the source's header
        std::vector<std::size_t> rows;  ///< of the source, the topmost first
        bool pinned = false;
        bool folded = false;
    };

    void setRows(const std::vector<TimelineRow>& rows);
    [[nodiscard]] const std::vector<Strip>& strips() const { return m_strips; }

    void toggleFold(std::size_t rank);
    /// Folds every rank, or unfolds all when each is folded.
    void toggleAll();
    void togglePin(std::size_t row);

    /// One strip a line: for tests.
    [[nodiscard]] std::string dump(const TimelineSource& source) const;

private:
    void arrange();

    std::vector<TimelineRow> m_rows;
    std::set<std::size_t> m_folded;     ///< ranks
    std::vector<std::size_t> m_pinned;  ///< rows, in the order they were pinned
    std::vector<Strip> m_strips;
};

}  // namespace piper::ui
