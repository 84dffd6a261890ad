// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/schedule/expand.h"

namespace piper {

// Concept: inside one slot an operation starts at the largest of some earlier times, so the moment
// a slot leaves each lane is a max-plus linear function of the moments its inputs are ready:
//     out[lane] = max over inputs (in[input] + matrix[lane][input]).
// The matrix is made once per kind of slot; playing a schedule then costs one such product a slot
// instead of one step an operation, and the result is the same to the nanosecond.

/// Lanes of a slot as inputs and outputs; as an input Arrival is the moment the received message is
/// there, as an output the moment the sent one is. A pair of slots has two of each.
enum class Port : std::uint8_t { Compute, Ep, TpCp, Send, Dp, Arrival, SecondArrival };
inline constexpr std::size_t kNumPorts = 7;
[[nodiscard]] constexpr Port arrivalPort(std::size_t member) {
    return member == 0 ? Port::Arrival : Port::SecondArrival;
}
[[nodiscard]] constexpr std::size_t at(Port port) {
    return static_cast<std::size_t>(port);
}
/// "does not depend on": far below any time, far above overflow.
inline constexpr std::int64_t kNever = INT64_MIN / 4;

using PortTimes = std::array<std::int64_t, kNumPorts>;
/// When the last lane is, not counting messages; not before 0.
[[nodiscard]] std::int64_t freeAt(const PortTimes& lanes);

/// What one form of slot does to the lanes.
struct LaneMatrix {
    std::array<PortTimes, kNumPorts> rows{};  ///< [output][input]

    [[nodiscard]] static LaneMatrix identity();
    [[nodiscard]] PortTimes& row(Port port) { return rows[at(port)]; }
    [[nodiscard]] PortTimes apply(const PortTimes& in) const;
};

/// What an operation does to the lanes of its slot, apart from how long.
struct LaneStep {
    enum class Kind : std::uint8_t { Work, Send, Receive, HandOver };
    Kind kind = Kind::Work;
    Port port = Port::Compute;
    Port arrival = Port::Arrival;  ///< of its member of a pair
    Dependencies after;
};
/// [operations]
[[nodiscard]] std::vector<LaneStep> laneSteps(const SlotTemplate& slot);

/// `durations_ns` [operations]; those of a Receive and a hand-over are not used.
[[nodiscard]] LaneMatrix laneMatrix(std::span<const LaneStep> steps, bool blocking_messages,
                                    std::span<const std::int64_t> durations_ns);
[[nodiscard]] LaneMatrix laneMatrix(const SlotTemplate& slot,
                                    std::span<const std::int64_t> durations_ns);

/// Start and end of every operation when all lanes are free and the message is there at 0.
struct IsolatedTimes {
    std::vector<std::int64_t> start_ns, end_ns;
    std::int64_t span_ns = 0;
};
[[nodiscard]] IsolatedTimes isolatedTimes(const SlotTemplate& slot,
                                          const std::vector<std::int64_t>& durations_ns);

}  // namespace piper
