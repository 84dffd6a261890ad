// SPDX-License-Identifier: Apache-2.0
#include "collectors/live/collect.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>

#include "collectors/live/live_recorder.h"
#include "core/base/json.h"
#include "core/base/read_all.h"
#include "core/run/sub_lanes.h"

namespace piper {
namespace {

namespace fs = std::filesystem;

/// One rank file as it was found.
struct RankFile {
    std::int32_t rank = -1;
    Run run;
    [[nodiscard]] const RankTimeline& records() const { return run.ranks.front(); }
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

Result<RankFile> readRankFile(const fs::path& path, std::int32_t rank,
                              std::vector<std::string>& problems) {
    PIPER_ASSIGN(Workspace file, Workspace::open(path));
    PIPER_ASSIGN(const std::vector<RunSummary> runs, file.runs());
    if (runs.empty()) return fail(ErrorCode::InvalidInput, "holds no run yet").at(path.string());
    PIPER_ASSIGN(Run run, file.readRun(runs.front().name));
    if (run.ranks.empty())
        return fail(ErrorCode::InvalidInput, "holds no rank yet").at(path.string());
    for (const std::string& sentence : file.damage())
        problems.push_back(fmt::format("{}: {}", path.filename().string(), sentence));
    run.ranks.front().rank = RankId(rank);
    return RankFile{rank, std::move(run)};
}

struct Found {
    std::vector<RankFile> files;
    std::vector<std::string> problems;
};

Result<Found> readRankFiles(const fs::path& directory) {
    std::error_code fault;
    std::vector<std::pair<std::int32_t, fs::path>> paths;
    for (fs::directory_iterator it(directory, fault), end; !fault && it != end; it.increment(fault))
        if (const std::int32_t rank = rankOfName(it->path().filename().string()); rank >= 0)
            paths.emplace_back(rank, it->path());
    if (fault)
        return fail(ErrorCode::NotFound, "cannot read the job directory: {}", fault.message())
            .at(directory.string());
    std::sort(paths.begin(), paths.end());
    Found found;
    for (const auto& [rank, path] : paths) {
        Result<RankFile> file = readRankFile(path, rank, found.problems);
        if (file.ok())
            found.files.push_back(std::move(file).value());
        else
            found.problems.push_back(file.error().text());
    }
    if (!found.files.empty()) return found;
    Error error = fail(ErrorCode::NotFound, "no readable rank file (rank-N.piper) in it");
    if (!found.problems.empty()) error.context = found.problems.front();
    return std::move(error).at(directory.string());
}

std::int64_t worldOf(const std::vector<RankFile>& files) {
    std::int64_t world = files.back().rank + 1;
    for (const RankFile& file : files)
        if (const auto note = file.run.notes.find("world"); note != file.run.notes.end()) {
            std::int64_t value = 0;
            std::from_chars(note->second.data(), note->second.data() + note->second.size(), value);
            world = std::max(world, value);
        }
    return world;
}

void nameMissing(const Found& found, std::vector<std::string>& problems) {
    const std::int64_t world = worldOf(found.files);
    std::vector<std::int64_t> missing;
    for (std::int64_t rank = 0; rank < world; ++rank)
        if (std::none_of(found.files.begin(), found.files.end(),
                         [&](const RankFile& f) { return f.rank == rank; }))
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

const RankFile* firstWith(const std::vector<RankFile>& files, RunOutcome outcome) {
    for (const RankFile& file : files)
        if (file.run.outcome == outcome) return &file;
    return nullptr;
}

/// A rank that said why it failed knows best; then those that ended without a word, the first to
/// stop first; then a missing file.
Ending decideEnding(const Found& found, const JobStatus& status, std::int64_t world) {
    const auto& files = found.files;
    if (const RankFile* failed = firstWith(files, RunOutcome::Failed))
        return {RunOutcome::Failed,
                fmt::format("rank {}: {}", failed->rank, failed->run.outcome_reason)};
    std::vector<const RankFile*> open;
    for (const RankFile& file : files)
        if (file.run.outcome == RunOutcome::Running) open.push_back(&file);
    const RankFile* cancelled = firstWith(files, RunOutcome::Cancelled);
    if (cancelled || (!open.empty() && status.state == "cancelled"))
        return {RunOutcome::Cancelled, cancelled ? cancelled->run.outcome_reason : status.message};
    if (!open.empty()) {
        std::stable_sort(open.begin(), open.end(), [](const RankFile* a, const RankFile* b) {
            return lastTime(a->records()) < lastTime(b->records());
        });
        std::string reason = fmt::format("rank {} ended without a closing record ({})",
                                         open.front()->rank, lastRecord(open.front()->records()));
        if (open.size() > 1) reason += fmt::format("; so did {} more ranks", open.size() - 1);
        if (status.state == "failed" && !status.message.empty())
            reason += "; the job said: " + status.message;
        return {RunOutcome::Failed, std::move(reason)};
    }
    if (static_cast<std::int64_t>(files.size()) < world)
        return {RunOutcome::Failed,
                fmt::format("only {} of {} ranks left records", files.size(), world)};
    return {};
}

}  // namespace

std::int64_t bestOffset(const std::vector<ClockSample>& samples) {
    const auto best = std::min_element(samples.begin(), samples.end(),
                                       [](const ClockSample& a, const ClockSample& b) {
                                           return a.round_trip_ns < b.round_trip_ns;
                                       });
    return best == samples.end() ? 0 : best->offset_ns;
}

Result<CollectedRun> collectJob(const fs::path& job_directory, Workspace& into,
                                std::string_view run_name) {
    PIPER_ASSIGN(Found found, readRankFiles(job_directory));
    for (RankFile& file : found.files) {
        file.run.ranks.front().offset_ns = bestOffset(file.records().clock);
        assignSubLanes(file.run.ranks.front());
    }
    CollectedRun out;
    out.name = std::string(run_name);
    out.problems = found.problems;
    nameMissing(found, out.problems);

    const Ending ending = decideEnding(found, readStatus(job_directory), worldOf(found.files));
    Run run = found.files.front().run;
    run.ranks.clear();
    run.name = out.name;
    run.outcome = out.outcome = ending.outcome;
    run.outcome_reason = out.outcome_reason = ending.reason;
    run.notes.erase("damage");
    if (!out.problems.empty())
        run.notes["problems"] = fmt::format("{}", fmt::join(out.problems, "\n"));
    for (RankFile& file : found.files) run.ranks.push_back(std::move(file.run.ranks.front()));
    out.ranks = static_cast<std::int64_t>(run.ranks.size());
    PIPER_ASSIGN(out.run_id, into.addRun(run));
    return out;
}

}  // namespace piper
