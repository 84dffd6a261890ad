// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include "core/run/timeline.h"

namespace piper {

/// Joins events of one row, which come by their start, to blocks: those that are narrower than a
/// cell and begin in the same one share a block. Cells are multiples of the largest power of two
/// within a pixel, so that moving the window does not change the blocks.
class BlockMerger {
public:
    BlockMerger(std::int64_t pixel_ns, std::vector<TimelineBlock>& out)
        : m_out(out),
          m_first(out.size()),
          m_shift(static_cast<int>(std::bit_width(
                      static_cast<std::uint64_t>(std::max<std::int64_t>(1, pixel_ns)))) -
                  1) {}

    template <class Drawn>
    void add(const Drawn& e) {
        const std::int64_t duration = std::max<std::int64_t>(0, e.duration_ns);
        const std::int64_t cell = e.start_ns >> m_shift;
        const bool narrow = duration >> m_shift == 0;
        if (narrow && m_narrow && cell == m_cell && m_out.size() > m_first) {
            TimelineBlock& block = m_out.back();
            block.end_ns = std::max(block.end_ns, e.start_ns + duration);
            block.busy_ns += duration;
            ++block.count;
            block.micro_batch = {};
            if (duration <= block.longest_ns) return;
            block.longest_ns = duration;
            block.label = labelOf(e);
            return;
        }
        m_out.push_back(
            {e.start_ns, e.start_ns + duration, duration, duration, labelOf(e), 1, e.micro_batch});
        m_cell = cell;
        m_narrow = narrow;
    }

private:
    std::vector<TimelineBlock>& m_out;
    std::size_t m_first;  ///< blocks before are another row's
    int m_shift;
    std::int64_t m_cell = 0;
    bool m_narrow = false;
};

/// Sums events by label, and in the end by what they are called on any rank.
class SelectionSums {
public:
    /// Sums of the labels of one rank.
    struct Sum {
        std::int64_t count = 0, sum_ns = 0, longest_ns = 0;
        void add(const Sum& other) {
            count += other.count;
            sum_ns += other.sum_ns;
            longest_ns = std::max(longest_ns, other.longest_ns);
        }
    };

    /// What of an event lies in the window.
    template <class Timed>
    void add(std::size_t rank, const Timed& e, TimeWindow window) {
        if (!touches(e, window)) return;
        const std::int64_t inside = std::min(e.start_ns + e.duration_ns, window.end_ns) -
                                    std::max(e.start_ns, window.begin_ns);
        add(rank, labelOf(e), {1, std::max<std::int64_t>(0, inside), e.duration_ns});
    }
    void add(std::size_t rank, const EventLabel& label, const Sum& sum);
    /// Most time first.
    [[nodiscard]] std::vector<SelectionTotal> take(const Run& header) const;

private:
    static constexpr std::size_t kSlots = 1024;  ///< power of two
    struct Slot {
        std::size_t rank = SIZE_MAX;
        EventLabel label;
        Sum* sum = nullptr;
    };
    std::map<std::pair<std::size_t, EventLabel>, Sum> m_sums;
    std::vector<Slot> m_recent = std::vector<Slot>(kSlots);  ///< spares most look-ups in the map
};

/// True when the label's text holds `wanted`, in any case.
class LabelMatcher {
public:
    LabelMatcher(const Run& header, std::string wanted);
    [[nodiscard]] bool matches(std::size_t rank, const EventLabel& label);

private:
    const Run& m_header;
    std::string m_wanted;
    std::map<std::pair<std::size_t, EventLabel>, bool> m_known;
};

/// All that a query asks of an event but its name.
template <class Timed>
[[nodiscard]] bool isWanted(const EventQuery& query, const Timed& e) {
    return touches(e, query.window) && e.duration_ns >= query.least_ns &&
           (!query.begins_in_window || query.window.contains(e.start_ns));
}

/// True when an event that begins at `start_ns` does not come before the best one so far.
[[nodiscard]] inline bool isBeaten(const EventQuery& query, const std::optional<FoundEvent>& best,
                                   std::int64_t start_ns) {
    if (!best) return false;
    return query.forward ? start_ns >= best->event.start_ns : start_ns <= best->event.start_ns;
}

}  // namespace piper
