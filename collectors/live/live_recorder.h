// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "collectors/store/workspace.h"
#include "core/run/recorder.h"

namespace piper {

/// Who records, and into which directory.
struct LiveOptions {
    std::filesystem::path job_directory;  ///< gets rank-N.piper
    RankId rank;
    StageId stage;
    std::int64_t world = 1;
    std::string host;
    std::string run_name = "run";
    std::string plan_json;
    std::string started_at;  ///< ISO 8601 UTC
    std::string program_version;
    /// Records kept in memory at most before they are committed in mid-step.
    std::size_t buffer_rows = 16384;
};

/// The file of a rank in a job directory: rank-N.piper (beside it, while it is written, its
/// write-ahead log rank-N.piper-wal and rank-N.piper-shm, which belong to it).
[[nodiscard]] std::filesystem::path rankFile(const std::filesystem::path& job_directory,
                                             RankId rank);

/// Records one rank into a workspace file of its own.
///
/// Records gather in memory and are committed by flush(), between steps, and when buffer_rows are
/// waiting. What was committed survives a kill of the process. When a commit fails (full disk) the
/// fault stays in status(), the records of that commit are dropped and counted in the counter
/// "recorder.lost_rows", and later commits are tried again.
class LiveRecorder final : public Recorder {
public:
    /// Replaces a file left by an earlier attempt in the same directory.
    /// Errors: Io when the file cannot be made.
    [[nodiscard]] static Result<std::unique_ptr<LiveRecorder>> create(LiveOptions options);
    ~LiveRecorder() override;

    std::int32_t name(std::string_view text) override;
    std::int32_t track(const Track& track) override;
    void event(const Event& event) override;
    void memory(const MemorySample& sample) override;
    void clock(const ClockSample& sample) override;
    void step(const StepRecord& record) override;
    void expertLoad(const ExpertLoad& load) override;
    void counter(std::string_view name, std::string_view value) override;
    Status flush() override;
    [[nodiscard]] Status status() const override { return m_status; }
    Status finish(RunOutcome outcome, std::string_view reason) override;

    [[nodiscard]] std::int64_t lostRows() const { return m_lost_rows; }

private:
    LiveRecorder(Workspace file, std::size_t buffer_rows);
    void counted();
    Status keep(Status status);

    Workspace m_file;
    std::int64_t m_run_id = 0;
    std::int64_t m_rank_id = 0;
    std::size_t m_buffer_rows;
    std::size_t m_waiting = 0;
    std::int64_t m_lost_rows = 0;
    NameTable m_names;
    std::int32_t m_tracks = 0;
    RankTimeline m_buffer;
    Status m_status;
    bool m_finished = false;
};

}  // namespace piper
