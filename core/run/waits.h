// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/run/communication_match.h"
#include "core/run/step_windows.h"

namespace piper {

/// Why the compute lane of a rank stood still.
enum class WaitCause : std::uint8_t {
    Transfer,          ///< communication went on that every member had reached
    Straggler,         ///< in a collective, before its last member arrived (or with nothing in
                       ///< flight, before one that began for all members at once)
    PipelineWarmup,    ///< for a message that its sender had not begun to send, by the phase of
    PipelineSteady,    ///< the pipeline that the message (or, without one in flight, what comes
    PipelineCooldown,  ///< next) belongs to
    Host               ///< nothing in flight: launches and work of the host
};
inline constexpr std::size_t kNumWaitCauses = 6;

template <>
std::span<const EnumName<WaitCause>> enumNames<WaitCause>();

/// The step time of one rank, divided without rest:
/// step_ns = compute_ns + the sum of `waits`.
struct RankWaits {
    std::int64_t step_ns = 0;  ///< of the counted steps
    std::int64_t compute_ns = 0;
    std::array<std::int64_t, kNumWaitCauses> waits{};
    std::array<std::int64_t, kNumPhases> transfer_by_phase{};   ///< parts of Transfer
    std::array<std::int64_t, kNumPhases> straggler_by_phase{};  ///< parts of Straggler
};

/// [rank]. An instant of a gap in compute has the first cause that holds: a collective that
/// transfers, one that waits, a message that is under way, one that is waited for, else what
/// follows the gap on that rank.
[[nodiscard]] std::vector<RankWaits> waitsByCause(const Run& run, const CommunicationMatch& match,
                                                  const std::vector<RankClock>& clocks,
                                                  const std::vector<StepWindows>& windows,
                                                  const std::vector<std::int32_t>& steps);

}  // namespace piper
