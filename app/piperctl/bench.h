// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/piperctl/command.h"
#include "core/base/json.h"
#include "core/base/units.h"

namespace piper::app {

/// Options of `piperctl bench SUBJECT`; a subject reads those it names in its help.
struct BenchOptions {
    std::string subject;
    std::string published;   ///< table of published figures
    std::string cluster;     ///< roofs of its links
    std::string by = "row";  ///< what falls out together
    std::int64_t leave_out = 0;
    std::string plan;
    double seconds = 1.0;             ///< of each measurement
    std::vector<std::string> traces;  ///< to make a big file from
    double megabytes = 200.0;         ///< of that file
    std::int64_t events = 10'000'000;
    std::string session = "local";
    std::int64_t bytes = 1'000'000'000;
    std::int64_t pairs = 5;
    bool quick = false;
};

/// Collectives: published times against the model, or the roofs of a cluster's links.
[[nodiscard]] Outcome benchCollectives(const BenchOptions& options, bool json);
/// GEMM, fused MoE and attention: published times against what the model says of them; look-ups.
[[nodiscard]] Outcome benchGemm(const BenchOptions& options, bool json);
/// Predictions a second on one core.
[[nodiscard]] Outcome benchPredict(const BenchOptions& options, bool json);

/// What a user who drags a slider waits for: new predictions with the schedule simulated, on 16
/// stages and 128 micro-batches of the bundled plan; another expert width each time.
struct SliderTimes {
    std::string detail;  ///< "step" or "bottlenecks"
    std::size_t n = 0;
    Seconds median, p10, p90, most;
};
/// Errors: those of predict(); External where a move does not change the answer.
[[nodiscard]] Result<std::vector<SliderTimes>> timeSlider();
[[nodiscard]] Json sliderJson(const std::vector<SliderTimes>& times);
[[nodiscard]] std::string sliderText(const std::vector<SliderTimes>& times);

/// CPU time and memory of importing a Kineto file, against Python's json.load.
[[nodiscard]] Outcome benchImport(const BenchOptions& options, bool json);
/// Rows a second of the run-time collector, bytes a row, windows of a big run.
[[nodiscard]] Outcome benchStore(const BenchOptions& options, bool json);
/// A file fetched from a session's host, against OpenSSH's scp and sftp, in interleaved pairs.
[[nodiscard]] Outcome benchFetch(const BenchOptions& options, bool json);

/// From nothing to a discovered cluster, on a session's host, time after time.
[[nodiscard]] Outcome benchSession(const BenchOptions& options, bool json);

/// Strategies a second on Calculon's own enumeration, and whole searches.
[[nodiscard]] Outcome benchSearch(const BenchOptions& options, bool json);

/// The worker's expert phase, step and collecting on one thread of a session's machine.
[[nodiscard]] Outcome benchWorker(const BenchOptions& options, bool json);

}  // namespace piper::app
