// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/enum_text.h"
#include "core/base/json_fwd.h"
#include "core/base/result.h"
#include "core/run/expert_load.h"

namespace piper {

enum class JobState { Queued, Starting, Running, Finished, Failed, Cancelled };

/// status.json of a job directory (docs/formats.md): rank 0 writes it, the session reads it.
struct JobStatus {
    JobState state = JobState::Starting;
    std::int32_t step = 0;
    std::int32_t steps = 0;
    double loss = 0.0;
    double tokens_per_second = 0.0;
    std::string message;                             ///< why it failed, or the place in the queue
    ExpertLoadSummary load = {};                     ///< of the last step; empty without experts
    std::vector<std::int64_t> rank_peak_bytes = {};  ///< most each rank held so far
};

/// True for a state a job never leaves.
[[nodiscard]] bool isFinal(JobState state);

/// Errors: InvalidInput when the text is no status document.
[[nodiscard]] Result<JobStatus> parseJobStatus(std::string_view text, std::string_view where);
[[nodiscard]] Json jobStatusJson(const JobStatus& status);

}  // namespace piper
