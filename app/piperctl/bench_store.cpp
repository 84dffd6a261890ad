// SPDX-License-Identifier: Apache-2.0
// Rows that the run-time collector writes a second of CPU, bytes a row, and windows of a big run.
#include <unistd.h>

#include <chrono>
#include <random>

#include "app/files/files.h"
#include "app/piperctl/bench.h"
#include "app/piperctl/child_process.h"
#include "collectors/live/live_recorder.h"
#include "core/base/json.h"

namespace piper::app {
namespace {

constexpr int kRanks = 8, kLanesOfRank = 8;
constexpr std::int64_t kRowsOfStep = 200'000;
constexpr const char* kRun = "bench";

/// Kernels of one rank as a step leaves them: lanes in turn, durations and gaps that vary, names
/// out of 200, launches numbered, bytes and FLOPs by name.
class RowSource {
public:
    explicit RowSource(unsigned seed) : m_random(seed) {}

    Event next(std::int64_t i, const std::vector<std::int32_t>& tracks,
               const std::vector<std::int32_t>& names) {
        const auto lane = static_cast<std::size_t>(i % std::ssize(tracks));
        const auto dice = static_cast<std::uint32_t>(m_random());
        const std::size_t name = dice % names.size();
        Event e;
        e.category = EventCategory::Kernel;
        e.lane = Lane::Stream;
        e.phase = Phase::Expert;
        e.track = tracks[lane];
        e.name = names[name];
        e.start_ns = m_now[lane];
        e.duration_ns = 2'000 + static_cast<std::int64_t>(dice >> 8) % 30'000;
        e.step = static_cast<std::int32_t>(i / kRowsOfStep);
        e.operation = static_cast<std::int32_t>(i % 4096);
        e.correlation = i;
        e.bytes = static_cast<std::int64_t>(4096 * (name + 1));
        e.flops = 1e6 * static_cast<double>(name + 1);
        m_now[lane] = e.end_ns() + static_cast<std::int64_t>(dice >> 4) % 5'000;
        return e;
    }

private:
    std::mt19937 m_random;
    std::array<std::int64_t, kLanesOfRank> m_now{};
};

struct Written {
    double record_cpu_seconds = 0.0;  ///< recording and committing, step by step
    double finish_cpu_seconds = 0.0;  ///< the summary and the closing of the file
    std::int64_t rows = 0, file_bytes = 0;
};

/// Records `rows` on one rank; keeps them in `kept` too when it is given.
Result<Written> record(const std::filesystem::path& directory, int rank, std::int64_t rows,
                       std::vector<Event>* kept) {
    LiveOptions options;
    options.job_directory = directory;
    options.rank = RankId(rank);
    options.run_name = kRun;
    PIPER_ASSIGN(const std::unique_ptr<LiveRecorder> recorder, LiveRecorder::create(options));
    std::vector<std::int32_t> tracks, names;
    for (int lane = 0; lane < kLanesOfRank; ++lane)
        tracks.push_back(recorder->track({fmt::format("stream {}", lane), "", "", 0, lane}));
    for (int i = 0; i < 200; ++i)
        names.push_back(recorder->name(fmt::format("void kernel_{}<float>(int)", i)));
    RowSource source(static_cast<unsigned>(rank) + 1);
    Written out;
    out.rows = rows;
    // Rows are made ahead: only what the collector does is timed.
    std::vector<Event> step;
    for (std::int64_t i = 0; i < rows;) {
        step.clear();
        for (; i < rows && std::ssize(step) < kRowsOfStep; ++i)
            step.push_back(source.next(i, tracks, names));
        const double begin = ownCpuSeconds();
        for (const Event& e : step) recorder->event(e);
        PIPER_TRY(recorder->flush());
        out.record_cpu_seconds += ownCpuSeconds() - begin;
        if (kept != nullptr) kept->insert(kept->end(), step.begin(), step.end());
    }
    const double begin = ownCpuSeconds();
    PIPER_TRY(recorder->finish(RunOutcome::Finished, ""));
    out.finish_cpu_seconds = ownCpuSeconds() - begin;
    out.file_bytes =
        static_cast<std::int64_t>(std::filesystem::file_size(rankFile(directory, RankId(rank))));
    return out;
}

/// Every row comes back as it was recorded.
Status checkRows(const std::filesystem::path& directory) {
    std::vector<Event> kept;
    PIPER_TRY(record(directory, 0, 3 * kRowsOfStep / 2, &kept));
    PIPER_ASSIGN(Workspace file, Workspace::open(rankFile(directory, RankId(0))));
    PIPER_ASSIGN(const Run run, file.readRun(kRun));
    std::stable_sort(kept.begin(), kept.end(), startsBefore);
    if (!file.damage().empty() || run.ranks.front().events != kept)
        return fail(ErrorCode::External, "the rows read are not those recorded");
    return {};
}

struct Window {
    std::string name;
    std::int64_t length_ns = 0;
    double seconds = 0.0;  ///< from a new process with the file in the page cache
    double cpu_seconds = 0.0;
    std::int64_t shown = 0;
};

/// The time of one window in a process of its own, the median of some.
Result<Window> timeWindow(const std::filesystem::path& file, std::int64_t end_ns, double part) {
    constexpr int kTimes = 5;
    constexpr std::int64_t kPixels = 2000;
    Window out;
    out.length_ns = static_cast<std::int64_t>(static_cast<double>(end_ns) * part);
    const std::int64_t begin = (end_ns - out.length_ns) / 2;
    const TimeWindow window{begin, begin + out.length_ns};
    std::vector<double> seconds, cpu_seconds;
    for (int i = 0; i < kTimes; ++i) {
        PIPER_ASSIGN(const ProcessCost cost, costOf([&] {
                         Result<Workspace> workspace = Workspace::open(file);
                         if (!workspace.ok()) return 1;
                         const auto rows = workspace->viewport(
                             kRun, window, std::max<std::int64_t>(1, out.length_ns / kPixels));
                         return rows.ok() && !rows->empty() ? 0 : 1;
                     }));
        if (cost.exit_status != 0)
            return fail(ErrorCode::External, "a window could not be read").at(file.string());
        seconds.push_back(cost.wall_seconds);
        cpu_seconds.push_back(cost.cpu_seconds);
    }
    std::sort(seconds.begin(), seconds.end());
    std::sort(cpu_seconds.begin(), cpu_seconds.end());
    out.seconds = seconds[kTimes / 2];
    out.cpu_seconds = cpu_seconds[kTimes / 2];
    out.name = fmt::format("{:g} %", 100.0 * part);
    PIPER_ASSIGN(Workspace workspace, Workspace::open(file));
    PIPER_ASSIGN(
        const std::vector<RowView> rows,
        workspace.viewport(kRun, window, std::max<std::int64_t>(1, out.length_ns / kPixels)));
    for (const RowView& row : rows) out.shown += std::ssize(row.buckets) + std::ssize(row.events);
    return out;
}

/// All ranks in one file, as a collection leaves them; the time of the last end.
Result<std::int64_t> collectRanks(const std::filesystem::path& directory, std::int64_t rows,
                                  const std::filesystem::path& into, std::int64_t& events) {
    PIPER_ASSIGN(Workspace workspace, Workspace::create(into));
    Run header;
    header.name = kRun;
    header.outcome = RunOutcome::Running;
    PIPER_ASSIGN(const std::int64_t run, workspace.beginRun(header));
    std::int64_t last = 0;
    for (int r = 0; r < kRanks; ++r) {
        PIPER_TRY(record(directory, r, rows / kRanks, nullptr));
        PIPER_ASSIGN(Workspace file, Workspace::open(rankFile(directory, RankId(r))));
        PIPER_ASSIGN(Run one, file.readRun(kRun));
        RankTimeline& rank = one.ranks.front();
        for (const Event& e : rank.events) last = std::max(last, e.end_ns());
        events += std::ssize(rank.events);
        PIPER_TRY(workspace.addWholeRank(run, rank));
        std::error_code ignored;
        std::filesystem::remove(rankFile(directory, RankId(r)), ignored);
    }
    PIPER_TRY(workspace.endRun(run, RunOutcome::Finished, ""));
    PIPER_TRY(workspace.close());
    return last;
}

struct StoreCosts {
    Written written;
    std::int64_t events = 0;
    std::vector<Window> windows;

