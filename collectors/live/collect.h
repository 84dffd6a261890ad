// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/store/workspace.h"

namespace piper {

/// What a collection brought.
struct CollectedRun {
    std::int64_t run_id = 0;
    std::string name;
    std::int64_t ranks = 0;
    RunOutcome outcome = RunOutcome::Finished;
    std::string outcome_reason;
    std::vector<std::string> problems;  ///< missing or damaged rank files, one sentence each
};

/// Whole ranks, or what Workspace::addDigestRank keeps of them.
enum class CollectedRanks { Whole, Digest };

/// Merges the rank files of a job directory into one run of `into`, one rank after the other.
///
/// A rank without a closing record was killed: the run is Failed with a reason that names it and
/// its last operation (Cancelled when status.json says so); what every rank committed is kept.
/// A rank's offset is that of its clock sample with the shortest round trip. Rank files that are
/// missing or unreadable are named in `problems` and in the run's note "problems".
/// Errors: NotFound when the directory has no readable rank file; RuleBroken for a taken name.
[[nodiscard]] Result<CollectedRun> collectJob(const std::filesystem::path& job_directory,
                                              Workspace& into, std::string_view run_name,
                                              CollectedRanks what = CollectedRanks::Whole);

/// digest.piper in a job directory.
[[nodiscard]] std::filesystem::path digestFile(const std::filesystem::path& job_directory);
/// The digest of a job as a workspace file of one run, "run"; replaces the file. Several may make
/// it at once: each writes a file of its own and the last one stays.
/// Errors: those of collectJob(); Io.
Status writeDigest(const std::filesystem::path& job_directory, const std::filesystem::path& file);

/// One rank of a job as collectJob() takes it from its file; damage goes to `problems`.
[[nodiscard]] Result<RankTimeline> readRank(const std::filesystem::path& rank_file, RankId rank,
                                            std::vector<std::string>& problems);

/// The offset by the sample with the shortest round trip; 0 without samples.
[[nodiscard]] std::int64_t bestOffset(const std::vector<ClockSample>& samples);

}  // namespace piper
