// SPDX-License-Identifier: Apache-2.0
#include "core/run/run.h"

#include <algorithm>

namespace piper {

std::int64_t RankTimeline::numEvents() const {
    std::int64_t sum = isDigest() ? 0 : std::ssize(events);
    for (const StepTotals& step : step_totals) sum += step.events;
    return sum;
}

std::int64_t Run::numDigests() const {
    return std::count_if(ranks.begin(), ranks.end(),
                         [](const RankTimeline& rank) { return rank.isDigest(); });
}

std::vector<Interval> mergeIntervals(std::vector<Interval> intervals) {
    std::erase_if(intervals, [](const Interval& i) { return i.end <= i.begin; });
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    std::size_t kept = 0;
    for (const Interval& next : intervals) {
        if (kept > 0 && next.begin <= intervals[kept - 1].end)
            intervals[kept - 1].end = std::max(intervals[kept - 1].end, next.end);
        else
            intervals[kept++] = next;
    }
    intervals.resize(kept);
    return intervals;
}

std::int64_t unionLength(std::vector<Interval> intervals) {
    std::int64_t length = 0;
    for (const Interval& i : mergeIntervals(std::move(intervals))) length += i.end - i.begin;
    return length;
}

std::int64_t intersectionLength(const std::vector<Interval>& a, const std::vector<Interval>& b) {
    std::int64_t length = 0;
    auto i = a.begin();
    auto j = b.begin();
    while (i != a.end() && j != b.end()) {
        length +=
            std::max<std::int64_t>(0, std::min(i->end, j->end) - std::max(i->begin, j->begin));
        (i->end < j->end) ? ++i : ++j;
    }
    return length;
}

}  // namespace piper
