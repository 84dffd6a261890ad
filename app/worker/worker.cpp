// SPDX-License-Identifier: Apache-2.0
#include "app/worker/worker.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "app/files/files.h"
#include "app/worker/bench_worker.h"
#include "app/worker/calibrate.h"
#include "app/worker/interruption.h"
#include "app/worker/signals.h"
#include "app/worker/status_file.h"
#include "collectors/live/collect.h"
#include "collectors/live/live_recorder.h"
#include "core/base/json.h"
#include "core/plan/validated.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/loader.h"
#include "kernels/pipeline/support.h"
#include "kernels/pipeline/training.h"
#include "kernels/transport/local_transport.h"
#include "kernels/transport/mpi_transport.h"
#include "kernels/transport/node_map.h"

namespace piper {
namespace {

/// The plan, valid and one that this worker runs.
Result<Plan> runnablePlan(const std::string& where) {
    PIPER_ASSIGN(Plan plan, app::loadPlan(where));
    Status usable = validated(plan);
    if (!usable.ok()) usable = std::move(usable).error().at(where);
    if (usable.ok()) usable = canRun(plan);
    if (usable.ok()) return plan;
    // What this worker cannot run is an unusable plan for its caller.
    Error error = std::move(usable).error();
    error.code = ErrorCode::InvalidInput;
    return error;
}

std::string isoNow() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

std::string hostName() {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    return name;
}

JobState stateOf(RunOutcome outcome) {
    return outcome == RunOutcome::Finished    ? JobState::Finished
           : outcome == RunOutcome::Cancelled ? JobState::Cancelled
                                              : JobState::Failed;
}

class Worker {
public:
    explicit Worker(const WorkerOptions& options) : m_options(options) {}

    int run() {
        Status status = startTransport();
        if (status.ok() && !m_options.calibrate.empty()) return finish(calibrate());
        if (status.ok() && !m_options.bench.empty()) return finish(bench());
        if (status.ok()) status = prepare();
        if (status.ok()) status = trainAll();
        return finish(status);
    }

private:
    [[nodiscard]] std::int64_t rank() const {
        return m_transport ? m_transport->world().rank() : 0;
    }

    Status startTransport() {
        watchSignals();
        if (!launchedByMpi([](const char* name) { return std::getenv(name); })) {
            m_transport = makeLocalTransport();
            return {};
        }
        PIPER_ASSIGN(m_transport, makeMpiTransport({m_options.deterministic,
                                                    [this] { return m_interruption(); }}));
        return {};
    }

    Status calibrate() {
        PIPER_ASSIGN(const ClusterSpec cluster,
                     calibrateMachine(*m_transport, m_options.quick, isoNow()));
        if (rank() != 0) return {};
        return app::writeTextFile(m_options.calibrate, writeCluster(cluster).dump(2) + "\n");
    }

    Status bench() {
        const std::string records = m_options.bench + ".records";
        const Result<Json> measured = benchWorker(*m_transport, records, m_options.quick);
        std::error_code ignored;
        std::filesystem::remove_all(records, ignored);
        if (!measured.ok()) return measured.error();
        return app::writeTextFile(m_options.bench, measured->dump(2) + "\n");
    }

    /// One line that says why a rank asked for CUDA computes on the processor all the same.
    void chooseBackend() const {
        if (m_options.backend != "cuda" || rank() != 0) return;
        const cuda::LoadedPlugin plugin = cuda::loadPlugin();
        std::string why = plugin.why_not;
        if (plugin) {
            const cuda::DeviceCount devices = cuda::countDevices(*plugin.api);
            why =
                devices.count == 0
                    ? devices.why_not
                    : fmt::format("{} devices found, but the plugin has no training operations yet",
                                  devices.count);
        }
        std::fprintf(stderr, "%s\n", cuda::fallbackLine(why).c_str());
    }

    Status prepare() {
        chooseBackend();
        m_status.steps = static_cast<std::int32_t>(m_options.steps);
        std::error_code ignored;
        std::filesystem::create_directories(m_options.job, ignored);
        PIPER_ASSIGN(m_liveness,
                     Liveness::join(m_options.job, RankId(static_cast<std::int32_t>(rank())),
                                    m_transport->world().size()));
        // Everybody's file is there, and the one of an earlier attempt gone, before anyone looks.
        PIPER_TRY(m_transport->world().barrier());
        m_interruption.watch(m_liveness.get());
        if (rank() == 0) PIPER_TRY(writeStatus(m_options.job, m_status));
        PIPER_ASSIGN(m_plan, runnablePlan(m_options.plan));
        PIPER_ASSIGN(m_schedule, buildSchedule(m_plan));
        if (m_plan.layout.world() != m_transport->world().size()) {
            Error error =
                fail(ErrorCode::InvalidInput, "the plan's layout needs {} ranks, {} started",
                     m_plan.layout.world(), m_transport->world().size());
            error.hint = std::getenv("SLURM_PROCID") == nullptr
                             ? fmt::format("start it with mpirun -np {}", m_plan.layout.world())
                             : "srun started tasks that do not know of each other: give it "
                               "--mpi=pmix, or SLURM_MPI_TYPE one that `srun --mpi=list` shows";
            return error;
        }
        return {};
    }

    Status openRecorder() {
        const ProcessGrid grid(m_plan.layout, m_plan.rank_order);
        LiveOptions live;
        live.job_directory = m_options.job;
        live.rank = RankId(static_cast<std::int32_t>(rank()));
        live.stage = StageId(static_cast<std::int32_t>(grid.coordinates(live.rank).pp));
        live.world = m_plan.layout.world();
        live.host = hostName();
        live.plan_json = writePlan(m_plan).dump();
        live.started_at = isoNow();
        PIPER_ASSIGN(m_recorder, LiveRecorder::create(std::move(live)));
        return {};
    }

