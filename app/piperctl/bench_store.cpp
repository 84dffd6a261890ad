// SPDX-License-Identifier: Apache-2.0
// Rows that the run-time collector writes a second of CPU, bytes a row, and windows of a big run.
#include <malloc.h>

#include <array>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>

#include "app/files/files.h"
#include "app/piperctl/bench.h"
#include "app/piperctl/child_process.h"
#include "collectors/live/live_recorder.h"
#include "core/base/json.h"
#include "core/base/sample.h"

namespace piper::app {
namespace {

constexpr int kRanks = 8, kLanesOfRank = 8;
constexpr std::int64_t kRowsOfStep = 200'000;
constexpr std::int64_t kCheckedRows = 3 * kRowsOfStep / 2;
constexpr std::int64_t kPixels = 2000;
constexpr std::int64_t kShortestWindowNs = 50'000;
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

std::vector<std::size_t> allRows(const TimelineSource& timeline) {
    std::vector<std::size_t> rows(timeline.rows().size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    return rows;
}

/// Windows and selections against sums over the events themselves.
Status checkWindows(TimelineSource& timeline, const std::vector<Event>& events) {
    const TimeWindow all = timeline.extent();
    for (const std::int64_t part : {1, 3, 40, 1000, 30'000}) {
        const std::int64_t length = all.length() / part;
        const TimeWindow window{all.begin_ns + length / 7, all.begin_ns + length / 7 + length};
        std::int64_t count = 0, sum = 0, begins = 0, drawn = 0;
        for (const Event& e : events) {
            if (!touches(e, window)) continue;
            ++count;
            begins += window.contains(e.start_ns) ? 1 : 0;
            sum += std::min(e.end_ns(), window.end_ns) - std::max(e.start_ns, window.begin_ns);
        }
        PIPER_ASSIGN(const std::vector<SelectionTotal> totals,
                     timeline.totals(window, allRows(timeline)));
        for (const SelectionTotal& t : totals) {
            count -= t.count;
            sum -= t.sum_ns;
        }
        const std::int64_t pixel = std::max<std::int64_t>(1, length / 2000);
        PIPER_ASSIGN(const TimelineView view, timeline.view(window, pixel));
        for (const TimelineBlock& block : view.blocks) drawn += block.count;
        // Blocks at the borders of the window may hold events that begin just outside.
        const std::int64_t slack = 2 * kLanesOfRank * (1 + pixel / 2000);
        if (count != 0 || sum != 0 || drawn < begins || drawn > begins + slack)
            return fail(ErrorCode::External,
                        "a window of 1/{} of the run is wrong by {} events and {} ns, its picture "
                        "holds {} of {} events",
                        part, count, sum, drawn, begins);
    }
    return {};
}

/// Every row comes back as it was recorded, and windows hold what they should.
Status checkRows(const std::filesystem::path& directory) {
    std::vector<Event> kept;
    PIPER_TRY(record(directory, 0, kCheckedRows, &kept));
    const std::filesystem::path path = rankFile(directory, RankId(0));
    PIPER_ASSIGN(Workspace file, Workspace::open(path));
    PIPER_ASSIGN(const Run run, file.readRun(kRun));
    std::stable_sort(kept.begin(), kept.end(), startsBefore);
    if (!file.damage().empty() || run.ranks.front().events != kept)
        return fail(ErrorCode::External, "the rows read are not those recorded");
    PIPER_ASSIGN(const std::shared_ptr<TimelineSource> timeline,
                 Workspace::openTimeline(path, kRun));
    return checkWindows(*timeline, kept);
}

/// What a new process takes from the opening of the file to the answer.
struct ReadCost {
    double seconds = 0.0, cpu_seconds = 0.0;
    std::int64_t page_faults = 0;
    std::int64_t shown = 0;  ///< blocks, or labels of a selection
};

/// Windows of one length, each read in processes of its own with the file in the page cache.
struct Window {
    std::int64_t length_ns = 0;
    ReadCost cost;                 ///< medians at the slowest of some places
    double worst_seconds = 0.0;    ///< slowest of all tries
    double process_seconds = 0.0;  ///< at that place from the fork to the end of the process
};

/// What is read of a window; how much of it there was.
using ReadWindow = Result<std::int64_t> (*)(TimelineSource&, TimeWindow);

Result<std::int64_t> readPicture(TimelineSource& timeline, TimeWindow window) {
    PIPER_ASSIGN(const TimelineView view,
                 timeline.view(window, std::max<std::int64_t>(1, window.length() / kPixels)));
    return std::ssize(view.blocks);
}

Result<std::int64_t> readTotals(TimelineSource& timeline, TimeWindow window) {
    PIPER_ASSIGN(const std::vector<SelectionTotal> totals,
                 timeline.totals(window, allRows(timeline)));
    return std::ssize(totals);
}

Status openAndRead(const std::filesystem::path& file, TimeWindow window, ReadWindow read,
                   ReadCost& out) {
    const auto begin = std::chrono::steady_clock::now();
    const double cpu_before = ownCpuSeconds();
    const std::int64_t faults_before = ownPageFaults();
    PIPER_ASSIGN(const std::shared_ptr<TimelineSource> timeline,
                 Workspace::openTimeline(file, kRun));
    PIPER_ASSIGN(out.shown, read(*timeline, window));
    out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    out.cpu_seconds = ownCpuSeconds() - cpu_before;
    out.page_faults = ownPageFaults() - faults_before;
    return {};
}

template <class Cost, class Of>
double medianOf(const std::vector<Cost>& costs, Of of) {
    std::vector<double> values;
    for (const Cost& cost : costs) values.push_back(static_cast<double>(of(cost)));
    return median(std::move(values));
}

Status timePlace(const std::filesystem::path& file, TimeWindow window, ReadWindow read,
                 Window& out) {
    constexpr int kTimes = 5;
    PIPER_ASSIGN(SharedWithChild<ReadCost> answer, SharedWithChild<ReadCost>::make());
    std::vector<ReadCost> costs;
    std::vector<ProcessCost> processes;
    for (int i = 0; i < kTimes; ++i) {
        PIPER_ASSIGN(const ProcessCost process, costOf([&] {
                         const Status done = openAndRead(file, window, read, *answer);
                         return done.ok() && answer->shown > 0 ? 0 : 1;
                     }));
        if (process.exit_status != 0)
            return fail(ErrorCode::External, "a window could not be read").at(file.string());
        costs.push_back(*answer);
        processes.push_back(process);
        out.worst_seconds = std::max(out.worst_seconds, answer->seconds);
    }
    const double seconds = medianOf(costs, [](const ReadCost& c) { return c.seconds; });
    if (seconds < out.cost.seconds) return {};
    out.cost = {
        seconds, medianOf(costs, [](const ReadCost& c) { return c.cpu_seconds; }),
        static_cast<std::int64_t>(medianOf(costs, [](const ReadCost& c) { return c.page_faults; })),
        costs.back().shown};
    out.process_seconds = medianOf(processes, [](const ProcessCost& c) { return c.wall_seconds; });
    return {};
}

/// Windows of every size by powers of two, at the begin, within and at the end of the run.
Result<std::vector<Window>> timeWindows(const std::filesystem::path& file, std::int64_t end_ns,
                                        ReadWindow read) {
    std::vector<Window> out;
    for (std::int64_t length = end_ns; length > kShortestWindowNs; length /= 2) {
        Window window;
        window.length_ns = length;
        for (const double place : {0.0, 0.37, 1.0}) {
            const auto begin =
                static_cast<std::int64_t>(static_cast<double>(end_ns - length) * place);
            PIPER_TRY(timePlace(file, {begin, begin + length}, read, window));
            if (length == end_ns) break;
        }
        out.push_back(window);
    }
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
    std::int64_t file_bytes = 0;  ///< of the run that windows are read of
    std::vector<Window> viewports, selections;

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
    out.file_bytes = static_cast<std::int64_t>(std::filesystem::file_size(file));
    // A process is forked for each measurement: what is free here would be copied with it.
    malloc_trim(0);
    PIPER_ASSIGN(out.viewports, timeWindows(file, last, readPicture));
    PIPER_ASSIGN(out.selections, timeWindows(file, last, readTotals));
    return out;
}

const Window& slowest(const std::vector<Window>& windows) {
    return *std::max_element(windows.begin(), windows.end(), [](const Window& a, const Window& b) {
        return a.cost.seconds < b.cost.seconds;
    });
}

Json windowsJson(const std::vector<Window>& windows) {
    Json out = Json::array();
    for (const Window& w : windows)
        out.push_back({{"window_ns", w.length_ns},
                       {"seconds", w.cost.seconds},
                       {"worst_seconds", w.worst_seconds},
                       {"cpu_seconds", w.cost.cpu_seconds},
                       {"page_faults", w.cost.page_faults},
                       {"process_seconds", w.process_seconds},
                       {"shown", w.cost.shown}});
    return out;
}

void printWindows(std::string_view what, const std::vector<Window>& windows) {
    fmt::print(
        "{}, each in a new process from opening the file to the answer (median at the slowest "
        "place, slowest try; with the process itself):\n",
        what);
    for (const Window& w : windows)
        fmt::print(
            "  {:>10.3f} ms of the run: {:6.1f} ms, {:6.1f} ms, {:5.1f} ms of CPU, {} page faults, "
            "{} shown; {:.1f} ms\n",
            static_cast<double>(w.length_ns) * 1e-6, 1e3 * w.cost.seconds, 1e3 * w.worst_seconds,
            1e3 * w.cost.cpu_seconds, w.cost.page_faults, w.cost.shown, 1e3 * w.process_seconds);
}

}  // namespace

Outcome benchStore(const BenchOptions& options, bool json) {
    PIPER_ASSIGN(const TemporaryDirectory directory, TemporaryDirectory::make());
    PIPER_ASSIGN(const StoreCosts costs, measureStore(options, directory.path()));
    if (json) {
        printJson({{"format_version", 1},
                   {"bench", "store"},
                   {"rows", costs.written.rows},
                   {"rows_per_cpu_second", costs.rowsPerSecond()},
                   {"finish_cpu_seconds", costs.written.finish_cpu_seconds},
                   {"bytes_per_row", costs.bytesPerRow()},
                   {"events", costs.events},
                   {"lanes", kRanks * kLanesOfRank},
                   {"file_bytes", costs.file_bytes},
                   {"slowest_viewport_seconds", slowest(costs.viewports).cost.seconds},
                   {"slowest_selection_seconds", slowest(costs.selections).cost.seconds},
                   {"viewports", windowsJson(costs.viewports)},
                   {"selections", windowsJson(costs.selections)}});
        return 0;
    }
    fmt::print("{} rows read back as recorded, windows and selections of them right\n",
               kCheckedRows);
    fmt::print(
        "recording: {:.2f} million rows a second of CPU, {:.1f} bytes a row; closing {:.2f} s\n",
        costs.rowsPerSecond() / 1e6, costs.bytesPerRow(), costs.written.finish_cpu_seconds);
    fmt::print("{} events on {} lanes in {:.0f} MB\n", costs.events, kRanks * kLanesOfRank,
               static_cast<double>(costs.file_bytes) * 1e-6);
    printWindows(fmt::format("pictures of {} pixels", kPixels), costs.viewports);
    printWindows("sums by name over all lanes", costs.selections);
    return 0;
}

}  // namespace piper::app
