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

    void append(const SlotTemplate& slot, MicroBatchId micro_batch, PipelinePhase phase) {
        const auto offset = static_cast<std::int32_t>(m_program.operations.size());
        const std::int32_t before = m_last_compute;
        for (Operation op : slot.operations) {
            op.id += offset;
            op.micro_batch = micro_batch;
            op.pipeline_phase = phase;
            for (std::int32_t& id : op.dependencies)
                id = id == kComputeBefore ? before : id + offset;
            std::erase(op.dependencies, -1);
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
    std::map<std::pair<Slot::Kind, ModelChunkId>, SlotTemplate> templates;
    for (const Slot& slot : slots) {
        const auto [at, added] = templates.try_emplace({slot.kind, slot.model_chunk});
        if (added) at->second = expander.slot(slot.kind, slot.model_chunk);
        writer.append(at->second, slot.micro_batch, slot.phase);
    }
    writer.append(expander.tail(), MicroBatchId(), PipelinePhase::Cooldown);
    return program;
}

}  // namespace

Result<Schedule> buildSchedule(const Plan& plan) {
    Schedule schedule;
    schedule.kind = plan.schedule;
    schedule.num_microbatches = plan.numMicroBatches();
    schedule.blocking_messages = !effectiveOverlap(plan).pp;
    PIPER_ASSIGN(schedule.slots, makeSlots(plan.schedule, plan.layout.pp, plan.layout.vpp,
                                           schedule.num_microbatches));
    WorkTable work(plan);
    for (std::size_t s = 0; s < schedule.slots.size(); ++s) {
        schedule.stages.push_back(buildStage(work, StageId(s), schedule.slots[s]));
        setPersistent(schedule.stages.back(), plan);
    }
    return schedule;
}

}  // namespace piper
