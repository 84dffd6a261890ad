// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/search/search.h"

namespace piper::ui {

/// Plans of a search, best first, with the numbers and words that a table of them is sorted and
/// narrowed down by: each is worked out once, when the value is made, which the executor does.
class RankedPlans {
public:
    enum Column {
        Rank,
        Mfu,
        Step,
        Tokens,
        Memory,
        Bubble,
        Exposed,
        Tp,
        Cp,
        Pp,
        Vpp,
        Ep,
        Dp,
        Micro,
        Zero,
        Schedule,
        Recompute,
        Limit,
        ColumnCount
    };

    RankedPlans() = default;
    explicit RankedPlans(std::vector<RankedPlan> plans);

    [[nodiscard]] std::size_t size() const { return m_plans.size(); }
    [[nodiscard]] const RankedPlan& operator[](std::size_t row) const { return m_plans[row]; }
    /// In the unit of core: seconds, bytes, shares of 1; of a name its place in its enumeration.
    [[nodiscard]] double number(std::size_t row, int column) const {
        return m_numbers[static_cast<std::size_t>(column)][row];
    }
    [[nodiscard]] const std::vector<double>& numbers(int column) const {
        return m_numbers[static_cast<std::size_t>(column)];
    }
    /// What a cell says, with its unit.
    [[nodiscard]] QString cellText(std::size_t row, int column) const;
    /// Rows whose schedule, recompute or bottleneck says each of the words, in any case.
    [[nodiscard]] std::vector<bool> saying(const std::vector<QString>& words) const;

private:
    std::vector<RankedPlan> m_plans;
    std::array<std::vector<double>, ColumnCount> m_numbers;
    std::vector<QString> m_words;  ///< each different one once
    std::vector<std::uint32_t> m_words_of;
};

[[nodiscard]] inline bool isText(RankedPlans::Column column) {
    return column >= RankedPlans::Schedule;
}
/// As exported files and questions call a column: "step_seconds", "micro_batch_size".
[[nodiscard]] const char* columnKey(RankedPlans::Column column);

/// Rows 0 to rows - 1 by their keys; of equal ones the first stays first. `key` is asked once a
/// row.
template <class Key>
std::vector<int> rowsSortedBy(std::size_t rows, const Key& key, bool descending) {
    std::vector<std::pair<double, int>> keyed(rows);
    for (std::size_t row = 0; row < rows; ++row) keyed[row] = {key(row), static_cast<int>(row)};
    std::ranges::sort(keyed, [descending](const auto& a, const auto& b) {
        if (a.first != b.first) return descending ? a.first > b.first : a.first < b.first;
        return a.second < b.second;
    });
    std::vector<int> out(rows);
    std::ranges::transform(keyed, out.begin(), [](const auto& one) { return one.second; });
    return out;
}

}  // namespace piper::ui
