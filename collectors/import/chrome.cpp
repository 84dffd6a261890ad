// SPDX-License-Identifier: Apache-2.0
// One pass over the text in constant memory: event by event while the document goes by. What other
// readers stumble over is read here: bare arrays, times in quotes, raw control characters in
// strings, a file that ends in the middle, an event in the middle that is broken.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "collectors/import/byte_source.h"
#include "collectors/import/chrome_event.h"
#include "collectors/import/imported.h"
#include "collectors/import/trace_builder.h"
#include "core/base/csv.h"
#include "core/base/json.h"
#include "core/run/time_range.h"

namespace piper {
namespace {

constexpr std::size_t kLongestExample = 160;
/// Of a usual event, to make room ahead.
constexpr std::uintmax_t kBytesOfEvent = 256;
constexpr std::int64_t kMostRanks = 1 << 30;
/// Values of the document beside its events that are kept, up to this length each.
constexpr std::size_t kLongestKept = std::size_t{1} << 20;
/// Ids that are texts are numbered from here, where no id that is a number lies.
constexpr std::int64_t kFirstTextId = std::int64_t{1} << 62;

class ChromeReader {
public:
    explicit ChromeReader(ByteSource& source) : m_source(source), m_window(source) {}

    Status read();
    void expect(std::size_t records) { m_builder.reserve(records); }
    [[nodiscard]] ImportedRun finish(const std::filesystem::path& path);

private:
    enum class Step { Next, Last, Broken };

    /// Runs `parse` on the window, with more text as long as it is incomplete.
    template <class Parse>
    bool attempt(Parse parse);
    Status readDocument();
    Status readMember(std::string_view key);
    bool skipLongValue();
    void readEvents(bool bare);
    Step readElement();
    void afterBroken();
    void note(std::string_view name, ImportSeverity severity, std::string_view example);

    void take(const ChromeEvent& e);
    [[nodiscard]] std::optional<Event> place(const ChromeEvent& e, EventCategory category);
    void takeComplete(const ChromeEvent& e);
    void takeMark(const ChromeEvent& e, EventCategory category);
    void takeMetadata(const ChromeEvent& e);
    void takeRange(const ChromeEvent& e);
    void takeAsync(const ChromeEvent& e);
    std::int64_t counterValue(const ChromeEvent& e);
    std::int32_t trackFor(const ChromeEvent& e, EventCategory category);
    std::string_view text(std::string_view raw) { return decodeJsonText(raw, m_scratch); }
    void setRank(const std::filesystem::path& path, ImportedRun& out);

