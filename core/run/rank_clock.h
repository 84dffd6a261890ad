// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/run/run.h"

namespace piper {

/// A clock against rank 0's, as a line through its samples:
///     rank 0 time = time + offset_ns + drift * (time - at_ns).
///
/// A sample is uncertain by half of its round trip and counts by the inverse square of that. The
/// drift is 0 unless the samples show one that their uncertainty cannot explain: two quartzes
/// differ by some parts in a million, which the pings of a short run do not resolve.
struct ClockFit {
    std::int64_t samples = 0;
    std::int64_t at_ns = 0;
    double offset_ns = 0.0;
    double drift = 0.0;  ///< nanoseconds gained by rank 0 per nanosecond
    double residual_rms_ns = 0.0;
    double residual_max_ns = 0.0;
    double uncertainty_ns = 0.0;  ///< half of the shortest round trip

    [[nodiscard]] double offsetAt(std::int64_t time_ns) const {
        return offset_ns + drift * static_cast<double>(time_ns - at_ns);
    }
};

/// Without samples a clock that is right.
[[nodiscard]] ClockFit fitClock(std::span<const ClockSample> samples);

/// Times of a rank on the clock of rank 0: by its clock samples where it has more than one, by its
/// stored offset otherwise.
class RankClock {
public:
    explicit RankClock(const RankTimeline& rank);

    [[nodiscard]] std::int64_t toCommon(std::int64_t own_ns) const {
        return m_fit.drift == 0.0 ? own_ns + m_offset_ns : drifted(own_ns);
    }
    /// The own time that is `common_ns` there, to the nanosecond.
    [[nodiscard]] std::int64_t toOwn(std::int64_t common_ns) const;
    [[nodiscard]] const ClockFit& fit() const { return m_fit; }

private:
    [[nodiscard]] std::int64_t drifted(std::int64_t own_ns) const;

    ClockFit m_fit;
    std::int64_t m_offset_ns;  ///< whole part at m_fit.at_ns
};

}  // namespace piper
