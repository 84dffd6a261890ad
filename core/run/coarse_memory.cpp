// SPDX-License-Identifier: Apache-2.0
#include "core/run/coarse_memory.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "core/run/memory_moments.h"

namespace piper {
namespace {

struct Highest {
    std::size_t moment = 0;
    std::int64_t bytes = 0;
    bool any = false;
    void take(std::size_t at, std::int64_t value) {
        if (any && value <= bytes) return;
        *this = {at, value, true};
    }
};

}  // namespace

std::vector<MemorySample> coarseMemory(const std::vector<MemorySample>& samples,
                                       std::size_t stretches) {
    if (samples.size() <= 2 * stretches) return samples;
    const std::vector<MemorySample> sorted = sortedByTime(samples);
    const double begin = static_cast<double>(sorted.front().time_ns);
    const double length = static_cast<double>(sorted.back().time_ns) - begin;
    std::set<std::size_t> kept = {0};
    std::array<Highest, kNumMemoryTerms> terms;
    Highest sum;
    std::size_t stretch = 0, last = 0;
    eachMoment(sorted, [&](std::size_t moment, std::int64_t time_ns, const auto& now) {
        const double share = (static_cast<double>(time_ns) - begin) / std::max(length, 1.0);
        const auto here = static_cast<std::size_t>(share * static_cast<double>(stretches));
        if (here != stretch) {
            kept.insert(sum.moment);
            kept.insert(last);
            sum = {};
            stretch = here;
        }
        sum.take(moment, std::accumulate(now.begin(), now.end(), std::int64_t{0}));
        for (std::size_t t = 0; t < kNumMemoryTerms; ++t) terms[t].take(moment, now[t]);
        last = moment;
    });
    kept.insert(sum.moment);
    kept.insert(last);
    for (const Highest& term : terms) kept.insert(term.moment);

    std::vector<MemorySample> out;
    std::array<std::int64_t, kNumMemoryTerms> written{};
    eachMoment(sorted, [&](std::size_t moment, std::int64_t time_ns, const auto& now) {
        if (!kept.contains(moment)) return;
        for (std::size_t t = 0; t < kNumMemoryTerms; ++t) {
            if (now[t] == written[t]) continue;
            out.push_back({time_ns, static_cast<MemoryTerm>(t), now[t]});
            written[t] = now[t];
        }
    });
    return out.size() < samples.size() ? out : samples;
}

}  // namespace piper