    ByteSource& m_source;
    ByteWindow m_window;
    TraceBuilder m_builder;
    NameTable m_ids;                              ///< of arrows, where they are no numbers
    std::map<std::string, std::string> m_values;  ///< key -> JSON text, of the document
    std::string m_scratch, m_category_text, m_key;
    EventCategory m_category = EventCategory::Other;
    std::int64_t m_elements = 0;
    std::int64_t m_joined = 0;  ///< elements that only end a range another began
    bool m_found_events = false;
};

template <class Parse>
bool ChromeReader::attempt(Parse parse) {
    while (true) {
        JsonCursor in(m_window.begin(), m_window.end(), m_window.atEnd());
        const bool parsed = parse(in);
        if (parsed) {
            m_builder.counters().add("control_character", ImportSeverity::Info,
                                     in.controlCharacters());
            m_window.consumeTo(in.place());
            return true;
        }
        if (!in.incomplete() || m_window.atEnd() || m_window.full()) return false;
        m_window.refill();
    }
}

void ChromeReader::note(std::string_view name, ImportSeverity severity, std::string_view example) {
    ImportCounters& counters = m_builder.counters();
    if (counters.count(name) > 0) return counters.add(name, severity);
    std::string first = fmt::format("at byte {}", m_window.position());
    if (!example.empty()) first += fmt::format(": {}", example.substr(0, kLongestExample));
    counters.add(name, severity, 1, first);
}

Status ChromeReader::read() {
    char first = 0;
    (void)attempt([&](JsonCursor& in) { return (first = in.peek()) != 0; });
    if (first == 0 && m_source.fault().empty())
        return fail(ErrorCode::InvalidInput, "the file is empty");
    Status status;
    if (first == '[') {
        (void)attempt([](JsonCursor& in) { return in.take('['); });
        readEvents(true);
    } else if (first == '{') {
        status = readDocument();
    } else {
        status = fail(ErrorCode::InvalidInput, "is neither a JSON object nor an array");
    }
    if (!m_source.fault().empty())
        m_builder.counters().add("source_damaged", ImportSeverity::Error, 1, m_source.fault());
    if (status.ok() && !m_found_events)
        return fail(ErrorCode::InvalidInput, "holds no trace events (key \"traceEvents\"){}{}",
                    m_source.fault().empty() ? "" : ": ", m_source.fault());
    return m_elements > 0 || m_found_events ? Status() : status;
}

Status ChromeReader::readDocument() {
    (void)attempt([](JsonCursor& in) { return in.take('{'); });
    while (true) {
        if (attempt([](JsonCursor& in) { return in.take('}'); })) return {};
        std::string key;
        const bool has_key = attempt([&](JsonCursor& in) {
            std::string_view raw;
            if (!in.key(raw) || in.peek() == 0) return false;
            key = std::string(raw);
            return true;
        });
        if (!has_key) {
            note("truncated", ImportSeverity::Error, "the document ends before it is closed");
            return fail(ErrorCode::InvalidInput, "is no JSON document: no key at byte {}",
                        m_window.position());
        }
        PIPER_TRY(readMember(key));
        if (attempt([](JsonCursor& in) { return in.take('}'); })) return {};
        (void)attempt([](JsonCursor& in) { return in.take(','); });
    }
}

Status ChromeReader::readMember(std::string_view key) {
    if (key == "traceEvents" && attempt([](JsonCursor& in) { return in.take('['); })) {
        readEvents(false);
        return {};
    }
    const bool read = attempt([&](JsonCursor& in) {
        std::string_view raw;
        if (!in.raw(raw)) return false;
        if (raw.size() <= kLongestKept) m_values[std::string(key)] = std::string(raw);
        return true;
    });
    if (read || (m_window.full() && skipLongValue())) return {};
    note("truncated", ImportSeverity::Error, key);
    return fail(ErrorCode::InvalidInput, "is no JSON document: the value of \"{}\" at byte {}", key,
                m_window.position());
}

/// Passes over an object or array too long to be held, by its brackets. False when it does not end.
bool ChromeReader::skipLongValue() {
    std::int64_t depth = 0;
    bool in_text = false, escaped = false;
    while (true) {
        for (const char* at = m_window.begin(); at < m_window.end(); ++at) {
            if (in_text) {
                in_text = escaped || *at != '"';
                escaped = !escaped && *at == '\\';
                continue;
            }
            in_text = *at == '"';
            if (*at == '{' || *at == '[') ++depth;
            if ((*at == '}' || *at == ']') && --depth <= 0) {
                m_window.consumeTo(at + 1);
                return true;
            }
        }
        m_window.consumeTo(m_window.end());
        if (m_window.atEnd()) return false;
        m_window.refill();
    }
}

/// The array of events; the cursor stands behind its bracket.
void ChromeReader::readEvents(bool bare) {
    m_found_events = true;
    if (attempt([](JsonCursor& in) { return in.take(']'); })) return;
    while (true) {
        const Step step = readElement();
        if (step == Step::Broken) afterBroken();
        if (attempt([](JsonCursor& in) { return in.take(']'); })) return;
        const bool more = attempt([](JsonCursor& in) { return in.take(','); });
        // A writer may end the array with a comma.
        if (more && attempt([](JsonCursor& in) { return in.take(']'); })) return;
        char next = 0;
        (void)attempt([&](JsonCursor& in) { return (next = in.peek()) != 0; });
        if (next == 0) {
            // The bracket of a bare array may be left out, as programs that crash do.
            if (!bare && step != Step::Last)
                note("truncated", ImportSeverity::Error, "the array of events is not closed");
            return;
        }
        if (step == Step::Last) return;
        if (!more && next != '{') {
            note("malformed_event", ImportSeverity::DataLoss, "no comma between two events");
            afterBroken();
        }
    }
}

ChromeReader::Step ChromeReader::readElement() {
    ChromeEvent e;
    const bool parsed = attempt([&](JsonCursor& in) {
        e = {};
        // The views stay valid: nothing is read into the window before they are used.
        return readChromeEvent(in, e);
    });
    if (parsed) {
        ++m_elements;
        take(e);
        return Step::Next;
    }
    const std::string_view rest(m_window.begin(),
                                static_cast<std::size_t>(m_window.end() - m_window.begin()));
    JsonCursor probe(m_window.begin(), m_window.end(), true);
    ChromeEvent ignored;
    if (m_window.full()) {
        ++m_elements;
        note("long_event", ImportSeverity::DataLoss, rest);
        return Step::Broken;
    }
    if (!readChromeEvent(probe, ignored) && probe.incomplete()) {
        note("truncated", ImportSeverity::Error, "the last event is cut off");
        m_window.consumeTo(m_window.end());
        return Step::Last;
    }
    ++m_elements;
    note("malformed_event", ImportSeverity::DataLoss, rest);
    return Step::Broken;
}

/// True when the array of events ends here: nothing follows its bracket but other members of the
/// document, to its end. A bracket inside the arguments of a broken event has events behind it.
bool closesDocument(JsonCursor in) {
    if (!in.take(']')) return false;
    while (in.take(',')) {
        std::string_view key;
        if (!in.key(key) || !in.skip()) return false;
    }
    (void)in.take('}');
    return in.peek() == 0;
}

/// Goes on at the next event: behind the next "}" that a comma and "{" or the closing bracket
/// follow.
void ChromeReader::afterBroken() {
    while (true) {
        const char* at = m_window.begin();
        const char* end = m_window.end();
        for (; at < end; ++at) {
            if (*at != '}') continue;
            JsonCursor in(at + 1, end, m_window.atEnd());
            if (in.take(',') && in.peek() == '{') break;
            if (m_window.atEnd() && closesDocument({at + 1, end, true})) break;
        }
        if (at < end) return m_window.consumeTo(at + 1);
        if (m_window.atEnd()) return m_window.consumeTo(end);
        // Keep the tail: the pattern may lie across the border.
        m_window.consumeTo(std::max(m_window.begin(), end - 64));
        m_window.refill();
    }
}

void ChromeReader::take(const ChromeEvent& e) {
    // Some writers put an empty object first or last, to be done with commas.
    if (e.is_object && e.phase.empty() && e.name.empty() && e.time.empty() && e.category.empty() &&
        e.duration.empty() && e.process.empty() && e.thread.empty())
        return note("empty_element", ImportSeverity::Info, "");
    if (!e.is_object || e.phase.empty())
        return note("no_event", ImportSeverity::DataLoss, "an element without \"ph\"");
    switch (e.phase.front()) {
        case 'X':
            return takeComplete(e);
        case 'B':
        case 'E':
            return takeRange(e);
        case 'b':
        case 'e':
        case 'S':
        case 'F':
            return takeAsync(e);
        case 's':
            return takeMark(e, EventCategory::FlowStart);
        case 't':
            return takeMark(e, EventCategory::FlowStep);
        case 'f':
            return takeMark(e, EventCategory::FlowEnd);
        case 'C':
            return takeMark(e, EventCategory::Counter);
        case 'M':
            return takeMetadata(e);
        case 'i':
        case 'I':
        case 'n':
        case 'T':
        case 'p':
        case 'R':
            return takeMark(e, EventCategory::Instant);
        default:
            m_builder.counters().add(fmt::format("unknown_phase_{}", e.phase.substr(0, 8)),
                                     ImportSeverity::Info);
            return takeMark(e, EventCategory::Other);
    }
}

std::int32_t ChromeReader::trackFor(const ChromeEvent& e, EventCategory category) {
    if (!isDeviceWork(category)) return m_builder.track(e.process, e.thread);
    std::int64_t device = -1, stream = -1;
    if (!parseWholeNumber(e.device, device) && !parseWholeNumber(e.process, device)) device = 0;
    if (device < 0 || device > INT32_MAX) device = 0;
    if (!parseWholeNumber(e.stream, stream) && !parseWholeNumber(e.thread, stream)) stream = -1;
    return m_builder.track(e.process, e.thread, static_cast<std::int32_t>(device), stream);
}

std::optional<Event> ChromeReader::place(const ChromeEvent& e, EventCategory category) {
    Event out;
    const bool timed = parseMicroseconds(e.time, out.start_ns);
    if (category != EventCategory::Metadata && (!timed || !inTimeRange(out.start_ns))) {
        note("bad_timestamp", ImportSeverity::DataLoss, e.time.empty() ? "no time" : e.time);
        return std::nullopt;
    }
    if (category == EventCategory::Metadata) out.start_ns = 0;
    out.category = category;
    out.lane = isDeviceWork(category) || category == EventCategory::DeviceAnnotation ||
                       category == EventCategory::Synchronization
                   ? Lane::Stream
                   : Lane::Host;
    out.track = trackFor(e, category);
    out.name = m_builder.name(text(e.name));
    std::int64_t number = 0;
    if (parseWholeNumber(e.correlation, number)) out.correlation = number;
    if (parseWholeNumber(e.external_id, number) && number >= 0 && number <= INT32_MAX)
        out.operation = static_cast<std::int32_t>(number);
    if (parseWholeNumber(e.bytes, number))
        out.bytes = number;
    else if (parseWholeNumber(e.elements, number) && number >= 0 && number < kLargestTime / 8)
        out.bytes = number * dtypeBytes(e.dtype);
    return out;
}

void ChromeReader::takeComplete(const ChromeEvent& e) {
    if (e.category != m_category_text) {
        m_category_text = std::string(e.category);
        m_category = chromeCategory(text(e.category));
    }
    std::optional<Event> event = place(e, m_category);
    if (!event) return;
    if (e.duration.empty()) {
        note("no_duration", ImportSeverity::Info, e.name);
    } else if (!parseMicroseconds(e.duration, event->duration_ns) ||
               !inTimeRange(event->duration_ns)) {
        event->duration_ns = 0;
        note("bad_duration", ImportSeverity::DataLoss, e.duration);
    }
    if (event->duration_ns < 0) note("negative_duration", ImportSeverity::Info, e.name);
    m_builder.add(*event);
}

/// The nearest whole number; what is not one is counted.
std::int64_t ChromeReader::counterValue(const ChromeEvent& e) {
    const std::string_view value = e.value.empty() ? e.first_arg : e.value;
    std::int64_t whole = 0;
    if (parseWholeNumber(value, whole)) return whole;
    const std::optional<double> number = numberIn(value);
    if (!number || std::abs(*number) > static_cast<double>(kLargestTime)) {
        note("counter_without_value", ImportSeverity::DataLoss, value.empty() ? e.name : value);
        return 0;
    }
    note("counter_rounded", ImportSeverity::Info, value);
    return std::llround(*number);
}

void ChromeReader::takeMark(const ChromeEvent& e, EventCategory category) {
    std::optional<Event> event = place(e, category);
    if (!event) return;
    std::int64_t id = 0;
    if (parseWholeNumber(e.id, id)) {
        event->correlation = id;
    } else if (!e.id.empty()) {
        event->correlation = kFirstTextId + m_ids.intern(text(e.id));
    }
    if (category == EventCategory::Counter) event->bytes = counterValue(e);
    m_builder.add(*event);
}

void ChromeReader::takeMetadata(const ChromeEvent& e) {
    const std::string value(text(e.text));
    if (e.name == "process_name")
        m_builder.nameProcess(e.process, value);
    else if (e.name == "thread_name")
        m_builder.nameThread(e.process, e.thread, value);
    std::optional<Event> event = place(e, EventCategory::Metadata);
    if (!event) return;
    if (!value.empty()) event->correlation = m_builder.name(value);
    m_builder.add(*event);
}

void ChromeReader::takeRange(const ChromeEvent& e) {
    if (e.phase.front() == 'B') {
        if (const std::optional<Event> event = place(e, chromeCategory(text(e.category))))
            m_builder.open(e.process, e.thread, *event);
        return;
    }
    std::int64_t end = 0;
    if (!parseMicroseconds(e.time, end) || !inTimeRange(end))
        return note("bad_timestamp", ImportSeverity::DataLoss, e.time);
    if (m_builder.close(e.process, e.thread, end)) {
        ++m_joined;
        return;
    }
    note("end_without_begin", ImportSeverity::Info, e.name);
    takeMark(e, EventCategory::Other);
}

/// Ranges that are joined by category and id rather than by thread: each id a track of its own.
void ChromeReader::takeAsync(const ChromeEvent& e) {
    m_key = fmt::format("async {} {}", e.category, e.id.empty() ? e.name : e.id);
    ChromeEvent own = e;
    own.thread = m_key;
    own.phase = e.phase == "b" || e.phase == "S" ? "B" : "E";
    takeRange(own);
}

/// The first whole number of an object's member; -1 without it.
std::int64_t memberOf(const std::map<std::string, std::string>& values, const char* object,
                      const char* member) {
    const auto found = values.find(object);
    if (found == values.end()) return -1;
    const Result<Json> json = parseJson(found->second, object);
    if (!json.ok() || !json->is_object() || !json->contains(member)) return -1;
    const Json& value = json->at(member);
    std::int64_t number = -1;
    if (value.is_number_integer()) return value.get<std::int64_t>();
    if (value.is_string() && parseWholeNumber(value.get<std::string>(), number)) return number;
    return -1;
}

/// N of "rank-N", "rank_N", "rankN" or "workerN" in a file's name; -1 without.
std::int64_t rankInName(std::string name) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const std::string_view word : {"rank", "worker"}) {
        for (std::size_t at = name.find(word); at != std::string::npos;
             at = name.find(word, at + 1)) {
            std::size_t digit = at + word.size();
            if (digit < name.size() && (name[digit] == '-' || name[digit] == '_')) ++digit;
            std::size_t end = digit;
            while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
            std::int64_t number = -1;
            if (end > digit && end - digit < 8 &&
                parseWholeNumber(std::string_view(name).substr(digit, end - digit), number))
                return number;
        }
    }
    return -1;
}

