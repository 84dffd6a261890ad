// SPDX-License-Identifier: Apache-2.0
#include "core/run/clock_alignment.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace piper {
namespace {

constexpr std::int64_t kFewestPairs = 3;

using ByKey = std::map<std::string_view, std::vector<const CollectiveRecord*>>;

ByKey sortByKey(const std::vector<CollectiveRecord>& records) {
    ByKey out;
    for (const CollectiveRecord& r : records) out[r.key].push_back(&r);
    for (auto& [key, list] : out)
        std::stable_sort(list.begin(), list.end(),
                         [](const auto* a, const auto* b) { return a->start_ns < b->start_ns; });
    return out;
}

/// One collective as two ranks saw it; the reference on the common clock already.
struct Pair {
    std::int64_t own_start = 0, own_end = 0;
    std::int64_t reference_start = 0, reference_end = 0;

    [[nodiscard]] std::int64_t offset() const { return reference_end - own_end; }
    [[nodiscard]] std::int64_t shorter() const {
        return std::min(own_end - own_start, reference_end - reference_start);
    }
    [[nodiscard]] bool overlaps(double offset_ns) const {
        const auto shift = std::llround(offset_ns);
        return own_start + shift <= reference_end && reference_start <= own_end + shift;
    }
};

std::vector<Pair> pairsOf(const ByKey& own, const ByKey& reference, const ClockFit& clock) {
    std::vector<Pair> out;
    for (const auto& [key, list] : own) {
        const auto other = reference.find(key);
        if (other == reference.end() || other->second.size() != list.size()) continue;
        for (std::size_t i = 0; i < list.size(); ++i) {
            const CollectiveRecord& r = *other->second[i];
            const auto common = [&](std::int64_t t) { return t + std::llround(clock.offsetAt(t)); };
            out.push_back(
                {list[i]->start_ns, list[i]->end_ns, common(r.start_ns), common(r.end_ns)});
        }
    }
    return out;
}

std::vector<ClockSample> samplesOf(const std::vector<Pair>& pairs) {
    std::vector<ClockSample> out;
    for (const Pair& p : pairs)
        out.push_back({p.own_end, p.offset(), std::max<std::int64_t>(1, p.shorter())});
    std::sort(out.begin(), out.end(),
              [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
    return out;
}

std::int64_t median(std::vector<std::int64_t> values) {
    const auto middle = values.begin() + std::ssize(values) / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

AlignedRank compare(const std::vector<Pair>& pairs) {
    AlignedRank out;
    out.matched = std::ssize(pairs);
    if (out.matched < kFewestPairs) return out;
    std::vector<std::int64_t> offsets;
    for (const Pair& p : pairs) offsets.push_back(p.offset());
    out.fit.offset_ns = static_cast<double>(median(std::move(offsets)));
    // What the median explains gives a line; what the line explains counts.
    std::vector<Pair> kept;
    for (int round = 0; round < 2; ++round) {
        kept.clear();
        for (const Pair& p : pairs)
            if (p.overlaps(out.fit.offsetAt(p.own_end))) kept.push_back(p);
        if (std::ssize(kept) < kFewestPairs) break;
        out.samples = samplesOf(kept);
        out.fit = fitClock(out.samples);
    }
    out.consistent = std::ssize(kept);
    out.aligned = out.consistent >= kFewestPairs && 2 * out.consistent >= out.matched;
    return out;
}

}  // namespace

std::vector<AlignedRank> alignClocks(const std::vector<std::vector<CollectiveRecord>>& ranks,
                                     std::int64_t first_offset_ns) {
    std::vector<AlignedRank> out(ranks.size());
    if (ranks.empty()) return out;
    std::vector<ByKey> keys;
    for (const auto& records : ranks) keys.push_back(sortByKey(records));
    out[0].aligned = true;
    out[0].fit.offset_ns = static_cast<double>(first_offset_ns);
    std::vector<std::size_t> reached{0};
    for (std::size_t next = 0; next < reached.size(); ++next) {
        const std::size_t reference = reached[next];
        for (std::size_t r = 0; r < ranks.size(); ++r) {
            if (out[r].aligned) continue;
            AlignedRank one = compare(pairsOf(keys[r], keys[reference], out[reference].fit));
            one.reference = reference;
            if (!one.aligned && one.consistent <= out[r].consistent) continue;
            out[r] = std::move(one);
            if (out[r].aligned) reached.push_back(r);
        }
    }
    return out;
}

}  // namespace piper
