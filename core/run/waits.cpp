// SPDX-License-Identifier: Apache-2.0
#include "core/run/waits.h"

#include <algorithm>

#include "core/run/merged_length.h"

namespace piper {

template <>
std::span<const EnumName<WaitCause>> enumNames<WaitCause>() {
    static constexpr EnumName<WaitCause> kNames[] = {
        {WaitCause::Transfer, "transfer"},
        {WaitCause::Straggler, "straggler"},
        {WaitCause::PipelineWarmup, "pipeline_warmup"},
        {WaitCause::PipelineSteady, "pipeline_steady"},
        {WaitCause::PipelineCooldown, "pipeline_cooldown"},
        {WaitCause::Host, "host"}};
    return kNames;
}

namespace {

WaitCause pipelineCause(PipelinePhase phase) {
    switch (phase) {
        case PipelinePhase::Warmup:
            return WaitCause::PipelineWarmup;
        case PipelinePhase::Steady:
            return WaitCause::PipelineSteady;
        case PipelinePhase::Cooldown:
            return WaitCause::PipelineCooldown;
    }
    return WaitCause::PipelineSteady;
}

/// One step of one rank, in that rank's own time.
class StepOfRank {
public:
    StepOfRank(const RankTimeline& rank, const std::vector<std::int32_t>& collective_of,
               const CommunicationMatch& match, Interval window, bool pipelined)
        : m_rank(rank),
          m_collective_of(collective_of),
          m_match(match),
          m_window(window),
          m_pipelined(pipelined) {}

    void add(std::size_t event) {
        const Event& e = m_rank.events[event];
        if (isMark(e.category) || e.phase == Phase::Idle) return;
        m_events.push_back(event);
        if (isCompute(e)) m_compute.push_back({e.start_ns, e.end_ns()});
    }
    /// What may have held the rank up; of those of one `order`, phases in their own order.
    void claim(std::size_t order, Phase phase, WaitCause cause, Interval span) {
        if (span.end > span.begin) m_claims[order][{phase, cause}].push_back(span);
    }

    void sumInto(RankWaits& out) {
        const auto compute = inside(mergeIntervals(std::move(m_compute)), m_window);
        std::vector<Interval> left = outside({m_window}, compute);
        out.step_ns += m_window.end - m_window.begin;
        out.compute_ns += mergedLength(compute);
        for (Claims& claims : m_claims)
            for (auto& [key, spans] : claims) {
                const auto& [phase, cause] = key;
                const auto cover = mergeIntervals(std::move(spans));
                const std::int64_t taken = intersectionLength(left, cover);
                left = outside(left, cover);
                out.waits[static_cast<std::size_t>(cause)] += taken;
                if (cause == WaitCause::Transfer)
                    out.transfer_by_phase[static_cast<std::size_t>(phase)] += taken;
                if (cause == WaitCause::Straggler)
                    out.straggler_by_phase[static_cast<std::size_t>(phase)] += taken;
            }
        for (const Interval& gap : left)
            out.waits[static_cast<std::size_t>(causeOfNothing(gap))] += gap.end - gap.begin;
    }

private:
    using Claims = std::map<std::pair<Phase, WaitCause>, std::vector<Interval>>;

    /// Nothing was in flight: what comes next says what was waited for.
    [[nodiscard]] WaitCause causeOfNothing(Interval gap) const {
        const auto next = std::partition_point(
            m_events.begin(), m_events.end(),
            [&](std::size_t i) { return m_rank.events[i].start_ns < gap.end; });
        if (next == m_events.end())
            return m_pipelined ? WaitCause::PipelineCooldown : WaitCause::Host;
        const Event& e = m_rank.events[*next];
        if (e.phase == Phase::PpComm)
            return e.kind == OperationKind::Receive ? pipelineCause(e.pipeline_phase)
                                                    : WaitCause::Host;
        // In a simulation members wait outside a collective, which then begins for all at once.
        const std::int32_t collective = m_collective_of[*next];
        const bool together = collective >= 0 &&
                              m_match.collectives[static_cast<std::size_t>(collective)].skew() == 0;
        return together ? WaitCause::Straggler : WaitCause::Host;
    }

    const RankTimeline& m_rank;
    const std::vector<std::int32_t>& m_collective_of;
    const CommunicationMatch& m_match;
    Interval m_window;
    bool m_pipelined;
    std::vector<std::size_t> m_events;  ///< by start
    std::vector<Interval> m_compute;
    std::array<Claims, 4> m_claims;  ///< the strongest first
};

/// Own time at which the others had arrived, within the event.
std::int64_t ownTime(const Event& e, const RankClock& clock, std::int64_t common_ns) {
    const std::int64_t shift = clock.toCommon(e.start_ns) - e.start_ns;
    return std::clamp(common_ns - shift, e.start_ns, std::max(e.start_ns, e.end_ns()));
}

void addClaims(const Event& e, const RankClock& clock, std::int32_t collective,
               std::int32_t message, const CommunicationMatch& match, StepOfRank& step) {
    const auto split = [&](std::int64_t at, std::size_t order, WaitCause before) {
        step.claim(order, e.phase, WaitCause::Transfer, {at, e.end_ns()});
        step.claim(order + 1, e.phase, before, {e.start_ns, at});
    };
    if (collective >= 0) {
        const Collective& c = match.collectives[static_cast<std::size_t>(collective)];
        split(ownTime(e, clock, c.lastStart()), 0, WaitCause::Straggler);
    } else if (message >= 0) {
        const Message& m = match.messages[static_cast<std::size_t>(message)];
        split(ownTime(e, clock, m.send_start_ns), 2, pipelineCause(e.pipeline_phase));
    } else {
        const std::size_t order = e.phase == Phase::PpComm ? 2 : 0;
        step.claim(order, e.phase, WaitCause::Transfer, {e.start_ns, e.end_ns()});
    }
}

bool hasStages(const Run& run) {
    return std::any_of(run.ranks.begin(), run.ranks.end(),
                       [&](const RankTimeline& r) { return r.stage != run.ranks.front().stage; });
}

RankWaits waitsOf(std::size_t r, const Run& run, const CommunicationMatch& match,
                  const RankClock& clock, const StepWindows& windows,
                  const std::vector<std::int32_t>& steps) {
    const RankTimeline& rank = run.ranks[r];
    std::map<std::int32_t, StepOfRank> own;
    for (const std::int32_t step : steps)
        if (const auto window = windows.find(step); window != windows.end())
            own.emplace(step, StepOfRank(rank, match.collective_of[r], match, window->second,
                                         hasStages(run)));
    for (std::size_t i = 0; i < rank.events.size(); ++i) {
        const Event& e = rank.events[i];
        const auto step = own.find(e.step);
        if (step == own.end()) continue;
        step->second.add(i);
        if (isCommunication(e.phase) && !isMark(e.category))
            addClaims(e, clock, match.collective_of[r][i], match.message_of[r][i], match,
                      step->second);
    }
    RankWaits out;
    if (rank.events.empty()) return out;
    for (auto& [number, step] : own) step.sumInto(out);
    return out;
}

}  // namespace

std::vector<RankWaits> waitsByCause(const Run& run, const CommunicationMatch& match,
                                    const std::vector<RankClock>& clocks,
                                    const std::vector<StepWindows>& windows,
                                    const std::vector<std::int32_t>& steps) {
    std::vector<RankWaits> out;
    for (std::size_t r = 0; r < run.ranks.size(); ++r)
        out.push_back(waitsOf(r, run, match, clocks[r], windows[r], steps));
    return out;
}

}  // namespace piper