    [[nodiscard]] double rowsPerSecond() const {
        return static_cast<double>(written.rows) / written.record_cpu_seconds;
    }
    [[nodiscard]] double bytesPerRow() const {
        return static_cast<double>(written.file_bytes) / static_cast<double>(written.rows);
    }
};

Result<StoreCosts> measureStore(const BenchOptions& options,
                                const std::filesystem::path& directory) {
    PIPER_TRY(checkRows(directory));
    StoreCosts out;
    PIPER_ASSIGN(out.written,
                 record(directory, 0, std::min<std::int64_t>(options.events, 5'000'000), nullptr));
    const std::filesystem::path file = directory / "w.piper";
    PIPER_ASSIGN(const std::int64_t last,
                 collectRanks(directory, options.events, file, out.events));
    for (const double part : {1.0, 0.1, 0.01, 0.001}) {
        PIPER_ASSIGN(Window window, timeWindow(file, last, part));
        out.windows.push_back(std::move(window));
    }
    return out;
}

}  // namespace

Outcome benchStore(const BenchOptions& options, bool json) {
    PIPER_ASSIGN(const TemporaryDirectory directory, TemporaryDirectory::make());
    PIPER_ASSIGN(const StoreCosts costs, measureStore(options, directory.path()));
    if (json) {
        Json windows = Json::array();
        for (const Window& w : costs.windows)
            windows.push_back({{"window_ns", w.length_ns},
                               {"seconds", w.seconds},
                               {"cpu_seconds", w.cpu_seconds},
                               {"shown", w.shown}});
        printJson({{"format_version", 1},
                   {"bench", "store"},
                   {"rows", costs.written.rows},
                   {"rows_per_cpu_second", costs.rowsPerSecond()},
                   {"finish_cpu_seconds", costs.written.finish_cpu_seconds},
                   {"bytes_per_row", costs.bytesPerRow()},
                   {"events", costs.events},
                   {"lanes", kRanks * kLanesOfRank},
                   {"viewports", std::move(windows)}});
        return 0;
    }
    fmt::print("{} rows read back as recorded\n", 3 * kRowsOfStep / 2);
    fmt::print(
        "recording: {:.2f} million rows a second of CPU, {:.1f} bytes a row; closing {:.2f} s\n",
        costs.rowsPerSecond() / 1e6, costs.bytesPerRow(), costs.written.finish_cpu_seconds);
    fmt::print("windows of {} events on {} lanes, each from a new process:\n", costs.events,
               kRanks * kLanesOfRank);
    for (const Window& w : costs.windows)
        fmt::print("  {:>6} of the run: {:.1f} ms, {:.1f} ms of CPU, {} buckets and events\n",
                   w.name, 1e3 * w.seconds, 1e3 * w.cpu_seconds, w.shown);
    return 0;
}

}  // namespace piper::app
