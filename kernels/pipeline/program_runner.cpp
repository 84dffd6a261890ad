// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/program_runner.h"

#include <time.h>

#include <algorithm>

namespace piper {
namespace {

/// Between two looks at transfers while computing: a look is a system call or two.
constexpr std::int64_t kProgressIntervalNs = 50'000;

std::int64_t threadCpuNs() {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace

ProgramRunner::ProgramRunner(const StageProgram& program, StageModel& model, Backend& backend,
                             Recorder& recorder, Hooks hooks)
    : m_program(program),
      m_model(model),
      m_backend(backend),
      m_recorder(recorder),
      m_hooks(std::move(hooks)) {
    m_model.tensor().setClock(m_hooks.clock);
    m_backend.setMeanwhile([this] { progress(); });
}

ProgramRunner::~ProgramRunner() {
    m_backend.setMeanwhile({});
}

void ProgramRunner::Meter::add(const Meter& before, const Meter& after) {
    bytes_sent += after.bytes_sent - before.bytes_sent;
    bytes_received += after.bytes_received - before.bytes_received;
    operand_bytes += after.operand_bytes - before.operand_bytes;
    flops += after.flops - before.flops;
}

ProgramRunner::Meter ProgramRunner::meter() const {
    const TransportCounters t = m_model.transferred();
    const WorkCounter::Totals& w = m_backend.work().totals();
    return {t.bytes_sent, t.bytes_received, w.bytes, w.flops};
}

template <class Work>
auto ProgramRunner::measured(Running& running, Work&& work) {
    const Meter before = meter();
    auto result = work();
    const Meter after = meter();
    running.work.add(before, after);
    for (const TensorGroup::Exchange& exchange : m_model.tensor().takeExchanges())
        running.exchanges.push_back(exchange);
    return result;
}

Status ProgramRunner::runStep(std::int64_t step) {
    m_step = step;
    m_end_cpu_ns = -1;
    PIPER_TRY(m_model.beginStep(step));
    for (const Operation& operation : m_program.operations) {
        if (m_hooks.interrupted) {
            if (std::optional<Error> error = m_hooks.interrupted()) return std::move(*error);
        }
        Status status = issue(operation);
        if (!status.ok())
            return std::move(status).error().withContext(
                fmt::format("step {}, {}", step, describe(operation)));
    }
    while (!m_running.empty()) {
        PIPER_TRY(end(m_running.front()));
        m_running.pop_front();
    }
    m_model.endStep();
    return {};
}

Status ProgramRunner::issue(const Operation& operation) {
    const std::size_t running_before = m_running.size();
    PIPER_TRY(completeDependencies(operation));
    // What else ended while one was waited for holds no memory any more.
    if (m_running.size() != running_before) PIPER_TRY(poll());
    if (m_hooks.started) m_hooks.started(m_step, operation);
    Running running;
    running.operation = &operation;
    running.start_ns = m_hooks.clock();
    const std::int64_t cpu_begin = cpuTimeAt(running.start_ns);
    Result<BegunOperation> begun = measured(running, [&] { return m_model.begin(operation); });
    if (!begun.ok()) return std::move(begun).error();
    running.begun = std::move(begun).value();
    if (running.begun.elsewhere) {
        m_end_cpu_ns = -1;
        return poll();
    }
    if (!running.begun.transfer && !running.begun.finish) {
        record(running, cpu_begin);
    } else {
        m_end_cpu_ns = -1;
        m_running.push_back(std::move(running));
    }
    return poll();
}

std::int64_t ProgramRunner::cpuTimeAt(std::int64_t wall_ns) const {
    return m_end_cpu_ns < 0 ? threadCpuNs() : m_end_cpu_ns + wall_ns - m_end_wall_ns;
}

Status ProgramRunner::completeDependencies(const Operation& operation) {
    for (const std::int32_t dependency : operation.dependencies) PIPER_TRY(complete(dependency));
    if (operation.key.pass != Pass::Backward) return {};
    // On lane ep the order of the lane stands for the dependency of a gradient on what was computed
    // again for it; here exchanges of one lane overlap.
    const auto again = [&](const Running& running) {
        const Operation& op = *running.operation;
        return op.key.pass == Pass::Recompute && op.micro_batch == operation.micro_batch &&
               op.model_chunk == operation.model_chunk && op.layer == operation.layer;
    };
    for (auto at = m_running.begin(); at != m_running.end();) {
        if (!again(*at)) {
            ++at;
            continue;
        }
        PIPER_TRY(end(*at));
        at = m_running.erase(at);
    }
    return {};
}

Status ProgramRunner::complete(std::int32_t wanted) {
    const Lane lane = m_program.operations[static_cast<std::size_t>(wanted)].lane;
    // What was wanted may have arrived before others of its lane, which it stands for too.
    for (auto at = m_running.begin(); at != m_running.end();) {
        const Operation& op = *at->operation;
        if (op.lane != lane || op.id > wanted || (lane == Lane::Pp && op.id != wanted)) {
            ++at;
            continue;
        }
        PIPER_TRY(end(*at));
        at = m_running.erase(at);
    }
    return {};
}

Status ProgramRunner::end(Running& running) {
    m_end_cpu_ns = -1;
    PIPER_TRY(measured(running, [&]() -> Status {
        if (running.begun.transfer) PIPER_TRY(running.begun.transfer->wait());
        running.begun.transfer.reset();
        return running.begun.finish ? running.begun.finish(running.begun.held) : Status{};
    }));
    record(running, -1);
    return {};
}

Status ProgramRunner::poll() {
    for (auto at = m_running.begin(); at != m_running.end();) {
        const bool done =
            measured(*at, [&] { return !at->begun.transfer || at->begun.transfer->test(); });
        if (!done) {
            ++at;
            continue;
        }
        PIPER_TRY(end(*at));
        at = m_running.erase(at);
    }
    return {};
}

void ProgramRunner::progress() {
    if (m_running.empty()) return;
    const std::int64_t now = m_hooks.clock();
    if (now - m_progressed_ns < kProgressIntervalNs) return;
    m_progressed_ns = now;
    for (Running& running : m_running) {
        if (!running.begun.transfer) continue;
        const Meter before = meter();
        (void)running.begun.transfer->test();
        running.work.add(before, meter());
    }
}

Event ProgramRunner::eventOf(const Running& running) const {
    const Operation& op = *running.operation;
    Event event;
    event.kind = op.key.kind;
    event.phase = op.key.phase;
    event.pass = op.key.pass;
    event.pipeline_phase = op.pipeline_phase;
    event.lane = op.lane;
    event.step = static_cast<std::int32_t>(m_step);
    event.layer = op.layer;
    event.micro_batch = op.micro_batch;
    event.chunk = op.chunk;
    event.model_chunk = op.model_chunk;
    event.operation = op.id;
    return event;
}

void ProgramRunner::record(const Running& running, std::int64_t cpu_begin) {
    const bool computes = running.operation->lane == Lane::Compute;
    Event event = eventOf(running);
    event.start_ns = running.start_ns;
    std::int64_t exchanged = 0;
    for (const TensorGroup::Exchange& exchange : running.exchanges) {
        Event part = eventOf(running);
        part.kind = exchange.kind;
        part.phase = Phase::TpComm;
        part.lane = Lane::TpCp;
        part.start_ns = exchange.start_ns;
        part.duration_ns = exchange.end_ns - exchange.start_ns;
        part.bytes = exchange.bytes_sent;
        part.cpu_ns = -1;
        m_recorder.event(part);
        exchanged += exchange.bytes_sent;
        if (!computes) continue;
        event.duration_ns = exchange.start_ns - event.start_ns;
        event.cpu_ns = -1;
        m_recorder.event(event);
        event.start_ns = exchange.end_ns;
    }
    const std::int64_t end_ns = m_hooks.clock();
    event.duration_ns = end_ns - event.start_ns;
    event.bytes = computes ? running.work.operand_bytes : running.work.bytes_sent - exchanged;
    event.flops = running.work.flops;
    event.cpu_ns = -1;
    if (cpu_begin >= 0) {
        m_end_cpu_ns = threadCpuNs();
        m_end_wall_ns = end_ns;
        event.cpu_ns = std::max<std::int64_t>(0, m_end_cpu_ns - cpu_begin);
    }
    m_recorder.event(event);
}

}  // namespace piper
