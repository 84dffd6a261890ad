// SPDX-License-Identifier: Apache-2.0
#include "collectors/export/chrome.h"

#include <cmath>
#include <ostream>

#include "collectors/export/file_output.h"
#include "core/base/json.h"

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

void addNames(TraceWriter& writer, const RankTimeline& rank) {
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
    std::array<bool, static_cast<std::size_t>(Lane::Stream) + 1> used{};
    for (const Event& e : rank.events) used[static_cast<std::size_t>(e.lane)] = true;
    for (const EnumName<Lane>& lane : enumNames<Lane>()) {
        const int tid = static_cast<int>(lane.value);
        if (!used[static_cast<std::size_t>(tid)]) continue;
        meta("thread_name", tid, "name", jsonText(lane.name));
        meta("thread_sort_index", tid, "sort_index", std::to_string(tid));
    }
}

/// "attention forward"; one word where phase and kind share it.
std::string nameOf(const Event& e) {
    const std::string_view phase = toText(e.phase), kind = toText(e.kind);
    return phase == kind ? std::string(phase) : fmt::format("{} {}", phase, kind);
}

std::string eventText(const Event& e, const RankTimeline& rank) {
    std::string args = fmt::format(R"("step":{},"pass":"{}","pipeline_phase":"{}")", e.step,
                                   toText(e.pass), toText(e.pipeline_phase));
    const auto number = [&](std::string_view name, std::int64_t value, bool present) {
        if (present) args += fmt::format(R"(,"{}":{})", name, value);
    };
    number("layer", e.layer.value, e.layer.valid());
    number("micro_batch", e.micro_batch.value, e.micro_batch.valid());
    number("chunk", e.chunk.value, e.chunk.valid());
    number("model_chunk", e.model_chunk.value, e.model_chunk.valid());
    number("operation", e.operation, e.operation >= 0);
    number("bytes", e.bytes, e.bytes != 0);
    number("cpu_ns", e.cpu_ns, e.cpu_ns >= 0);
    if (e.flops != 0.0 && std::isfinite(e.flops)) args += fmt::format(R"(,"flops":{})", e.flops);
    return fmt::format(
        R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":"{}","cat":"{}","args":{{{}}}}})",
        rank.rank.value, static_cast<int>(e.lane), micros(e.start_ns + rank.offset_ns),
        micros(e.duration_ns), nameOf(e), toText(e.phase), args);
}

std::string memoryText(const MemorySample& m, const RankTimeline& rank) {
    return fmt::format(R"({{"ph":"C","pid":{},"ts":{},"name":"memory {}","args":{{"bytes":{}}}}})",
                       rank.rank.value, micros(m.time_ns + rank.offset_ns), toText(m.term),
                       m.bytes);
}

}  // namespace

Status writeChromeTrace(const Run& run, std::ostream& out) {
    TraceWriter writer(out);
    writer.text(R"({"displayTimeUnit":"ns","otherData":{"run":)" + jsonText(run.name) +
                R"(,"kind":")" + std::string(toText(run.kind)) + R"("},"traceEvents":[)");
    for (const RankTimeline& rank : run.ranks) {
        addNames(writer, rank);
        for (const Event& e : rank.events) {
            writer.add(eventText(e, rank));
            if (writer.failed()) return writer.finish();
        }
        for (const MemorySample& m : rank.memory) writer.add(memoryText(m, rank));
    }
    writer.text("\n]}\n");
    return writer.finish();
}

Status exportChromeTrace(const Run& run, const std::filesystem::path& path) {
    return writeFile(path, [&](std::ostream& out) { return writeChromeTrace(run, out); });
}

}  // namespace piper
