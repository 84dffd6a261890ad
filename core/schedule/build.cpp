// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "core/resources/memory.h"
#include "core/schedule/expand.h"
#include "core/schedule/slot_builder.h"

namespace piper {
namespace {

/// Appends copies of slot templates to a stage's program.
class ProgramWriter {
public:
    explicit ProgramWriter(StageProgram& program) : m_program(program) {}

    /// `second`: micro-batch of a pair's second slot.
    void append(const SlotTemplate& slot, MicroBatchId micro_batch, MicroBatchId second,
                PipelinePhase phase) {
        const auto offset = static_cast<std::int32_t>(m_program.operations.size());
        const std::int32_t before = m_last_compute;
        for (Operation op : slot.operations) {
            op.id += offset;
            op.micro_batch = memberOf(op) == 1 ? second : micro_batch;
            op.pipeline_phase = phase;
            for (std::int32_t& id : op.dependencies)
                id = id == kComputeBefore ? before : id + offset;
            op.dependencies.removeAll(-1);
            if (op.lane == Lane::Compute) m_last_compute = op.id;
            m_program.operations.push_back(std::move(op));
        }
        for (MemoryChange change : slot.memory) {
            change.operation += offset;
            m_program.memory.push_back(change);
        }
    }

private:
    StageProgram& m_program;
    std::int32_t m_last_compute = -1;
};

void setPersistent(StageProgram& program, const Plan& plan) {
    for (const MemoryEntry& entry : persistentMemory(plan, program.stage))
        program.persistent[static_cast<std::size_t>(entry.term)] += entry.bytes;
}

StageProgram buildStage(WorkTable& work, StageId stage, const std::vector<Slot>& slots) {
    StageProgram program;
    program.stage = stage;
    ProgramWriter writer(program);
    const StageExpander expander(work, stage);
    std::map<SlotForm, SlotTemplate> templates;
    forEachForm(slots, [&](const SlotForm& form, const Slot& first, const Slot* second) {
        const auto [at, added] = templates.try_emplace(form);
        if (added) at->second = expander.slot(form);
        writer.append(at->second, first.micro_batch,
                      second != nullptr ? second->micro_batch : MicroBatchId(), first.phase);
    });
    writer.append(expander.tail(), MicroBatchId(), MicroBatchId(), PipelinePhase::Cooldown);
    return program;
}

}  // namespace

Result<Schedule> buildSchedule(const Plan& plan) {
    Schedule schedule;
    schedule.kind = plan.schedule;
    schedule.num_microbatches = plan.numMicroBatches();
    schedule.blocking_messages = !effectiveOverlap(plan).pp;
    PIPER_ASSIGN(schedule.slots, makeSlots(pipelineShape(plan)));
    WorkTable work(plan);
    for (std::size_t s = 0; s < schedule.slots.size(); ++s) {
        schedule.stages.push_back(buildStage(work, StageId(s), schedule.slots[s]));
        setPersistent(schedule.stages.back(), plan);
    }
    return schedule;
}

}  // namespace piper
