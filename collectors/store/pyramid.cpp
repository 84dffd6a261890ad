// SPDX-License-Identifier: Apache-2.0
#include "collectors/store/pyramid.h"

#include <algorithm>
#include <map>

#include "collectors/store/chunks.h"
#include "core/run/time_range.h"

namespace piper {
namespace {

using columns::put;
using columns::Reader;

constexpr std::size_t kFewEvents = 128;
/// A level is kept when it has at most this share of what else a window would be read from.
constexpr double kWorthwhile = 0.75;
constexpr std::size_t kSegmentEvents = 4096;
/// An event over more buckets than this (of the finest level) is not spread on that level.
constexpr std::int64_t kMostBucketsOfEvent = 1 << 16;

std::int64_t floorDivide(std::int64_t value, std::int64_t by) {
    return value >= 0 ? value / by : -((-value + by - 1) / by);
}

void takeLongest(Bucket& bucket, std::int64_t duration, const EventLabel& label) {
    const bool fresh = bucket.longest_ns == 0 && bucket.label == EventLabel{};
    if (!fresh && duration <= bucket.longest_ns) return;
    bucket.longest_ns = duration;
    bucket.label = label;
}

/// Adds pieces in the order of their index and joins those of one bucket.
class LevelBuilder {
public:
    explicit LevelBuilder(std::int64_t width) : m_width(width) {}

    /// False when the event covers too many buckets of this width. What lies outside all times
    /// has no bucket.
    bool add(const Event& e) {
        if (!inTimeRange(e.start_ns) || !inTimeRange(e.duration_ns)) return true;
        const std::int64_t duration = std::max<std::int64_t>(0, e.duration_ns);
        const std::int64_t first = floorDivide(e.start_ns, m_width);
        const std::int64_t last =
            duration == 0 ? first : floorDivide(e.start_ns + duration - 1, m_width);
        if (last - first > kMostBucketsOfEvent) return false;
        for (std::int64_t i = first; i <= last; ++i) {
            Bucket& bucket = at(i);
            const std::int64_t begin = std::max(e.start_ns, i * m_width);
            const std::int64_t end = std::min(e.start_ns + duration, (i + 1) * m_width);
            bucket.busy_ns += std::max<std::int64_t>(0, end - begin);
            bucket.count += i == first ? 1 : 0;
            takeLongest(bucket, duration, labelOf(e));
        }
        return true;
    }

    std::vector<Bucket> take() { return std::move(m_buckets); }

private:
    /// Events come by start: the bucket is among the last few, or new.
    Bucket& at(std::int64_t index) {
        if (m_buckets.empty() || m_buckets.back().index < index) {
            m_buckets.emplace_back().index = index;
            return m_buckets.back();
        }
        if (m_buckets.back().index == index) return m_buckets.back();
        const auto found =
            std::lower_bound(m_buckets.begin(), m_buckets.end(), index,
                             [](const Bucket& b, std::int64_t i) { return b.index < i; });
        if (found != m_buckets.end() && found->index == index) return *found;
        Bucket fresh;
        fresh.index = index;
        return *m_buckets.insert(found, fresh);
    }

