// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "core/run/recorder.h"
#include "core/schedule/schedule.h"
#include "kernels/pipeline/stage_model.h"
#include "kernels/transport/clock_sync.h"

namespace piper {

/// Executes a stage's program, operation by operation, in the order it is written.
///
/// An operation is issued when its dependencies have ended. Messages and exchanges are begun when
/// issued and end when their transfer is done and its content taken in: at the latest when an
/// operation depends on them, earlier when they are found done between two operations. So several
/// may be under way while the compute lane works.
///
/// Each operation becomes one event. Its bytes are what the transport counted and its FLOPs what
/// the backend counted while it was worked on; nothing is read from the schedule's figures. A
/// tensor-parallel exchange inside an operation is an event of its own on lane tp_cp, and the
/// operation's event is cut in two around it (bytes and FLOPs stand with the last piece).
class ProgramRunner {
public:
    struct Hooks {
        ClockNs clock;
        /// Asked between operations; an error ends the step with it.
        std::function<std::optional<Error>()> interrupted;
        /// Told before each operation: "step 3: forward attention layer 1 micro-batch 0".
        std::function<void(std::int64_t step, const Operation&)> started;
        /// Told before each part of the work between steps: "writing the checkpoint's layer 0 ...".
        std::function<void(std::string_view doing)> noted;
    };

    /// program, model, backend and recorder must outlive it.
    ProgramRunner(const StageProgram& program, StageModel& model, Backend& backend,
                  Recorder& recorder, Hooks hooks);
    ~ProgramRunner();
    ProgramRunner(const ProgramRunner&) = delete;
    ProgramRunner& operator=(const ProgramRunner&) = delete;

    /// One optimizer step. Errors carry the step and the operation as context.
    Status runStep(std::int64_t step);

private:
    struct Meter {
        std::int64_t bytes_sent = 0, bytes_received = 0, operand_bytes = 0;
        double flops = 0.0;
        void add(const Meter& before, const Meter& after);
    };
    struct Running {
        const Operation* operation = nullptr;
        BegunOperation begun;
        std::int64_t start_ns = 0;
        Meter work;
        std::vector<TensorGroup::Exchange> exchanges;
    };

    Status issue(const Operation& operation);
    Status completeDependencies(const Operation& operation);
    /// Ends `operation` and, except on lane pp, everything issued before it on its lane.
    Status complete(std::int32_t operation);
    Status end(Running& running);
    /// Ends what has arrived meanwhile.
    Status poll();
    /// Lets transfers move on while an operation computes; ends none of them.
    void progress();
    [[nodiscard]] Meter meter() const;
    template <class Work>
    auto measured(Running& running, Work&& work);
    /// cpu_begin: CPU time of the thread when it began; -1 where it is not measured.
    void record(const Running& running, std::int64_t cpu_begin);
    [[nodiscard]] std::int64_t cpuTimeAt(std::int64_t wall_ns) const;
    [[nodiscard]] Event eventOf(const Running& running) const;

    const StageProgram& m_program;
    StageModel& m_model;
    Backend& m_backend;
    Recorder& m_recorder;
    Hooks m_hooks;
    std::int64_t m_step = 0;
    /// Of the last operation's end, while nothing but recording it came after: reading the thread's
    /// CPU time is a system call, and the next one need not make it.
    std::int64_t m_end_cpu_ns = -1, m_end_wall_ns = 0;
    std::int64_t m_progressed_ns = 0;
    std::list<Running> m_running;  ///< begun and not ended, in order of issue
};

}  // namespace piper
