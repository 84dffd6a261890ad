// SPDX-License-Identifier: Apache-2.0
// CPU time and memory of importing a Kineto file, against Python's json.load of the same file.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "app/files/files.h"
#include "app/piperctl/bench.h"
#include "app/piperctl/child_process.h"
#include "collectors/import/byte_source.h"
#include "collectors/import/import.h"
#include "collectors/import/json_cursor.h"
#include "core/base/json.h"
#include "core/base/sample.h"
#include "core/run/device_statistics.h"

namespace piper::app {
namespace {

constexpr double kBytesPerMb = 1e6;
/// Between one repetition and the next, so that they do not overlap.
constexpr std::int64_t kPauseNs = 1'000'000;

/// What must come back from a file.
struct Contents {
    std::int64_t events = 0, kernels = 0, kernel_sum_ns = 0;
    bool operator==(const Contents&) const = default;
};

/// The events of one sample, as they stand between the brackets of their array.
struct Sample {
    std::string text;
    std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
    std::int64_t last_ns = std::numeric_limits<std::int64_t>::min();
};

Result<std::string> wholeText(const std::string& path) {
    PIPER_ASSIGN(ByteSource source, ByteSource::open(path));
    std::string text, block(std::size_t{1} << 20, '\0');
    while (const std::size_t got = source.read(block.data(), block.size()))
        text.append(block, 0, got);
    if (!source.fault().empty())
        return fail(ErrorCode::InvalidInput, "{}", source.fault()).at(path);
    text.append(ByteWindow::kSlack, ' ');
    return text;
}

/// Calls `take` with the begin, the end and the value of every "ts" of a text.
template <class Take>
void eachTime(std::string_view text, Take take) {
    static constexpr std::string_view kKey = "\"ts\":";
    for (std::size_t at = text.find(kKey); at != std::string_view::npos;
         at = text.find(kKey, at + 1)) {
        const std::size_t begin = text.find_first_not_of(" \"", at + kKey.size());
        const std::size_t end = text.find_first_not_of("+-.0123456789eE", begin);
        std::int64_t ns = 0;
        if (end != std::string_view::npos && parseMicroseconds(text.substr(begin, end - begin), ns))
            take(begin, end, ns);
    }
}

Result<Sample> readSample(const std::string& path) {
    PIPER_ASSIGN(const std::string text, wholeText(path));
    JsonCursor in(text.data(), text.data() + text.size(), true);
    std::string_view events, key;
    bool found = in.peek() == '[' ? in.raw(events) : false;
    if (!found && in.take('{'))
        while (!found && in.key(key)) {
            std::string_view value;
            if (!in.raw(value)) break;
            found = key == "traceEvents";
            if (found) events = value;
            if (!in.take(',')) break;
        }
    if (!found || events.size() < 3)
        return fail(ErrorCode::InvalidInput, "holds no whole array of trace events").at(path);
    Sample out;
    out.text = std::string(events.substr(1, events.size() - 2));
    while (!out.text.empty() && (std::isspace(static_cast<unsigned char>(out.text.back())) != 0 ||
                                 out.text.back() == ','))
        out.text.pop_back();
    eachTime(out.text, [&](std::size_t, std::size_t, std::int64_t ns) {
        // Metadata often has time 0.
        if (ns == 0) return;
        out.first_ns = std::min(out.first_ns, ns);
        out.last_ns = std::max(out.last_ns, ns);
    });
    if (out.last_ns < out.first_ns)
        return fail(ErrorCode::InvalidInput, "holds no event with a time").at(path);
    return out;
}

/// The sample once more, begun at a moment.
void appendMoved(const Sample& sample, std::int64_t begin_ns, std::string& out) {
    std::size_t done = 0;
    eachTime(sample.text, [&](std::size_t begin, std::size_t end, std::int64_t ns) {
        const std::int64_t moved = ns == 0 ? 0 : ns - sample.first_ns + begin_ns;
        out.append(sample.text, done, begin - done);
        out += fmt::format("{}.{:03}", moved / 1000, moved % 1000);
        done = end;
    });
    out.append(sample.text, done);
}

/// Samples one after the other, again and again, until the file has the wanted size; how often each
/// of them stands in it.
Result<std::vector<std::int64_t>> writeTrace(const std::vector<Sample>& samples, double megabytes,
                                             const std::filesystem::path& path) {
    std::ofstream file(path, std::ios::binary);
    std::vector<std::int64_t> times(samples.size(), 0);
    file << "{\"schemaVersion\": 1, \"traceEvents\": [\n";
    std::int64_t now = kPauseNs;
    double written = 0.0;
    for (std::size_t i = 0; written < megabytes * kBytesPerMb && file; ++i) {
        const Sample& sample = samples[i % samples.size()];
        std::string text = i == 0 ? "" : ",\n";
        appendMoved(sample, now, text);
        file << text;
        written += static_cast<double>(text.size());
        now += sample.last_ns - sample.first_ns + kPauseNs;
        ++times[i % samples.size()];
    }
    file << "\n]}\n";
    file.close();
    if (!file) return fail(ErrorCode::Io, "writing failed; is the disk full?").at(path.string());
    return times;
}

Result<Contents> contentsOf(Workspace& workspace) {
    Contents out;
    PIPER_ASSIGN(const std::vector<RunSummary> runs, workspace.runs());
    for (const RunSummary& summary : runs) {
        PIPER_ASSIGN(const Run run, workspace.readHeader(summary.name));
        DeviceAccumulator sum(CommunicationRule::standard());
        for (const RankTimeline& rank : run.ranks) {
            sum.beginRank(rank);
            PIPER_TRY(workspace.visitEvents(summary.name, rank.rank,
                                            [&](std::span<const Event> e) { sum.add(e); }));
        }
        const DeviceStatistics statistics = sum.finish();
        out.events += statistics.events;
        out.kernels += statistics.kernels;
        out.kernel_sum_ns += statistics.kernel_sum_ns;
    }
    return out;
}

Result<Contents> importInto(const std::filesystem::path& trace, const std::filesystem::path& into) {
    PIPER_ASSIGN(Workspace workspace, Workspace::create(into));
    PIPER_TRY(importTraces({trace}, workspace));
    PIPER_ASSIGN(const Contents contents, contentsOf(workspace));
    PIPER_TRY(workspace.close());
    return contents;
}

/// The contents of each sample, imported alone, times how often it stands in the file.
Result<Contents> expectedContents(const std::vector<Sample>& samples,
                                  const std::vector<std::int64_t>& times,
                                  const std::filesystem::path& directory) {
    Contents out;
    for (std::size_t i = 0; i < samples.size(); ++i) {
        const std::filesystem::path one = directory / "one.json", into = directory / "one.piper";
        std::ofstream(one, std::ios::binary) << "[" << samples[i].text << "]";
        PIPER_ASSIGN(const Contents contents, importInto(one, into));
        out.events += times[i] * contents.events;
        out.kernels += times[i] * contents.kernels;
        out.kernel_sum_ns += times[i] * contents.kernel_sum_ns;
        std::filesystem::remove(into);
    }
    return out;
}

/// CPU times of repetitions of one thing.
struct Costs {
    std::vector<double> cpu_seconds;
    std::int64_t peak_bytes = 0;

