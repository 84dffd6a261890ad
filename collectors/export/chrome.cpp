// SPDX-License-Identifier: Apache-2.0
#include "collectors/export/chrome.h"

#include <ostream>

#include "collectors/export/event_text.h"
#include "collectors/export/file_output.h"
#include "core/base/json.h"
#include "core/run/rank_clock.h"

namespace piper {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;

/// Microseconds with three decimals, exact for every nanosecond.
std::string micros(std::int64_t ns) {
    const bool negative = ns < 0;
    const std::uint64_t size =
        negative ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
    return fmt::format("{}{}.{:03}", negative ? "-" : "", size / 1000, size % 1000);
}

std::string jsonText(std::string_view text) {
    return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Writes the array of events, separated and buffered.
class TraceWriter {
public:
    explicit TraceWriter(std::ostream& out) : m_out(out) {}

    void add(const std::string& event) {
        m_buffer += m_first ? "\n" : ",\n";
        m_buffer += event;
        m_first = false;
        if (m_buffer.size() >= kBufferBytes) flush();
    }
    void text(std::string_view text) { m_buffer += text; }
    Status finish() {
        flush();
        m_out.flush();
        if (!m_out) return fail(ErrorCode::Io, "writing failed; is the disk full?");
        return {};
    }
    [[nodiscard]] bool failed() const { return !m_out; }

private:
    void flush() {
        m_out.write(m_buffer.data(), static_cast<std::streamsize>(m_buffer.size()));
        m_buffer.clear();
    }

    std::ostream& m_out;
    std::string m_buffer;
    bool m_first = true;
};

void addNames(TraceWriter& writer, const RankTimeline& rank, const ExportRows& rows) {
    const int pid = rank.rank.value;
    const auto meta = [&](std::string_view what, int tid, std::string_view key,
                          const std::string& value) {
        writer.add(fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"{}":{}}}}})",
                               pid, tid, what, key, value));
    };
    std::string name = fmt::format("rank {}", pid);
    if (rank.stage.valid()) name += fmt::format(" (stage {})", rank.stage.value);
    if (!rank.host.empty()) name += " " + rank.host;
    meta("process_name", 0, "name", jsonText(name));
    meta("process_sort_index", 0, "sort_index", std::to_string(pid));
    for (const ExportRow& row : rows.all()) {
        meta("thread_name", row.id, "name", jsonText(row.name));
        meta("thread_sort_index", row.id, "sort_index", std::to_string(row.id));
    }
}

/// The members of "args" that are there.
std::string argumentText(const Event& e, const RankTimeline& rank) {
    std::string out;
    for (const EventArgument& argument : argumentsOf(e, rank)) {
        if (!out.empty()) out += ",";
        if (const auto* whole = std::get_if<std::int64_t>(&argument.value))
            out += fmt::format(R"("{}":{})", argument.name, *whole);
        else if (const auto* real = std::get_if<double>(&argument.value))
            out += fmt::format(R"("{}":{})", argument.name, *real);
        else
            out += fmt::format(R"("{}":"{}")", argument.name,
                               std::get<std::string_view>(argument.value));
    }
    return out;
}

/// What distinguishes a record without a length: its letter and the members it needs. Readers join
/// arrows by id alone, wherever they are: `prefix` keeps ranks apart.
std::string markText(const Event& e, const std::string& prefix) {
    const auto id = [&] {
        return prefix.empty() ? std::to_string(e.correlation)
                              : fmt::format("\"{}{}\"", prefix, e.correlation);
    };
    switch (e.category) {
        case EventCategory::FlowStart:
            return fmt::format(R"("ph":"s","id":{})", id());
        case EventCategory::FlowStep:
            return fmt::format(R"("ph":"t","id":{})", id());
        case EventCategory::FlowEnd:
            return fmt::format(R"("ph":"f","bp":"e","id":{})", id());
        default:
            return R"("ph":"i","s":"t")";
    }
}

std::string eventText(const Event& e, const RankTimeline& rank, const ExportRows& rows,
                      const RankClock& clock, const std::string& prefix) {
    const std::string place = fmt::format(R"("pid":{},"tid":{},"ts":{})", rank.rank.value,
                                          rows.of(e).id, micros(clock.toCommon(e.start_ns)));
    const std::string name = jsonText(nameOf(e, rank));
    if (e.category == EventCategory::Counter)
        return fmt::format(R"({{"ph":"C",{},"name":{},"args":{{"value":{}}}}})", place, name,
                           e.bytes);
    if (isMark(e.category))
        return fmt::format(R"({{{},{},"name":{},"cat":"{}"}})", markText(e, prefix), place, name,
                           categoryOf(e));
    return fmt::format(R"({{"ph":"X",{},"dur":{},"name":{},"cat":"{}","args":{{{}}}}})", place,
                       micros(e.duration_ns), name, categoryOf(e), argumentText(e, rank));
}

std::string memoryText(const MemorySample& m, const RankTimeline& rank, const RankClock& clock) {
    return fmt::format(R"({{"ph":"C","pid":{},"ts":{},"name":"memory {}","args":{{"bytes":{}}}}})",
                       rank.rank.value, micros(clock.toCommon(m.time_ns)), toText(m.term), m.bytes);
}

}  // namespace

Status writeChromeTrace(const Run& run, std::ostream& out) {
    TraceWriter writer(out);
    writer.text(R"({"displayTimeUnit":"ns","otherData":{"run":)" + jsonText(run.name) +
                R"(,"kind":")" + std::string(toText(run.kind)) + R"("},"traceEvents":[)");
    for (const RankTimeline& rank : run.ranks) {
        const ExportRows rows(rank);
        const RankClock clock(rank);
        addNames(writer, rank, rows);
        const std::string prefix =
            run.ranks.size() > 1 ? fmt::format("rank {}: ", rank.rank.value) : "";
        for (const Event& e : rank.events) {
            // Names of processes and threads are written above.
            if (e.category == EventCategory::Metadata) continue;
            writer.add(eventText(e, rank, rows, clock, prefix));
            if (writer.failed()) return writer.finish();
        }
        for (const MemorySample& m : rank.memory) writer.add(memoryText(m, rank, clock));
    }
    writer.text("\n]}\n");
    return writer.finish();
}

Status exportChromeTrace(const Run& run, const std::filesystem::path& path) {
    return writeFile(path, [&](std::ostream& out) { return writeChromeTrace(run, out); });
}

}  // namespace piper
