// SPDX-License-Identifier: Apache-2.0
#include "core/run/rank_clock.h"

#include <algorithm>
#include <cmath>

#include "core/run/time_range.h"

namespace piper {
namespace {

/// Two clocks that differ by more (1 in 1000) are no quartzes: the samples are wrong.
constexpr double kLargestDrift = 1e-3;

/// Sums over samples relative to one of them, so that doubles hold every nanosecond.
struct WeightedSums {
    double weight = 0.0, time = 0.0, offset = 0.0;
};

double uncertaintyOf(const ClockSample& s) {
    return std::max(0.5 * static_cast<double>(s.round_trip_ns), 1.0);
}

std::vector<ClockSample> usable(std::span<const ClockSample> samples) {
    std::vector<ClockSample> out;
    for (const ClockSample& s : samples)
        if (inTimeRange(s.time_ns) && inTimeRange(s.offset_ns) && s.round_trip_ns >= 0)
            out.push_back(s);
    return out;
}

WeightedSums meansOf(const std::vector<ClockSample>& samples, const ClockSample& origin) {
    WeightedSums sums;
    for (const ClockSample& s : samples) {
        const double weight = 1.0 / (uncertaintyOf(s) * uncertaintyOf(s));
        sums.weight += weight;
        sums.time += weight * static_cast<double>(s.time_ns - origin.time_ns);
        sums.offset += weight * static_cast<double>(s.offset_ns - origin.offset_ns);
    }
    sums.time /= sums.weight;
    sums.offset /= sums.weight;
    return sums;
}

/// The slope of the offsets; 0 when their uncertainty can explain it.
double driftOf(const std::vector<ClockSample>& samples, const ClockSample& origin,
               const WeightedSums& mean) {
    double spread = 0.0, product = 0.0;
    for (const ClockSample& s : samples) {
        const double weight = 1.0 / (uncertaintyOf(s) * uncertaintyOf(s));
        const double time = static_cast<double>(s.time_ns - origin.time_ns) - mean.time;
        const double offset = static_cast<double>(s.offset_ns - origin.offset_ns) - mean.offset;
        spread += weight * time * time;
        product += weight * time * offset;
    }
    if (spread <= 0.0) return 0.0;
    const double drift = product / spread;
    // Three standard errors of the slope of a weighted line.
    const double explained = 3.0 / std::sqrt(spread);
    return std::abs(drift) > explained && std::abs(drift) <= kLargestDrift ? drift : 0.0;
}

}  // namespace

ClockFit fitClock(std::span<const ClockSample> all) {
    const std::vector<ClockSample> samples = usable(all);
    ClockFit fit;
    fit.samples = std::ssize(samples);
    if (samples.empty()) return fit;
    const ClockSample best = *std::min_element(
        samples.begin(), samples.end(),
        [](const auto& a, const auto& b) { return a.round_trip_ns < b.round_trip_ns; });
    const WeightedSums mean = meansOf(samples, best);
    fit.drift = driftOf(samples, best, mean);
    fit.at_ns = best.time_ns;
    fit.offset_ns = static_cast<double>(best.offset_ns) + mean.offset - fit.drift * mean.time;
    fit.uncertainty_ns = 0.5 * static_cast<double>(best.round_trip_ns);
    double squares = 0.0;
    for (const ClockSample& s : samples) {
        const double residual = static_cast<double>(s.offset_ns) - fit.offsetAt(s.time_ns);
        squares += residual * residual;
        fit.residual_max_ns = std::max(fit.residual_max_ns, std::abs(residual));
    }
    fit.residual_rms_ns = std::sqrt(squares / static_cast<double>(samples.size()));
    return fit;
}

RankClock::RankClock(const RankTimeline& rank) : m_fit(fitClock(rank.clock)) {
    if (m_fit.samples < 2) {
        m_fit.drift = 0.0;
        m_fit.offset_ns = static_cast<double>(rank.offset_ns);
        m_offset_ns = rank.offset_ns;
        return;
    }
    m_offset_ns = std::llround(m_fit.offset_ns);
}

std::int64_t RankClock::drifted(std::int64_t own_ns) const {
    const double gained = m_fit.drift * static_cast<double>(own_ns - m_fit.at_ns);
    return own_ns + m_offset_ns + std::llround(gained);
}

std::int64_t RankClock::toOwn(std::int64_t common_ns) const {
    std::int64_t own = common_ns - m_offset_ns;
    if (m_fit.drift == 0.0) return own;
    // Converges by the drift, some parts in a million, each time.
    for (int i = 0; i < 4; ++i) own -= toCommon(own) - common_ns;
    return own;
}

}  // namespace piper
