// SPDX-License-Identifier: Apache-2.0
// The output of nccl-tests, also with mpirun's tags or other lines between: a test begins with its
// version or settings line and ends with its average; rows are read from their right end, for the
// columns on the left differ between tests and versions.
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
    std::string version, name = "unknown", gpu, average, bounds;
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

bool NcclTest::row(std::string_view line, ImportCounters& counters) {
    const std::vector<std::string_view> words = wordsOf(line);
    std::int64_t bytes = 0;
    // size, count, type, [redop, root,] then four columns out of place and four in place
    if (words.size() < 11 || !parseWholeNumber(words[0], bytes)) return false;
    const std::span<const std::string_view> all(words);
    Timing out, in;
    if (!readTiming(all.subspan(words.size() - 8, 4), out) ||
        !readTiming(all.subspan(words.size() - 4, 4), in) || !inTimeRange(m_now_ns + out.time_ns) ||
        !inTimeRange(m_now_ns + out.time_ns + in.time_ns)) {
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
        const std::string_view text = trimmed(line);
        if (!text.starts_with('#')) {
            (void)m_test.row(text, m_counters);
            return;
        }
        std::string value;
        if (text.find("nccl-tests version") != std::string_view::npos) {
            endTest();
            m_test.version = std::string(trimmed(text.substr(1)));
        } else if (after(text, "Collective test starting", value)) {
            if (!m_test.empty()) endTest();
            m_test.name = value;
        } else if (text.find("# nThread") == 0) {
            if (!m_test.empty()) endTest();
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

    std::string m_stem;
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
