// SPDX-License-Identifier: Apache-2.0
#include "collectors/live/collect.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <limits>
#include <random>

#include "collectors/live/live_recorder.h"
#include "core/base/json.h"
#include "core/base/read_all.h"
#include "core/run/sub_lanes.h"

namespace piper {
namespace {

namespace fs = std::filesystem;

/// What of a rank's file says how the run ended; its records are stored already.
struct RankEnd {
    std::int32_t rank = -1;
    Run run;  ///< header
    std::int64_t last_time_ns = 0;
    std::string last_record;
};

/// N of "rank-N.piper", -1 for any other name.
std::int32_t rankOfName(const std::string& name) {
    static constexpr std::string_view kPrefix = "rank-", kSuffix = ".piper";
    if (name.size() <= kPrefix.size() + kSuffix.size() || !name.starts_with(kPrefix) ||
        !name.ends_with(kSuffix))
        return -1;
    const char* begin = name.data() + kPrefix.size();
    const char* end = name.data() + name.size() - kSuffix.size();
    std::int32_t rank = -1;
    const auto [stop, fault] = std::from_chars(begin, end, rank);
    return fault == std::errc() && stop == end ? rank : -1;
}

/// A run of one rank.
Result<Run> readRankFile(const fs::path& path, std::int32_t rank,
                         std::vector<std::string>& problems) {
    PIPER_ASSIGN(Workspace file, Workspace::open(path));
    PIPER_ASSIGN(const std::vector<RunSummary> runs, file.runs());
    if (runs.empty()) return fail(ErrorCode::InvalidInput, "holds no run yet").at(path.string());
    PIPER_ASSIGN(Run run, file.readRun(runs.front().name));
    if (run.ranks.empty())
        return fail(ErrorCode::InvalidInput, "holds no rank yet").at(path.string());
    for (const std::string& sentence : file.damage())
        problems.push_back(fmt::format("{}: {}", path.filename().string(), sentence));
    RankTimeline& records = run.ranks.front();
    records.rank = RankId(rank);
    records.offset_ns = bestOffset(records.clock);
    assignSubLanes(records);
    return run;
}

/// By rank.
Result<std::vector<std::pair<std::int32_t, fs::path>>> rankFilesIn(const fs::path& directory) {
    std::error_code fault;
    std::vector<std::pair<std::int32_t, fs::path>> paths;
    for (fs::directory_iterator it(directory, fault), end; !fault && it != end; it.increment(fault))
        if (const std::int32_t rank = rankOfName(it->path().filename().string()); rank >= 0)
            paths.emplace_back(rank, it->path());
    if (fault)
        return fail(ErrorCode::NotFound, "cannot read the job directory: {}", fault.message())
            .at(directory.string());
    std::sort(paths.begin(), paths.end());
    return paths;
}

std::int64_t worldOf(const std::vector<RankEnd>& files) {
    std::int64_t world = files.back().rank + 1;
    for (const RankEnd& file : files)
        if (const auto note = file.run.notes.find("world"); note != file.run.notes.end()) {
            std::int64_t value = 0;
            std::from_chars(note->second.data(), note->second.data() + note->second.size(), value);
            world = std::max(world, value);
        }
    return world;
}

void nameMissing(const std::vector<RankEnd>& files, std::vector<std::string>& problems) {
    const std::int64_t world = worldOf(files);
    std::vector<std::int64_t> missing;
    for (std::int64_t rank = 0; rank < world; ++rank)
        if (std::none_of(files.begin(), files.end(),
                         [&](const RankEnd& f) { return f.rank == rank; }))
            missing.push_back(rank);
    if (missing.empty()) return;
    problems.push_back(fmt::format("no records of {} of {} ranks: {}", missing.size(), world,
                                   fmt::join(missing, ", ")));
}

/// "in step 3, 1.234 s after the start: dispatch of layer 2, micro-batch 1".
std::string lastRecord(const RankTimeline& rank) {
    if (rank.events.empty()) return "before its first committed record";
    const Event& last =
        *std::max_element(rank.events.begin(), rank.events.end(),
                          [](const Event& a, const Event& b) { return a.end_ns() < b.end_ns(); });
    std::string text = fmt::format("last committed record in step {}: {} {}", last.step,
                                   toText(last.phase), toText(last.kind));
    if (last.layer.valid()) text += fmt::format(" of layer {}", last.layer.value);
    if (last.micro_batch.valid()) text += fmt::format(", micro-batch {}", last.micro_batch.value);
    return text;
}

std::int64_t lastTime(const RankTimeline& rank) {
    std::int64_t last = std::numeric_limits<std::int64_t>::min();
    for (const Event& e : rank.events) last = std::max(last, e.end_ns());
    return last == std::numeric_limits<std::int64_t>::min() ? last : last + rank.offset_ns;
}

/// What the launcher or rank 0 wrote last; empty when there is no such file.
struct JobStatus {
    std::string state, message;
};
JobStatus readStatus(const fs::path& directory) {
    std::ifstream in(directory / "status.json", std::ios::binary);
    const Result<Json> json = parseJson(readAll(in).value_or(""), "status.json");
    JobStatus status;
    if (!json.ok() || !json->is_object()) return status;
    ObjectReader reader(*json, "status.json");
    reader.allowUnknown();
    status.state = reader.string("state", "");
    status.message = reader.string("message", "");
    return status;
}

struct Ending {
    RunOutcome outcome = RunOutcome::Finished;
    std::string reason;
};

const RankEnd* firstWith(const std::vector<RankEnd>& files, RunOutcome outcome) {
    for (const RankEnd& file : files)
        if (file.run.outcome == outcome) return &file;
    return nullptr;
}

/// A rank that said why it failed knows best; then those that ended without a word, the first to
/// stop first; then a missing file.
Ending decideEnding(const std::vector<RankEnd>& files, const JobStatus& status) {
    if (const RankEnd* failed = firstWith(files, RunOutcome::Failed))
        return {RunOutcome::Failed,
                fmt::format("rank {}: {}", failed->rank, failed->run.outcome_reason)};
    std::vector<const RankEnd*> open;
    for (const RankEnd& file : files)
        if (file.run.outcome == RunOutcome::Running) open.push_back(&file);
    const RankEnd* cancelled = firstWith(files, RunOutcome::Cancelled);
    if (cancelled || (!open.empty() && status.state == "cancelled"))
        return {RunOutcome::Cancelled, cancelled ? cancelled->run.outcome_reason : status.message};
    if (!open.empty()) {
        std::stable_sort(open.begin(), open.end(), [](const RankEnd* a, const RankEnd* b) {
            return a->last_time_ns < b->last_time_ns;
        });
        std::string reason = fmt::format("rank {} ended without a closing record ({})",
                                         open.front()->rank, open.front()->last_record);
        if (open.size() > 1) reason += fmt::format("; so did {} more ranks", open.size() - 1);
        if (status.state == "failed" && !status.message.empty())
            reason += "; the job said: " + status.message;
        return {RunOutcome::Failed, std::move(reason)};
    }
    const std::int64_t world = worldOf(files);
    if (std::ssize(files) < world)
        return {RunOutcome::Failed,
                fmt::format("only {} of {} ranks left records", files.size(), world)};
    return {};
}

/// Stores the ranks of a job under a run of that name; the run says how it ended last.
class Collection {
public:
    Collection(Workspace& into, std::string_view run_name, CollectedRanks what)
        : m_into(into), m_what(what) {
        m_out.name = std::string(run_name);
    }

