// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/run/run_labels.h"
#include "core/run/timeline.h"

namespace piper {

/// A row of the list of runs.
struct RunSummary {
    std::int64_t id = 0;
    std::string name;
    RunKind kind = RunKind::Measured;
    RunOutcome outcome = RunOutcome::Finished;
    std::string outcome_reason;
    std::string started_at;
    std::int64_t ranks = 0;
    std::int64_t steps = 0;   ///< of the rank with most
    std::int64_t events = 0;  ///< all ranks
    RunLabels labels = {};
};

/// The workspace file: runs (modelled and measured alike) and documents in one SQLite database.
///
/// Every call is one transaction: after an error the file is as it was. One thread at a time per
/// object; one writer and many readers per file, also while it grows. Streams of a rank are stored
/// as chunks (collectors/store/chunks.h) with the range of lane and time beside them.
/// Events come back ordered by start, then by lane, track and row, then as they were recorded.
///
/// A damaged file gives what can be read: the call succeeds with what is intact, says what is
/// missing in damage() and, for a run, in its note "damage".
class Workspace {
public:
    enum class Mode { ReadOnly, ReadWrite };

    /// A new, empty file. Errors: Io when it exists already or cannot be made.
    [[nodiscard]] static Result<Workspace> create(const std::filesystem::path& path);
    /// Errors: NotFound; Io without permission; InvalidInput when it is not a workspace file,
    /// of a newer version, or too damaged to be opened.
    [[nodiscard]] static Result<Workspace> open(const std::filesystem::path& path,
                                                Mode mode = Mode::ReadOnly);
    /// Opens for writing, makes the file when it does not exist.
    [[nodiscard]] static Result<Workspace> openOrCreate(const std::filesystem::path& path);

    Workspace(Workspace&&) noexcept;
    Workspace& operator=(Workspace&&) noexcept;
    ~Workspace();

    [[nodiscard]] std::string path() const;

    /// Stores a whole run. Errors: RuleBroken when the name is taken.
    Result<std::int64_t> addRun(const Run& run);
    /// `name`, or the first free of "name 2", "name 3", ...
    Result<std::string> freeRunName(std::string_view name);
    /// The header only (ranks are ignored); for a run that is still going on.
    Result<std::int64_t> beginRun(const Run& header);
    /// A rank's header (no records). Returns the id that append() takes.
    Result<std::int64_t> addRank(std::int64_t run_id, const RankTimeline& header);
    /// A rank with all the records it will have: its summary is made of them, not read again.
    Result<std::int64_t> addWholeRank(std::int64_t run_id, const RankTimeline& rank);
    /// The same as a digest: its summary and its samples, what its events sum up to by step, and of
    /// events those of short rows only. A rank without long rows, or that completed no step, is
    /// added whole.
    Result<std::int64_t> addDigestRank(std::int64_t run_id, RankTimeline rank);
    /// Puts a whole rank in the place of what the run holds of that rank.
    /// Errors: NotFound when it holds none.
    Status replaceRank(std::string_view run_name, const RankTimeline& rank);
    /// Adds a run of another file under a new name, events and summaries as they are stored there
    /// (in the words of this file where the files' vocabularies differ).
    /// Errors: NotFound; RuleBroken when the name is taken.
    Result<std::int64_t> copyRun(Workspace& from, std::string_view run_name,
                                 std::string_view new_name);
    /// Adds all records of `records` to a rank and commits them. Counters replace those of the
    /// same name; names and tracks continue the numbering of those the rank has.
    Status append(std::int64_t rank_id, const RankTimeline& records);
    /// Replaces what is known of a rank's clock; its records stay as they were written.
    Status setClock(std::string_view run_name, RankId rank, std::int64_t offset_ns,
                    std::span<const ClockSample> samples);
    Status endRun(std::int64_t run_id, RunOutcome outcome, std::string_view reason);
    Status setNote(std::int64_t run_id, std::string_view name, std::string_view value);
    Status removeNote(std::int64_t run_id, std::string_view name);
    /// Puts them in the place of those it has; empty ones are no notes. Errors: NotFound.
    Status setLabels(std::string_view run_name, const RunLabels& labels);
    Status removeRun(std::string_view name);

    [[nodiscard]] Result<std::vector<RunSummary>> runs();
    /// Errors: NotFound names the runs there are.
    [[nodiscard]] Result<Run> readRun(std::string_view name);
    /// The same without its events: memory, clocks, steps and loads of a run of any size.
    [[nodiscard]] Result<Run> readWithoutEvents(std::string_view name);
    /// Only the header, ranks with counters, names and tracks but without records; cheap.
    [[nodiscard]] Result<Run> readHeader(std::string_view name);
    /// Calls `visit` with the events of one chunk after the other, in no order: for whole-run sums
    /// in constant memory.
    Status visitEvents(std::string_view run_name, RankId rank,
                       const std::function<void(std::span<const Event>)>& visit);
    /// A run as rows of time: any window costs about as much as its pixels once the run has ended.
    /// Reads the file for as long as it lives. Errors: those of open(); NotFound.
    [[nodiscard]] static Result<std::shared_ptr<TimelineSource>> openTimeline(
        const std::filesystem::path& path, std::string_view run_name);

    /// Documents by kind ("plan", "cluster", "model", "note") and name; put replaces.
    Status putDocument(std::string_view kind, std::string_view name, std::string_view json);
    /// Errors: NotFound names those there are.
    [[nodiscard]] Result<std::string> getDocument(std::string_view kind, std::string_view name);
    [[nodiscard]] Result<std::vector<std::string>> documents(std::string_view kind);
    Status removeDocument(std::string_view kind, std::string_view name);

    /// Damage met so far, one sentence each; empty for an intact file.
    [[nodiscard]] const std::vector<std::string>& damage() const;
    /// Reads the whole file and returns all damage found (empty: none).
    [[nodiscard]] Result<std::vector<std::string>> check();
    /// Writes what the write-ahead log holds into the file itself and leaves no file beside it
    /// when no other program has it open.
    Status close();

    struct Impl;  ///< of collectors/store alone

private:
    explicit Workspace(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

}  // namespace piper