void ChromeReader::setRank(const std::filesystem::path& path, ImportedRun& out) {
    RankTimeline& rank = out.run.ranks.front();
    std::int64_t number = memberOf(m_values, "distributedInfo", "rank");
    if (number < 0 || number > kMostRanks) {
        number = rankInName(path.filename().string());
        out.counters.add("rank_not_in_file", ImportSeverity::Info, 1,
                         number < 0 ? "taken as rank 0" : "taken from the file's name");
        number = std::max<std::int64_t>(number, 0);
    }
    rank.rank = RankId(static_cast<std::int32_t>(number));
    out.world = std::max<std::int64_t>(0, memberOf(m_values, "distributedInfo", "world_size"));
}

ImportedRun ChromeReader::finish(const std::filesystem::path& path) {
    TraceBuilder::Built built = m_builder.finish();
    ImportedRun out;
    out.format = "chrome";
    out.counters = std::move(built.counters);
    out.origin_ns = built.origin_ns;
    if (const auto base = m_values.find("baseTimeNanoseconds"); base != m_values.end()) {
        std::int64_t base_ns = 0;
        if (parseWholeNumber(base->second, base_ns) && inTimeRange(base_ns) &&
            inTimeRange(out.origin_ns + base_ns))
            out.origin_ns += base_ns;
        else
            out.counters.add("bad_base_time", ImportSeverity::DataLoss, 1, base->second);
    }
    out.run.ranks.push_back(std::move(built.rank));
    RankTimeline& rank = out.run.ranks.front();
    rank.counters["trace_events"] = fmt::format("{}", m_elements);
    setRank(path, out);
    if (m_joined > 0) out.counters.add("range_end_joined", ImportSeverity::Info, m_joined);
    const bool work = std::any_of(rank.events.begin(), rank.events.end(),
                                  [](const Event& e) { return isDeviceWork(e.category); });
    if (!work) out.counters.add("no_device_work", ImportSeverity::Info, 1, "no GPU kernel in it");
    for (const char* key : {"distributedInfo", "traceName", "trace_id", "host_name"})
        if (const auto found = m_values.find(key); found != m_values.end())
            out.run.notes[key] = found->second;
    return out;
}

}  // namespace

Result<ImportedRun> importChrome(const std::filesystem::path& path) {
    PIPER_ASSIGN(ByteSource source, ByteSource::open(path));
    ChromeReader reader(source);
    std::error_code unknown;
    if (const std::uintmax_t bytes = std::filesystem::file_size(path, unknown); !unknown)
        reader.expect(static_cast<std::size_t>(bytes / kBytesOfEvent));
    if (Status read = reader.read(); !read.ok()) return std::move(read).error().at(path.string());
    return reader.finish(path);
}

}  // namespace piper