    std::int64_t m_width;
    std::vector<Bucket> m_buckets;
};

bool isWorthwhile(std::size_t buckets, std::size_t instead) {
    return static_cast<double>(buckets) <= kWorthwhile * static_cast<double>(instead);
}

/// True when the buckets that lie within single events are alone more than there are events. Events
/// of a row do not overlap: those buckets are all different.
bool isDearer(std::span<const Event> events, std::int64_t width) {
    std::int64_t within = 0;
    for (const Event& e : events) {
        if (!inTimeRange(e.start_ns) || !inTimeRange(e.duration_ns)) continue;
        within += std::max<std::int64_t>(0, e.duration_ns / width - 1);
        if (within > std::ssize(events)) return true;
    }
    return false;
}

/// The next level from the one below.
std::vector<Bucket> coarser(const std::vector<Bucket>& buckets) {
    std::vector<Bucket> out;
    for (const Bucket& b : buckets) {
        const std::int64_t index = floorDivide(b.index, 2);
        if (out.empty() || out.back().index != index) {
            out.emplace_back();
            out.back().index = index;
        }
        Bucket& sum = out.back();
        sum.count += b.count;
        sum.busy_ns += b.busy_ns;
        takeLongest(sum, b.longest_ns, b.label);
    }
    return out;
}

}  // namespace

std::vector<Level> buildLevels(std::span<const Event> events) {
    std::vector<Level> out;
    if (events.size() < kFewEvents) return out;
    int level = 0;
    while (level < kMostLevels && isDearer(events, bucketWidth(level))) ++level;
    std::vector<Bucket> buckets;
    for (bool fits = false; !fits && level < kMostLevels; level += fits ? 0 : 1) {
        LevelBuilder builder(bucketWidth(level));
        fits = std::all_of(events.begin(), events.end(),
                           [&](const Event& e) { return builder.add(e); });
        buckets = builder.take();
    }
    std::size_t instead = events.size();
    for (; level < kMostLevels; ++level) {
        const std::size_t count = buckets.size();
        std::vector<Bucket> next = coarser(buckets);
        if (isWorthwhile(count, instead)) {
            out.push_back({level, std::move(buckets)});
            instead = count;
        }
        buckets = std::move(next);
    }
    return out;
}

std::vector<Segment> buildSegments(std::span<const Event> events) {
    std::vector<Segment> out;
    std::map<EventLabel, SelectionSums::Sum> sums;
    std::size_t taken = 0;
    std::int64_t last_start = 0;
    const auto finish = [&] {
        if (!out.empty()) out.back().sums.assign(sums.begin(), sums.end());
        sums.clear();
        taken = 0;
    };
    for (const Event& e : events) {
        if (!inTimeRange(e.start_ns) || !inTimeRange(e.duration_ns)) continue;
        const std::int64_t duration = std::max<std::int64_t>(0, e.duration_ns);
        const bool full = taken >= kSegmentEvents || sums.size() + 1 >= kChunkRows;
        if (out.empty() || (full && e.start_ns > last_start)) {
            finish();
            out.push_back({e.start_ns, e.start_ns, {}});
        }
        out.back().end_ns = std::max(out.back().end_ns, e.start_ns + duration);
        sums[labelOf(e)].add({1, duration, duration});
        last_start = e.start_ns;
        ++taken;
    }
    finish();
    return out;
}

namespace {

template <class Row, class Label>
void putLabels(std::string& out, std::span<const Row> rows, Label label) {
    put(out, rows, [&](const Row& r) { return label(r).name; });
    put(out, rows, [&](const Row& r) { return label(r).category; });
    put(out, rows, [&](const Row& r) { return label(r).phase; });
    put(out, rows, [&](const Row& r) { return label(r).kind; });
    put(out, rows, [&](const Row& r) { return label(r).pass; });
}

template <class Row, class Label>
bool takeLabels(Reader& in, std::span<Row> rows, const CodeTables& codes, Label label) {
    const auto of = [&](auto member) {
        return [ label, member ](Row & r) -> auto& {
            return label(r).*member;
        };
    };
    return columns::field(in, rows, of(&EventLabel::name)) &&
           columns::word(in, rows, of(&EventLabel::category), codes.category) &&
           columns::word(in, rows, of(&EventLabel::phase), codes.phase) &&
           columns::word(in, rows, of(&EventLabel::kind), codes.kind) &&
           columns::word(in, rows, of(&EventLabel::pass), codes.pass);
}

}  // namespace

std::string encodeBuckets(std::span<const Bucket> rows) {
    std::string out;
    put(out, rows, [](const Bucket& b) { return b.index; });
    put(out, rows, [](const Bucket& b) { return b.count; });
    put(out, rows, [](const Bucket& b) { return b.busy_ns; });
    put(out, rows, [](const Bucket& b) { return b.longest_ns; });
    putLabels(out, rows, [](const Bucket& b) -> const EventLabel& { return b.label; });
    return out;
}

bool decodeBuckets(std::string_view blob, std::size_t count, const CodeTables& codes,
                   std::vector<Bucket>& out) {
    return columns::appendRows(blob, count, out, [&](Reader& in, std::span<Bucket> rows) {
        return columns::field(in, rows, PIPER_FIELD(index)) &&
               columns::field(in, rows, PIPER_FIELD(count)) &&
               columns::field(in, rows, PIPER_FIELD(busy_ns)) &&
               columns::field(in, rows, PIPER_FIELD(longest_ns)) &&
               takeLabels(in, rows, codes, [](Bucket& b) -> EventLabel& { return b.label; });
    });
}

std::string encodeSums(std::span<const LabelSums::value_type> rows) {
    using Row = LabelSums::value_type;
    std::string out;
    putLabels(out, rows, [](const Row& r) -> const EventLabel& { return r.first; });
    put(out, rows, [](const Row& r) { return r.second.count; });
    put(out, rows, [](const Row& r) { return r.second.sum_ns; });
    put(out, rows, [](const Row& r) { return r.second.longest_ns; });
    return out;
}

bool decodeSums(std::string_view blob, std::size_t count, const CodeTables& codes, LabelSums& out) {
    using Row = LabelSums::value_type;
    return columns::appendRows(blob, count, out, [&](Reader& in, std::span<Row> rows) {
        return takeLabels(in, rows, codes, [](Row& r) -> EventLabel& { return r.first; }) &&
               columns::field(in, rows, PIPER_FIELD(second.count)) &&
               columns::field(in, rows, PIPER_FIELD(second.sum_ns)) &&
               columns::field(in, rows, PIPER_FIELD(second.longest_ns));
    });
}

}  // namespace piper
