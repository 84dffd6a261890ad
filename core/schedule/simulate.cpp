// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/simulate.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/schedule/expand.h"
#include "core/schedule/exposure.h"

namespace piper {
namespace {

constexpr std::int64_t kUnknown = -1;
constexpr std::size_t kNumLanes = 7;

/// The other end of a message: [stage], [operation].
struct Place {
    std::size_t stage = 0, operation = 0;
};
/// from, to, micro-batch, model chunk, pass
using MessageKey = std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t, Pass>;

MessageKey messageKey(const StageProgram& program, const Operation& op) {
    const bool send = op.key.kind == OperationKind::Send;
    const std::int32_t self = program.stage.value;
    return {send ? self : op.peer.value, send ? op.peer.value : self, op.micro_batch.value,
            op.model_chunk.value, op.key.pass};
}

std::string operationText(const StageProgram& program, const Operation& op) {
    return fmt::format("stage {}: {}", program.stage.value, describe(op));
}

/// Plays the stages in rounds: each goes as far as it can, in issue order; a dependency on a
/// message not sent yet stops it until the next round. A round without progress is a deadlock.
class Player {
public:
    Player(const Schedule& schedule, const std::vector<std::vector<std::int64_t>>& durations)
        : m_schedule(schedule), m_durations(durations) {}

    Result<Simulation> play() {
        PIPER_TRY(prepare());
        bool moved = true;
        while (moved) {
            moved = false;
            for (std::size_t s = 0; s < m_schedule.stages.size(); ++s) moved |= advance(s);
        }
        PIPER_TRY(checkFinished());
        return std::move(m_out);
    }

private:
    Status prepare() {
        for (std::size_t s = 0; s < m_schedule.stages.size(); ++s) {
            const StageProgram& program = m_schedule.stages[s];
            PIPER_CHECK(m_durations[s].size() == program.operations.size());
            SimulatedStage stage;
            stage.start_ns.assign(program.operations.size(), kUnknown);
            stage.end_ns = stage.start_ns;
            m_out.stages.push_back(std::move(stage));
            m_next.push_back(0);
            m_lane_free.emplace_back();
            for (std::size_t i = 0; i < program.operations.size(); ++i) {
                const Operation& op = program.operations[i];
                if (op.key.kind != OperationKind::Send) continue;
                if (!m_sends.emplace(messageKey(program, op), Place{s, i}).second)
                    return fail(ErrorCode::External, "{} is sent twice",
                                operationText(program, op));
            }
        }
        return {};
    }

    /// End of an operation, looking up a Receive's message; kUnknown while it has not ended.
    std::int64_t endOf(std::size_t stage, std::int32_t operation) {
        const StageProgram& program = m_schedule.stages[stage];
        const Operation& op = program.operations[static_cast<std::size_t>(operation)];
        std::int64_t& end = m_out.stages[stage].end_ns[static_cast<std::size_t>(operation)];
        if (end != kUnknown || op.key.kind != OperationKind::Receive) return end;
        const auto sent = m_sends.find(messageKey(program, op));
        if (sent == m_sends.end()) return kUnknown;
        const auto [s, i] = sent->second;
        end = m_out.stages[s].end_ns[i];
        m_out.stages[stage].start_ns[static_cast<std::size_t>(operation)] =
            m_out.stages[s].start_ns[i];
        return end;
    }

    bool advance(std::size_t stage) {
        const std::vector<Operation>& operations = m_schedule.stages[stage].operations;
        const std::size_t before = m_next[stage];
        while (m_next[stage] < operations.size() && run(stage, operations[m_next[stage]]))
            ++m_next[stage];
        return m_next[stage] != before;
    }

    bool run(std::size_t stage, const Operation& op) {
        if (op.key.kind == OperationKind::Receive) return true;  // posted; waited for by others
        std::int64_t unused = 0;
        std::int64_t& lane =
            isHandOver(op) ? unused : m_lane_free[stage][static_cast<std::size_t>(op.lane)];
        std::int64_t start = lane;
        if (m_schedule.blocking_messages && op.lane == Lane::Compute)
            start = std::max(start, m_lane_free[stage][static_cast<std::size_t>(Lane::Pp)]);
        for (std::int32_t id : op.dependencies) {
            const std::int64_t end = endOf(stage, id);
            if (end == kUnknown) return false;
            start = std::max(start, end);
        }
        const auto i = static_cast<std::size_t>(op.id);
        SimulatedStage& out = m_out.stages[stage];
        out.start_ns[i] = start;
        out.end_ns[i] = start + m_durations[stage][i];
        lane = out.end_ns[i];
        if (op.lane == Lane::Compute) out.busy_compute_ns += m_durations[stage][i];
        return true;
    }

    Status checkFinished() {
        std::string waiting;
        for (std::size_t s = 0; s < m_schedule.stages.size(); ++s) {
            const StageProgram& program = m_schedule.stages[s];
            if (m_next[s] < program.operations.size()) {
                waiting += waiting.empty() ? "" : "; ";
                waiting += waitText(s, program.operations[m_next[s]]);
                continue;
            }
            for (const Operation& op : program.operations)
                if (endOf(s, op.id) == kUnknown)
                    return fail(ErrorCode::External, "deadlock: {} has no matching send",
                                operationText(program, op));
        }
        if (waiting.empty()) return {};
        return fail(ErrorCode::External, "deadlock: {}", waiting);
    }