    Status trainAll() {
        PIPER_ASSIGN(const ByteDataset data,
                     ByteDataset::open(m_options.data, m_plan.seq_len, m_options.seed));
        PIPER_TRY(openRecorder());
        TaggedAllocator allocator(hostMemory(), m_options.memory_limit_bytes);
        PIPER_ASSIGN(const std::unique_ptr<Backend> backend, makeCpuBackend(allocator));
        TrainingOptions training;
        training.steps = m_options.steps;
        training.constants.seed = m_options.seed;
        training.constants.local_rows = m_options.local_rows;
        training.constants.adam.learning_rate = m_options.learning_rate;
        training.record_routing = m_options.record_routing;
        training.replay_routing = m_options.replay_routing;
        training.checkpoint_every = m_options.checkpoint_every;
        training.checkpoint_directory = m_options.checkpoint_directory;
        if (training.checkpoint_directory.empty() && training.checkpoint_every > 0)
            training.checkpoint_directory =
                (std::filesystem::path(m_options.job) / "checkpoints").string();
        training.resume = m_options.resume;
        m_status.state = JobState::Running;
        return train({m_plan, m_schedule, *m_transport, *backend, *m_recorder, data, hooks(),
                      [this](const StepProgress& p) { return report(p); }},
                     training);
    }

    ProgramRunner::Hooks hooks() {
        const auto start = std::chrono::steady_clock::now();
        ProgramRunner::Hooks hooks;
        hooks.clock = [start] {
            return std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::steady_clock::now() - start)
                .count();
        };
        hooks.interrupted = [this] { return m_interruption(); };
        hooks.started = [this](std::int64_t step, const Operation& operation) {
            m_liveness->note(fmt::format("step {}, {}", step, describe(operation)));
        };
        hooks.noted = [this](std::string_view doing) { m_liveness->note(doing); };
        return hooks;
    }

    Status report(const StepProgress& progress) {
        m_status.step = static_cast<std::int32_t>(progress.step);
        m_status.loss = progress.result.loss;
        m_status.tokens_per_second = progress.tokens_per_second;
        m_status.load = summarizeLoad(progress.load);
        m_status.rank_peak_bytes = progress.rank_peak_bytes;
        if (rank() != 0) return {};
        std::printf("step %lld/%lld loss %.9g gradient_norm %.6g %.0f tokens/s\n",
                    static_cast<long long>(progress.step), static_cast<long long>(m_options.steps),
                    progress.result.loss, progress.result.gradient_norm,
                    progress.tokens_per_second);
        std::fflush(stdout);
        return writeStatus(m_options.job, m_status);
    }

    int finish(const Status& status) {
        if (status.ok()) return closeRun(RunOutcome::Finished, "", 0);
        const Error& error = status.error();
        const bool cancelled = error.code == ErrorCode::Cancelled;
        const int exit_status = cancelled                     ? 130
                                : exitStatus(error.code) == 1 ? 2
                                                              : exitStatus(error.code);
        const std::string reason = m_interruption.given()
                                       ? error.message
                                       : fmt::format("rank {}: {}", rank(), error.text());
        std::fprintf(stderr, "piper-worker: rank %lld: %s\n", static_cast<long long>(rank()),
                     error.text().c_str());
        closeRun(cancelled ? RunOutcome::Cancelled : RunOutcome::Failed, reason, exit_status);
        leave(exit_status);
    }

    int closeRun(RunOutcome outcome, const std::string& reason, int exit_status) {
        if (m_liveness)
            m_liveness->leave(outcome == RunOutcome::Finished ? Liveness::State::Done
                              : m_interruption.given()        ? Liveness::State::Stopping
                                                              : Liveness::State::Failed,
                              reason);
        if (m_recorder) {
            const Status closed = m_recorder->finish(outcome, reason);
            if (!closed.ok()) {
                std::fprintf(stderr, "piper-worker: rank %lld: %s\n",
                             static_cast<long long>(rank()), closed.error().text().c_str());
                if (exit_status == 0) exit_status = 3;
            }
        }
        if (m_liveness && m_liveness->isLowestAlive()) {
            m_status.state = stateOf(outcome);
            m_status.message = reason;
            const Status written = writeStatus(m_options.job, m_status);
            if (!written.ok())
                std::fprintf(stderr, "piper-worker: %s\n", written.error().text().c_str());
        }
        return exit_status;
    }

    /// Ends without MPI's own farewell, which would wait for ranks that are gone; the launcher
    /// takes that as a failure and ends what is left. MPI_Abort would wait to be killed.
    [[noreturn]] void leave(int exit_status) {
        std::fflush(nullptr);
        // The others see this rank's last words and leave before the launcher ends them.
        if (m_liveness && !m_interruption.given()) m_liveness->awaitOthers(5000);
        ::_exit(exit_status);
    }

    WorkerOptions m_options;
    Interruption m_interruption;
    std::unique_ptr<Liveness> m_liveness;
    std::unique_ptr<Transport> m_transport;
    Plan m_plan;
    Schedule m_schedule;
    std::unique_ptr<LiveRecorder> m_recorder;
    JobStatus m_status;
};

}  // namespace

int runWorker(const WorkerOptions& options) {
    if (options.digest.empty()) return Worker(options).run();
    const Status written = writeDigest(options.digest, digestFile(options.digest));
    if (written.ok()) return 0;
    std::fprintf(stderr, "piper-worker: %s\n", written.error().text().c_str());
    return exitStatus(written.error().code);
}

}  // namespace piper
