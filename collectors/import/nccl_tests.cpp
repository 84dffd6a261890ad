// SPDX-License-Identifier: Apache-2.0
// The output of nccl-tests, also with tags of launchers before its lines or other lines between: a
// test begins with its version or settings line and ends with its average. A row is known by size,
// count and type and read from its right end: columns between differ between tests and versions.
#include <algorithm>
#include <limits>
#include <set>

#include "collectors/import/imported.h"
#include "collectors/import/json_cursor.h"
#include "collectors/import/text_lines.h"
#include "core/base/csv.h"
#include "core/run/time_range.h"

namespace piper {
namespace {

/// One half of a row: out of place or in place.
struct Timing {
    std::int64_t time_ns = 0;
    std::string_view time, algbw, busbw, wrong;
};

struct Best {
    double value = -1.0;
    std::string text;

    void take(std::string_view candidate) {
        const std::optional<double> number = numberIn(candidate);
        if (!number || *number <= value) return;
        value = *number;
        text = std::string(candidate);
    }
};

class NcclTest {
public:
    std::string version, name, gpu, average, bounds;
    std::set<std::string> ranks;
    std::int64_t rows = 0;

    bool row(std::string_view line, ImportCounters& counters);
    [[nodiscard]] bool empty() const { return rows == 0 && average.empty(); }
    [[nodiscard]] ImportedRun finish(std::string_view stem) &&;

private:
    void addEvent(const Timing& timing, std::int64_t bytes, std::int32_t track);

    std::int64_t m_least = 0, m_most = 0, m_wrong = 0, m_now_ns = 0;
    Best m_out, m_in;
    std::string m_time_at_most, m_algbw_at_most, m_busbw_at_most;
    std::vector<Event> m_events;
};

bool readTiming(std::span<const std::string_view> words, Timing& out) {
    out.time = words[0];
    out.algbw = words[1];
    out.busbw = words[2];
    out.wrong = words[3];
    return parseMicroseconds(out.time, out.time_ns) && out.time_ns >= 0 &&
           inTimeRange(out.time_ns) && numberIn(out.algbw) && numberIn(out.busbw);
}

void NcclTest::addEvent(const Timing& timing, std::int64_t bytes, std::int32_t track) {
    Event e;
    e.category = EventCategory::Other;
    e.lane = Lane::Dp;
    e.start_ns = m_now_ns;
    e.duration_ns = timing.time_ns;
    e.bytes = bytes;
    e.name = 0;
    e.track = track;
    e.step = static_cast<std::int32_t>(rows);
    m_events.push_back(e);
    m_now_ns += timing.time_ns;
}

/// "2026-02-03 10:11:12", which --report_timestamps puts at the end of each row.
bool isTimestamp(std::string_view day, std::string_view time) {
    return day.size() == 10 && day[4] == '-' && day[7] == '-' && time.size() == 8 &&
           time[2] == ':' && time[5] == ':';
}

bool isType(std::string_view word) {
    static constexpr std::string_view kTypes[] = {
        "int8",     "char",   "uint8",   "int32",    "int",     "uint32", "int64",
        "uint64",   "half",   "float16", "float",    "float32", "double", "float64",
        "bfloat16", "f8e4m3", "f8e5m2",  "fp8_e4m3", "fp8_e5m2"};
    return std::find(std::begin(kTypes), std::end(kTypes), word) != std::end(kTypes);
}

/// Words of a row: size, count, type, then at least four columns out of place and four in place.
constexpr std::size_t kLeastWords = 11;

/// A row from its size on, without the time it may end with; empty for any other line.
std::span<const std::string_view> rowOf(std::span<const std::string_view> words) {
    std::int64_t number = 0;
    for (std::size_t i = 0; i + 2 < words.size(); ++i) {
        if (!parseWholeNumber(words[i], number) || !parseWholeNumber(words[i + 1], number))
            continue;
        std::span<const std::string_view> row = words.subspan(i);
        if (isTimestamp(row[row.size() - 2], row.back())) row = row.first(row.size() - 2);
        // A type that is not known here has at least no number's form, and the row a bandwidth.
        const bool has_form = row.size() >= kLeastWords && !numberIn(row[2]) &&
                              numberIn(row[row.size() - 2]).has_value();
        if (isType(words[i + 2]) || has_form) return row;
    }
    return {};
}

bool NcclTest::row(std::string_view line, ImportCounters& counters) {
    const std::vector<std::string_view> all = wordsOf(line);
    const std::span<const std::string_view> words = rowOf(all);
    std::int64_t bytes = 0;
    if (words.empty() || !parseWholeNumber(words[0], bytes)) return false;
    Timing out, in;
    if (words.size() < kLeastWords || !readTiming(words.subspan(words.size() - 8, 4), out) ||
        !readTiming(words.subspan(words.size() - 4, 4), in) ||
        !inTimeRange(m_now_ns + out.time_ns) || !inTimeRange(m_now_ns + out.time_ns + in.time_ns)) {
        counters.add("malformed_row", ImportSeverity::DataLoss, 1, line);
        return true;
    }
    m_least = rows == 0 ? bytes : std::min(m_least, bytes);
    if (rows == 0 || bytes > m_most) {
        m_most = bytes;
        m_time_at_most = out.time;
        m_algbw_at_most = out.algbw;
        m_busbw_at_most = out.busbw;
    }
    m_out.take(out.busbw);
    m_in.take(in.busbw);
    for (const Timing* timing : {&out, &in}) {
        std::int64_t wrong = 0;
        if (parseWholeNumber(timing->wrong, wrong) &&
            __builtin_add_overflow(m_wrong, wrong, &m_wrong))
            m_wrong = std::numeric_limits<std::int64_t>::max();
    }
    addEvent(out, bytes, 0);
    addEvent(in, bytes, 1);
    ++rows;
    return true;
}

ImportedRun NcclTest::finish(std::string_view stem) && {
    if (name.empty()) name = "unknown";
    ImportedRun out;
    out.format = "nccl-tests";
    out.run.name = fmt::format("{} {}", stem, name);
    RankTimeline rank;
    rank.rank = RankId(0);
    rank.names = {name};
    rank.tracks = {{"out of place", "", "out of place"}, {"in place", "", "in place"}};
    rank.events = std::move(m_events);
    std::stable_sort(rank.events.begin(), rank.events.end(),
                     [](const Event& a, const Event& b) { return a.track < b.track; });
    out.run.ranks.push_back(std::move(rank));
    const auto note = [&](std::string_view key, std::string value) {
        out.run.notes[fmt::format("nccl_tests.{}", key)] = std::move(value);
    };
    note("version", version);
    note("test", name);
    note("ranks", fmt::format("{}", ranks.size()));
    note("gpu", gpu);
    note("rows", fmt::format("{}", rows));
    note("min_bytes", fmt::format("{}", m_least));
    note("max_bytes", fmt::format("{}", m_most));
    note("peak_busbw_oop", m_out.text);
    note("peak_busbw_ip", m_in.text);
    note("time_us_oop_at_max", m_time_at_most);
    note("algbw_oop_at_max", m_algbw_at_most);
    note("busbw_oop_at_max", m_busbw_at_most);
    note("wrong_total", fmt::format("{}", m_wrong));
    note("avg_busbw", average);
    note("oob", bounds);
    return out;
}

/// The text behind the colon of a line that has `label`.
bool after(std::string_view line, std::string_view label, std::string& out) {
    const std::size_t at = line.find(label);
    const std::size_t colon = at == std::string_view::npos ? at : line.find(':', at);
    if (colon == std::string_view::npos) return false;
    out = std::string(trimmed(line.substr(colon + 1)));
    return true;
}

/// "#  Rank  0 Group  0 Pid 1 on node-002 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3"
void readRank(std::string_view line, NcclTest& test) {
    const std::vector<std::string_view> words = wordsOf(line);
    if (words.size() < 6 || words[1] != "Rank") return;
    if (!test.ranks.insert(std::string(words[2])).second || !test.gpu.empty()) return;
    const std::size_t bracket = line.find(']');
    if (bracket != std::string_view::npos)
        test.gpu = std::string(trimmed(line.substr(bracket + 1)));
}

class NcclTestsReader {
public:
    explicit NcclTestsReader(std::string stem) : m_stem(std::move(stem)) {}

