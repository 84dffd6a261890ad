// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/run/recorder.h"
#include "kernels/pipeline/program_runner.h"

namespace piper {

struct TrainingOptions {
    std::int64_t steps = 20;
    TrainingConstants constants;
    std::string record_routing;  ///< file, empty for none
    std::string replay_routing;
    std::string checkpoint_directory;   ///< where step-N folders go; empty for none
    std::int64_t checkpoint_every = 0;  ///< steps between checkpoints; 0: after the last step only
    std::string resume;                 ///< a checkpoint, or a folder of them; empty for none
};

/// What a step reported, for progress.
struct StepProgress {
    std::int64_t step = 0;  ///< finished ones
    StepResult result;
    double tokens_per_second = 0.0;
    std::vector<ExpertLoad> load;               ///< of this step, all ranks together, by layer
    std::vector<std::int64_t> rank_peak_bytes;  ///< most each rank held so far
};

struct TrainingParts {
    const Plan& plan;
    const Schedule& schedule;
    Transport& transport;
    Backend& backend;
    Recorder& recorder;
    const ByteDataset& data;
    ProgramRunner::Hooks hooks;
    /// Called after every step; ranks with one tell each other what they routed and hold, so all
    /// have one or none has.
    std::function<Status(const StepProgress&)> progress;
};

/// Trains the plan on this rank up to step `steps`, from the beginning or from a checkpoint; every
/// rank of the plan's world calls it with the same arguments. Everything measured so far is with
/// the recorder when it returns, also with an error; the caller finishes the recorder. Errors:
/// InvalidInput for a world, plan or trace that does not fit; Unsupported what canRun says;
/// External for a NaN, an exceeded memory limit, a lost rank; Io for the recorder's disk; what
/// `interrupted` gave.
[[nodiscard]] Status train(TrainingParts parts, const TrainingOptions& options);

}  // namespace piper
