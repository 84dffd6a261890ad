// SPDX-License-Identifier: Apache-2.0
#include "app/worker/options.h"

#include "app/command_line/command_line.h"

namespace piper {

ParsedOptions parseOptions(int argc, char** argv) {
    ParsedOptions parsed;
    WorkerOptions& o = parsed.options;
    CLI::App app{"Trains one rank of a plan; one process a rank, started by mpirun.",
                 "piper-worker"};
    CLI::Option* calibrate = app.add_option("--calibrate", o.calibrate,
                                            "measure this machine into a cluster FILE and end");
    CLI::Option* bench = app.add_option(
        "--bench", o.bench,
        "time experts, a step and collecting on one thread beside their limits, into a JSON FILE, "
        "and end");
    bench->excludes(calibrate);
    app.add_flag("--quick", o.quick, "fewer shapes and repetitions");
    app.add_option("--digest", o.digest,
                   "write digest.piper in this job directory, what its ranks recorded without most "
                   "events, and end");
    app.add_option("--plan", o.plan, "plan file");
    app.add_option("--job", o.job, "job directory: rank-N.piper, status.json");
    app.add_option("--steps", o.steps, "optimizer steps")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
        ->capture_default_str();
    app.add_option("--data", o.data, "text file, or folder of them, to train on as bytes")
        ->capture_default_str();
    app.add_option("--seed", o.seed, "of initial weights and sample order")->capture_default_str();
    app.add_flag("--deterministic", o.deterministic, "sum in rank order");
    app.add_flag("--local-rows", o.local_rows,
                 "time a step without its expert traffic: experts work on copies of their own "
                 "rank's rows (the losses mean nothing)");
    app.add_option("--record-routing", o.record_routing,
                   "write every token's experts to FILE (FILE.N on several ranks)");
    app.add_option("--replay-routing", o.replay_routing, "make every token choose as in FILE");
    app.add_option("--memory-limit-bytes", o.memory_limit_bytes,
                   "refuse to hold more, as a device of that memory would")
        ->check(app::aboveZero());
    app.add_option("--backend", o.backend, "cpu, or cuda where its plugin and a device are found")
        ->check(app::oneOf({"cpu", "cuda"}))
        ->capture_default_str();
    app.add_option("--learning-rate", o.learning_rate)
        ->check(app::fromZero())
        ->capture_default_str();
    app.add_option("--checkpoint-every", o.checkpoint_every, "steps between checkpoints")
        ->check(app::aboveZero());
    app.add_option("--checkpoint-directory", o.checkpoint_directory,
                   "where checkpoints go (JOB/checkpoints with --checkpoint-every); also written "
                   "after the last step");
    app.add_option("--resume", o.resume, "go on from a checkpoint, or the newest of a folder");
    app.final_callback([&o] {
        const bool trains = o.calibrate.empty() && o.digest.empty() && o.bench.empty();
        if (trains && (o.plan.empty() || o.job.empty()))
            throw CLI::RequiredError("--plan and --job (or --calibrate, --bench or --digest)");
        if (o.quick && o.calibrate.empty() && o.bench.empty())
            throw CLI::RequiresError("--quick", "--calibrate or --bench");
    });
    app::completeCommandLine(app);
    parsed.exit_status = app::readCommandLine(app, argc, argv);
    return parsed;
}

}  // namespace piper
