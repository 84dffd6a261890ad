// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/run/run.h"

namespace piper {

/// What a rank holds over time, all terms together, as steps.
class MemoryCurve {
public:
    /// From the samples of a run; empty without any. Of very many the peaks of equal stretches
    /// stay.
    explicit MemoryCurve(const RankTimeline& rank);

    [[nodiscard]] bool empty() const { return m_times.empty(); }
    [[nodiscard]] std::int64_t peak() const { return m_peak; }  ///< bytes
    /// Bytes held at a time of the common clock; 0 before the first sample.
    [[nodiscard]] std::int64_t at(std::int64_t time_ns) const;
    /// The most held between two times, that at the first among it.
    [[nodiscard]] std::int64_t mostIn(std::int64_t begin_ns, std::int64_t end_ns) const;

private:
    std::vector<std::int64_t> m_times, m_bytes;  ///< bytes from that time on
    std::int64_t m_peak = 0;
};

}  // namespace piper