    void add(const ProcessCost& cost) {
        cpu_seconds.push_back(cost.cpu_seconds);
        peak_bytes = std::max(peak_bytes, cost.peak_bytes);
    }
    [[nodiscard]] double middle() const { return median(cpu_seconds); }
    /// How far repetitions lie apart: the middle half of them over the median.
    [[nodiscard]] double noise() const {
        return (quantile(cpu_seconds, 0.75) - quantile(cpu_seconds, 0.25)) / middle();
    }
};

struct ImportCosts {
    Costs own, python;
    std::vector<double> ratios;  ///< python's over ours, of each pair
    double megabytes = 0.0, workspace_megabytes = 0.0;
    Contents contents;
};

/// Imports the file in a process that has read nothing yet: its peak is that of the import alone.
Result<ProcessCost> importOnce(const std::filesystem::path& trace,
                               const std::filesystem::path& into, const Contents& expected,
                               Contents& contents) {
    PIPER_ASSIGN(const ProcessCost cost,
                 costOf(std::vector<std::string>{"/proc/self/exe", "import", trace.string(), "-o",
                                                 into.string()}));
    PIPER_ASSIGN(Workspace workspace, Workspace::open(into));
    PIPER_ASSIGN(contents, contentsOf(workspace));
    // 1: a sample is damaged, which its contents show as well.
    if (cost.exit_status > 1 || contents != expected)
        return fail(ErrorCode::External,
                    "the import is wrong: {} events, {} kernels of {} ns in the workspace, {}, {} "
                    "and {} ns in the file",
                    contents.events, contents.kernels, contents.kernel_sum_ns, expected.events,
                    expected.kernels, expected.kernel_sum_ns);
    return cost;
}

Result<ImportCosts> measureImport(const BenchOptions& options,
                                  const std::filesystem::path& directory) {
    std::vector<Sample> samples;
    for (const std::string& path : options.traces) {
        PIPER_ASSIGN(Sample sample, readSample(path));
        samples.push_back(std::move(sample));
    }
    if (samples.empty())
        return fail(ErrorCode::InvalidInput,
                    "bench import takes --traces: Kineto files to make the big one from");
    const std::filesystem::path trace = directory / "trace.json", into = directory / "w.piper";
    PIPER_ASSIGN(const std::vector<std::int64_t> times,
                 writeTrace(samples, options.megabytes, trace));
    PIPER_ASSIGN(const Contents expected, expectedContents(samples, times, directory));
    samples.clear();
    ImportCosts out;
    out.megabytes = static_cast<double>(std::filesystem::file_size(trace)) / kBytesPerMb;
    for (std::int64_t pair = 0; pair < options.pairs; ++pair) {
        PIPER_ASSIGN(const ProcessCost own, importOnce(trace, into, expected, out.contents));
        out.own.add(own);
        out.workspace_megabytes =
            static_cast<double>(std::filesystem::file_size(into)) / kBytesPerMb;
        std::filesystem::remove(into);
        const Result<ProcessCost> python = costOf(std::vector<std::string>{
            "python3", "-c", "import json, sys; json.load(open(sys.argv[1]))", trace.string()});
        if (!python.ok() || python->exit_status != 0) continue;
        out.python.add(*python);
        out.ratios.push_back(python->cpu_seconds / own.cpu_seconds);
    }
    return out;
}

Json documentOf(const Costs& costs) {
    return {{"cpu_seconds", costs.cpu_seconds},
            {"median_cpu_seconds", costs.middle()},
            {"noise", costs.noise()},
            {"peak_bytes", costs.peak_bytes}};
}

Json documentOf(const ImportCosts& costs) {
    Json out = {{"format_version", 1},
                {"bench", "import"},
                {"file_bytes", costs.megabytes * kBytesPerMb},
                {"workspace_bytes", costs.workspace_megabytes * kBytesPerMb},
                {"events", costs.contents.events},
                {"kernels", costs.contents.kernels},
                {"pairs", costs.own.cpu_seconds.size()},
                {"import", documentOf(costs.own)},
                {"peak_per_file_byte",
                 static_cast<double>(costs.own.peak_bytes) / (costs.megabytes * kBytesPerMb)}};
    const bool compared = !costs.ratios.empty();
    out["python"] = compared ? documentOf(costs.python) : Json();
    out["times_python"] = costs.ratios;
    out["median_times_python"] = compared ? Json(median(costs.ratios)) : Json();
    return out;
}

}  // namespace

Outcome benchImport(const BenchOptions& options, bool json) {
    PIPER_ASSIGN(const TemporaryDirectory directory, TemporaryDirectory::make());
    PIPER_ASSIGN(const ImportCosts costs, measureImport(options, directory.path()));
    if (json) {
        printJson(documentOf(costs));
        return 0;
    }
    fmt::print("{:.0f} MB, {} events, {} kernels: contents right\n", costs.megabytes,
               costs.contents.events, costs.contents.kernels);
    fmt::print(
        "import: {:.2f} s CPU (median of {}, noise {:.1f} %; {:.0f} MB/s), peak {:.0f} MB, {:.2f} "
        "of the file, workspace file {:.1f} MB\n",
        costs.own.middle(), costs.own.cpu_seconds.size(), 100.0 * costs.own.noise(),
        costs.megabytes / costs.own.middle(),
        static_cast<double>(costs.own.peak_bytes) / kBytesPerMb,
        static_cast<double>(costs.own.peak_bytes) / (costs.megabytes * kBytesPerMb),
        costs.workspace_megabytes);
    if (costs.ratios.empty())
        fmt::print("python3 is not there to compare with\n");
    else
        fmt::print(
            "python3 json.load: {:.2f} s CPU (noise {:.1f} %), peak {:.0f} MB; as often as long in "
            "{} interleaved pairs: {:.2f} ({:.2f} to {:.2f})\n",
            costs.python.middle(), 100.0 * costs.python.noise(),
            static_cast<double>(costs.python.peak_bytes) / kBytesPerMb, costs.ratios.size(),
            median(costs.ratios), quantile(costs.ratios, 0.0), quantile(costs.ratios, 1.0));
    return 0;
}

}  // namespace piper::app