    void line(std::string_view line) {
        // Behind what a launcher puts before it.
        const std::size_t mark = line.find('#');
        if (mark == std::string_view::npos) {
            if (!m_test.row(line, m_counters)) readCommand(line);
            return;
        }
        const std::string_view text = trimmed(line.substr(mark));
        std::string value;
        if (text.find("nccl-tests version") != std::string_view::npos) {
            endTest();
            m_test.version = std::string(trimmed(text.substr(1)));
        } else if (after(text, "Collective test starting", value)) {
            if (!m_test.empty()) endTest();
            m_test.name = value;
        } else if (text.starts_with("# nThread")) {
            if (!m_test.empty()) endTest();
            if (m_test.name.empty()) m_test.name = m_command;
        } else if (after(text, "Out of bounds values", value)) {
            m_test.bounds = value;
        } else if (after(text, "Avg bus bandwidth", value)) {
            m_test.average = value;
        } else {
            readRank(text, m_test);
        }
    }

    std::vector<ImportedRun> finish() {
        endTest();
        if (!m_runs.empty()) m_runs.front().counters.merge(m_counters);
        return std::move(m_runs);
    }
    ImportCounters& counters() { return m_counters; }

private:
    /// Versions before 2.14 do not say which test runs; the command line before it may.
    void readCommand(std::string_view line) {
        static constexpr std::string_view kEnd = "_perf";
        for (const std::string_view word : wordsOf(line)) {
            const std::string_view program = word.substr(word.rfind('/') + 1);
            if (program.size() > kEnd.size() && program.ends_with(kEnd))
                m_command = std::string(program);
        }
    }

    void endTest() {
        const std::string version = m_test.version;
        if (!m_test.empty()) {
            if (m_test.average.empty())
                m_counters.add("test_without_average", ImportSeverity::Error, 1, m_test.name);
            m_runs.push_back(std::move(m_test).finish(m_stem));
        }
        m_test = {};
        m_test.version = version;
    }

    std::string m_stem, m_command;
    NcclTest m_test;
    ImportCounters m_counters;
    std::vector<ImportedRun> m_runs;
};

}  // namespace

Result<std::vector<ImportedRun>> importNcclTests(const std::filesystem::path& path) {
    NcclTestsReader reader(traceStem(path));
    PIPER_ASSIGN(const std::string fault,
                 eachLine(path, [&](std::int64_t, std::string_view line) { reader.line(line); }));
    if (!fault.empty()) reader.counters().add("source_damaged", ImportSeverity::Error, 1, fault);
    std::vector<ImportedRun> runs = reader.finish();
    if (runs.empty())
        return fail(ErrorCode::InvalidInput, "holds no test of nccl-tests").at(path.string());
    return runs;
}

}  // namespace piper