    Status addFiles(const fs::path& directory) {
        PIPER_ASSIGN(const auto paths, rankFilesIn(directory));
        for (const auto& [rank, path] : paths) {
            Result<Run> file = readRankFile(path, rank, m_out.problems);
            if (file.ok())
                PIPER_TRY(addRank(*std::move(file)));
            else
                m_out.problems.push_back(file.error().text());
        }
        if (!m_ends.empty()) return {};
        Error error = fail(ErrorCode::NotFound, "no readable rank file (rank-N.piper) in it");
        if (!m_out.problems.empty()) error.context = m_out.problems.front();
        return std::move(error).at(directory.string());
    }

    Result<CollectedRun> finish(const JobStatus& status) {
        nameMissing(m_ends, m_out.problems);
        const Ending ending = decideEnding(m_ends, status);
        m_out.outcome = ending.outcome;
        m_out.outcome_reason = ending.reason;
        m_out.ranks = std::ssize(m_ends);
        if (!m_out.problems.empty())
            PIPER_TRY(m_into.setNote(m_out.run_id, "problems",
                                     fmt::format("{}", fmt::join(m_out.problems, "\n"))));
        PIPER_TRY(m_into.endRun(m_out.run_id, ending.outcome, ending.reason));
        return std::move(m_out);
    }