    std::string waitText(std::size_t stage, const Operation& op) {
        const StageProgram& program = m_schedule.stages[stage];
        std::string text = operationText(program, op) + " waits for";
        for (std::int32_t id : op.dependencies)
            if (endOf(stage, id) == kUnknown)
                text += " [" + describe(program.operations[static_cast<std::size_t>(id)]) + "]";
        return text;
    }

    const Schedule& m_schedule;
    const std::vector<std::vector<std::int64_t>>& m_durations;
    Simulation m_out;
    std::vector<std::size_t> m_next;
    std::vector<std::array<std::int64_t, kNumLanes>> m_lane_free;
    std::map<MessageKey, Place> m_sends;
};

struct TimedChange {
    std::int64_t time_ns;
    const MemoryChange* change;
};

void findPeak(const StageProgram& program, SimulatedStage& stage) {
    std::vector<TimedChange> changes;
    changes.reserve(program.memory.size());
    for (const MemoryChange& change : program.memory) {
        const auto i = static_cast<std::size_t>(change.operation);
        changes.push_back({change.at_end ? stage.end_ns[i] : stage.start_ns[i], &change});
    }
    std::ranges::sort(changes, [](const TimedChange& a, const TimedChange& b) {
        return std::tuple(a.time_ns, a.change->operation, a.change->at_end) <
               std::tuple(b.time_ns, b.change->operation, b.change->at_end);
    });
    std::array<Bytes, kNumMemoryTerms> held = program.persistent;
    Bytes total;
    for (Bytes b : held) total += b;
    stage.peak = total;
    stage.at_peak = held;
    for (const TimedChange& timed : changes) {
        held[static_cast<std::size_t>(timed.change->term)] += timed.change->delta;
        total += timed.change->delta;
        if (total <= stage.peak) continue;
        stage.peak = total;
        stage.at_peak = held;
        stage.peak_operation = timed.change->operation;
    }
}

/// With the share of it in which a stage waits, on average.
void setStep(Simulation& out, std::int64_t step_ns) {
    out.step_ns = step_ns;
    if (step_ns <= 0) return;
    double busy = 0.0;
    for (const SimulatedStage& stage : out.stages)
        busy += static_cast<double>(stage.busy_compute_ns);
    out.bubble_fraction =
        1.0 - busy / static_cast<double>(out.stages.size()) / static_cast<double>(step_ns);
}

/// From a stage's own first work to its end, of the stage that takes longest.
std::int64_t longestOwnSpan(const Schedule& schedule, const Simulation& played) {
    std::int64_t longest = 0;
    for (std::size_t s = 0; s < played.stages.size(); ++s) {
        const SimulatedStage& stage = played.stages[s];
        std::int64_t first = played.step_ns, last = 0;
        for (std::size_t i = 0; i < stage.end_ns.size(); ++i) {
            last = std::max(last, stage.end_ns[i]);
            if (schedule.stages[s].operations[i].key.kind != OperationKind::Receive)
                first = std::min(first, stage.start_ns[i]);
        }
        longest = std::max(longest, last - first);
    }
    return longest;
}

}  // namespace

Result<Simulation> simulateDurations(const Schedule& schedule,
                                     const std::vector<std::vector<std::int64_t>>& durations_ns) {
    PIPER_CHECK(durations_ns.size() == schedule.stages.size());
    PIPER_ASSIGN(Simulation out, Player(schedule, durations_ns).play());
    std::int64_t last = 0;
    for (std::size_t s = 0; s < out.stages.size(); ++s) {
        SimulatedStage& stage = out.stages[s];
        for (std::int64_t end : stage.end_ns) last = std::max(last, end);
        findPeak(schedule.stages[s], stage);
    }
    setStep(out, last);
    return out;
}

Result<Simulation> simulate(const Plan& plan, const Schedule& schedule, const CostModel& cost) {
    WorkTable work(plan);
    Exposure exposure(work, cost);
    std::map<std::pair<OperationKey, std::int32_t>, std::pair<Cost, double>> known;
    std::vector<std::vector<Cost>> costs;
    std::vector<std::vector<std::int64_t>> durations;
    for (const StageProgram& program : schedule.stages) {
        costs.emplace_back();
        durations.emplace_back();
        for (const Operation& op : program.operations) {
            const std::int32_t stage = isStageWork(plan, op.key) ? program.stage.value : -1;
            const auto [at, added] = known.try_emplace({op.key, stage});
            if (added)
                at->second = {cost.operation(work.of(op.key, program.stage), op.key.phase),
                              exposure.share(op.key, program.stage)};
            costs.back().push_back(isHandOver(op) ? Cost{} : at->second.first);
            durations.back().push_back(inNs(costs.back().back().time * at->second.second));
        }
    }
    PIPER_ASSIGN(Simulation out, simulateDurations(schedule, durations));
    if (plan.optimizer.post_validation) setStep(out, longestOwnSpan(schedule, out));
    out.costs = std::move(costs);
    return out;
}

}  // namespace piper
