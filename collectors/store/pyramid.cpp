// SPDX-License-Identifier: Apache-2.0
#include "collectors/store/pyramid.h"

#include <algorithm>

#include "collectors/store/chunks.h"
#include "core/run/time_range.h"

namespace piper {
namespace {

using columns::put;
using columns::Reader;

constexpr std::size_t kFewBuckets = 64;
constexpr std::size_t kFewEvents = 128;
/// An event over more buckets than this (of the finest level) is not spread on that level.
constexpr std::int64_t kMostBucketsOfEvent = 1 << 16;

std::int64_t floorDivide(std::int64_t value, std::int64_t by) {
    return value >= 0 ? value / by : -((-value + by - 1) / by);
}

void takeLongest(Bucket& bucket, std::int64_t duration, std::int32_t name, Phase phase,
                 EventCategory category) {
    if (bucket.name != -1 && duration <= bucket.longest_ns) return;
    if (duration < bucket.longest_ns) return;
    bucket.longest_ns = duration;
    bucket.name = name;
    bucket.phase = phase;
    bucket.category = category;
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
            takeLongest(bucket, duration, e.name, e.phase, e.category);
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

std::size_t mostBucketsFor(std::size_t events) {
    return std::max(events / 4, kFewBuckets);
}

/// True when the buckets that lie within single events are alone more than a level may have. Events
/// of a row do not overlap: those buckets are all different.
bool isDearer(std::span<const Event> events, std::int64_t width) {
    std::int64_t within = 0;
    const auto most = static_cast<std::int64_t>(mostBucketsFor(events.size()));
    for (const Event& e : events) {
        if (!inTimeRange(e.start_ns) || !inTimeRange(e.duration_ns)) continue;
        within += std::max<std::int64_t>(0, e.duration_ns / width - 1);
        if (within > most) return true;
    }
    return false;
}

/// The next level from the one below.
std::vector<Bucket> coarser(const std::vector<Bucket>& buckets) {
    std::vector<Bucket> out;
    for (const Bucket& b : buckets) {
        const std::int64_t index = floorDivide(b.index, 4);
        if (out.empty() || out.back().index != index) {
            out.emplace_back();
            out.back().index = index;
        }
        Bucket& sum = out.back();
        sum.count += b.count;
        sum.busy_ns += b.busy_ns;
        takeLongest(sum, b.longest_ns, b.name, b.phase, b.category);
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
    for (; level < kMostLevels; ++level) {
        // Where most buckets hold an event or two, the level answers no cheaper than the events.
        const bool cheaper = buckets.size() <= mostBucketsFor(events.size());
        if (cheaper) out.push_back({level, buckets});
        buckets = coarser(buckets);
    }
    return out;
}

std::string encodeBuckets(std::span<const Bucket> rows) {
    std::string out;
    put(out, rows, [](const Bucket& b) { return b.index; });
    put(out, rows, [](const Bucket& b) { return b.count; });
    put(out, rows, [](const Bucket& b) { return b.busy_ns; });
    put(out, rows, [](const Bucket& b) { return b.longest_ns; });
    put(out, rows, [](const Bucket& b) { return b.name; });
    put(out, rows, [](const Bucket& b) { return b.phase; });
    put(out, rows, [](const Bucket& b) { return b.category; });
    return out;
}

bool decodeBuckets(std::string_view blob, std::size_t count, const CodeTables& codes,
                   std::vector<Bucket>& out) {
    return columns::appendRows(blob, count, out, [&](Reader& in, std::span<Bucket> rows) {
        const auto number = [&](auto Bucket::*member) {
            return columns::field(
                in, rows, [member](Bucket & b) -> auto& { return b.*member; });
        };
        return number(&Bucket::index) && number(&Bucket::count) && number(&Bucket::busy_ns) &&
               number(&Bucket::longest_ns) && number(&Bucket::name) &&
               columns::word(in, rows, &Bucket::phase, codes.phase) &&
               columns::word(in, rows, &Bucket::category, codes.category);
    });
}

}  // namespace piper