    [[nodiscard]] bool begun() const { return m_out.run_id != 0; }

private:
    Status addRank(Run run) {
        RankTimeline records = std::move(run.ranks.front());
        run.ranks.clear();
        RankEnd end{records.rank.value, std::move(run), lastTime(records), lastRecord(records)};
        if (!begun()) {
            Run header = end.run;
            header.name = m_out.name;
            header.outcome = RunOutcome::Failed;
            header.outcome_reason = "collecting it was interrupted: fetch it again";
            header.notes.erase("damage");
            PIPER_ASSIGN(m_out.run_id, m_into.beginRun(header));
        }
        m_ends.push_back(std::move(end));
        const Result<std::int64_t> added =
            m_what == CollectedRanks::Digest
                ? m_into.addDigestRank(m_out.run_id, std::move(records))
                : m_into.addWholeRank(m_out.run_id, records);
        return added.ok() ? Status() : Status(added.error());
    }

    Workspace& m_into;
    CollectedRanks m_what;
    CollectedRun m_out;
    std::vector<RankEnd> m_ends;
};

}  // namespace

std::int64_t bestOffset(const std::vector<ClockSample>& samples) {
    const auto best = std::min_element(samples.begin(), samples.end(),
                                       [](const ClockSample& a, const ClockSample& b) {
                                           return a.round_trip_ns < b.round_trip_ns;
                                       });
    return best == samples.end() ? 0 : best->offset_ns;
}

Result<CollectedRun> collectJob(const fs::path& job_directory, Workspace& into,
                                std::string_view run_name, CollectedRanks what) {
    Collection collection(into, run_name, what);
    Result<CollectedRun> out = CollectedRun{};
    if (const Status added = collection.addFiles(job_directory); added.ok())
        out = collection.finish(readStatus(job_directory));
    else
        out = added.error();
    if (!out.ok() && collection.begun()) (void)into.removeRun(run_name);
    return out;
}

fs::path digestFile(const fs::path& job_directory) {
    return job_directory / "digest.piper";
}

namespace {

/// A maker writes to its file all the time: one that rests for so long was killed.
constexpr auto kDeadAfter = std::chrono::hours(1);

/// A name that no other maker of the file has, on whichever host.
fs::path ownPart(const fs::path& file) {
    std::random_device random;
    return fmt::format("{}.part-{:08x}{:08x}", file.string(), random(), random());
}

/// Removes what makers that were killed left.
void removeDeadParts(const fs::path& file) {
    const std::string prefix = file.filename().string() + ".part";
    std::error_code fault;
    for (fs::directory_iterator it(file.parent_path(), fault), end; !fault && it != end;
         it.increment(fault)) {
        std::error_code gone;
        if (!it->path().filename().string().starts_with(prefix)) continue;
        const fs::file_time_type written = fs::last_write_time(it->path(), gone);
        if (!gone && fs::file_time_type::clock::now() - written > kDeadAfter)
            fs::remove(it->path(), gone);
    }
}

}  // namespace

Status writeDigest(const fs::path& job_directory, const fs::path& file) {
    removeDeadParts(file);
    const fs::path part = ownPart(file);
    std::error_code fault;
    const auto write = [&]() -> Status {
        PIPER_ASSIGN(Workspace digest, Workspace::create(part));
        PIPER_ASSIGN(const CollectedRun run,
                     collectJob(job_directory, digest, "run", CollectedRanks::Digest));
        return digest.close();
    };
    Status written = write();
    if (written.ok()) {
        fs::rename(part, file, fault);
        if (!fault) return written;
        written = fail(ErrorCode::Io, "cannot rename it: {}", fault.message()).at(part.string());
    }
    fs::remove(part, fault);
    return written;
}

Result<RankTimeline> readRank(const fs::path& rank_file, RankId rank,
                              std::vector<std::string>& problems) {
    PIPER_ASSIGN(Run run, readRankFile(rank_file, rank.value, problems));
    return std::move(run.ranks.front());
}

}  // namespace piper
