// SPDX-License-Identifier: Apache-2.0
#include "collectors/store/chunks.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace piper {
namespace {

enum ColumnForm : char { Constant = 0, Deltas = 1, Raw = 2 };

void putVarint(std::string& out, std::uint64_t value) {
    while (value >= 0x80) {
        out.push_back(static_cast<char>((value & 0x7f) | 0x80));
        value >>= 7;
    }
    out.push_back(static_cast<char>(value));
}

std::uint64_t zigzag(std::uint64_t difference) {
    return (difference << 1) ^ (0 - (difference >> 63));
}

std::uint64_t unzigzag(std::uint64_t code) {
    return (code >> 1) ^ (0 - (code & 1));
}

void putColumn(std::string& out, const std::vector<std::int64_t>& values) {
    bool constant = true;
    for (std::int64_t v : values) constant = constant && v == values.front();
    out.push_back(constant ? Constant : Deltas);
    std::uint64_t last = 0;
    for (std::int64_t v : values) {
        const auto value = static_cast<std::uint64_t>(v);
        putVarint(out, zigzag(value - last));
        last = value;
        if (constant) break;
    }
}

/// True when the double is a whole number that comes back with every bit.
bool exactInteger(double v) {
    return std::abs(v) < 9007199254740992.0 &&
           std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(v))) ==
               std::bit_cast<std::uint64_t>(v);
}

void putDoubles(std::string& out, const std::vector<double>& values) {
    std::vector<std::int64_t> whole;
    for (double v : values) {
        if (!exactInteger(v)) break;
        whole.push_back(static_cast<std::int64_t>(v));
    }
    if (whole.size() == values.size()) return putColumn(out, whole);
    out.push_back(Raw);
    for (double v : values) {
        char bytes[sizeof v];
        std::memcpy(bytes, &v, sizeof v);
        out.append(bytes, sizeof v);
    }
}

class ColumnReader {
public:
    ColumnReader(std::string_view blob, std::size_t count) : m_rest(blob), m_count(count) {}

    [[nodiscard]] bool failed() const { return m_failed; }
    [[nodiscard]] bool complete() const { return !m_failed && m_rest.empty(); }

    std::vector<std::int64_t> column() { return column(m_count); }

    std::vector<std::int64_t> column(std::size_t count) { return integers(take(), count); }

    std::vector<double> doubles() {
        const char form = take();
        std::vector<double> values;
        if (form != Raw) {
            for (std::int64_t v : integers(form, m_count)) values.push_back(static_cast<double>(v));
            return values;
        }
        if (m_rest.size() < m_count * sizeof(double)) return fault<double>();
        values.resize(m_count);
        if (m_count > 0) std::memcpy(values.data(), m_rest.data(), m_count * sizeof(double));
        m_rest.remove_prefix(m_count * sizeof(double));
        return values;
    }

private:
    template <class T>
    std::vector<T> fault() {
        m_failed = true;
        m_rest = {};
        return std::vector<T>(m_count);
    }

    char take() {
        if (m_rest.empty()) {
            m_failed = true;
            return Constant;
        }
        const char first = m_rest.front();
        m_rest.remove_prefix(1);
        return first;
    }

    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (int shift = 0; shift < 70; shift += 7) {
            const auto byte = static_cast<unsigned char>(take());
            if (m_failed) return 0;
            if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
            if (byte < 0x80) return value;
        }
        m_failed = true;
        return 0;
    }

    std::vector<std::int64_t> integers(char form, std::size_t count) {
        if (form != Constant && form != Deltas) return fault<std::int64_t>();
        if (form == Deltas && m_rest.size() < count) return fault<std::int64_t>();
        std::vector<std::int64_t> values(count);
        std::uint64_t last = 0;
        for (std::size_t i = 0; i < count && !m_failed; ++i) {
            if (form == Deltas || i == 0) last += unzigzag(varint());
            values[i] = static_cast<std::int64_t>(last);
        }
        return values;
    }

    std::string_view m_rest;
    std::size_t m_count;
    bool m_failed = false;
};

template <class Row, class Get>
void put(std::string& out, std::span<const Row> rows, Get get) {
    std::vector<std::int64_t> values;
    values.reserve(rows.size());
    for (const Row& row : rows) values.push_back(static_cast<std::int64_t>(get(row)));
    putColumn(out, values);
}

template <class Row, class Get>
void putReal(std::string& out, std::span<const Row> rows, Get get) {
    std::vector<double> values;
    values.reserve(rows.size());
    for (const Row& row : rows) values.push_back(get(row));
    putDoubles(out, values);
}

/// Fills one field of the rows appended from `first` on.
template <class Row, class Set>
bool fill(std::vector<Row>& rows, std::size_t first, const std::vector<std::int64_t>& values,
          Set set) {
    for (std::size_t i = 0; i < values.size() && first + i < rows.size(); ++i)
        if (!set(rows[first + i], values[i])) return false;
    return true;
}

bool narrow(std::int64_t value, std::int32_t& out) {
    out = static_cast<std::int32_t>(value);
    return out == value;
}

template <class E>
bool decodeEnum(std::int64_t code, const std::vector<int>& table, E& out) {
    if (code < 0 || code >= static_cast<std::int64_t>(table.size())) return false;
    const int own = table[static_cast<std::size_t>(code)];
    out = static_cast<E>(own);
    return own >= 0;
}

/// Runs `read` on `count` fresh rows at the end of `out`; takes them away again when it fails.
template <class Row, class Read>
bool appendRows(std::string_view blob, std::size_t count, std::vector<Row>& out, Read read) {
    if (count > kChunkRows) return false;
    const std::size_t first = out.size();
    out.resize(first + count);
    ColumnReader in(blob, count);
    if (read(in, first) && in.complete()) return true;
    out.resize(first);
    return false;
}

template <class E>
std::vector<int> identity() {
    std::vector<int> table;
    for (const EnumName<E>& row : enumNames<E>()) {
        const auto code = static_cast<std::size_t>(row.value);
        if (table.size() <= code) table.resize(code + 1, -1);
        table[code] = static_cast<int>(row.value);
    }
    return table;
}

}  // namespace

CodeTables CodeTables::own() {
    return {identity<OperationKind>(), identity<Phase>(), identity<Pass>(),
            identity<PipelinePhase>(), identity<Lane>(),  identity<MemoryTerm>()};
}

std::string encodeEvents(std::span<const Event> rows) {
    std::string out;
    put(out, rows, [](const Event& e) { return e.start_ns; });
    put(out, rows, [](const Event& e) { return e.duration_ns; });
    put(out, rows, [](const Event& e) { return e.kind; });
    put(out, rows, [](const Event& e) { return e.phase; });
    put(out, rows, [](const Event& e) { return e.pass; });
    put(out, rows, [](const Event& e) { return e.pipeline_phase; });
    put(out, rows, [](const Event& e) { return e.lane; });
    put(out, rows, [](const Event& e) { return e.step; });
    put(out, rows, [](const Event& e) { return e.layer.value; });
    put(out, rows, [](const Event& e) { return e.micro_batch.value; });
    put(out, rows, [](const Event& e) { return e.chunk.value; });
    put(out, rows, [](const Event& e) { return e.model_chunk.value; });
    put(out, rows, [](const Event& e) { return e.operation; });
    put(out, rows, [](const Event& e) { return e.bytes; });
    put(out, rows, [](const Event& e) { return e.cpu_ns; });
    putReal(out, rows, [](const Event& e) { return e.flops; });
    return out;
}

bool decodeEvents(std::string_view blob, std::size_t count, const CodeTables& codes,
                  std::vector<Event>& out) {
    return appendRows(blob, count, out, [&](ColumnReader& in, std::size_t first) {
        const auto number = [&](auto member) {
            return fill(out, first, in.column(), [&](Event& e, std::int64_t v) {
                e.*member = v;
                return true;
            });
        };
        const auto index = [&](auto access) {
            return fill(out, first, in.column(),
                        [&](Event& e, std::int64_t v) { return narrow(v, access(e)); });
        };
        const auto word = [&](auto member, const std::vector<int>& table) {
            return fill(out, first, in.column(),
                        [&](Event& e, std::int64_t v) { return decodeEnum(v, table, e.*member); });
        };
        if (!(number(&Event::start_ns) && number(&Event::duration_ns) &&
              word(&Event::kind, codes.kind) && word(&Event::phase, codes.phase) &&
              word(&Event::pass, codes.pass) &&
              word(&Event::pipeline_phase, codes.pipeline_phase) &&
              word(&Event::lane, codes.lane) &&
              index([](Event& e) -> std::int32_t& { return e.step; }) &&
              index([](Event& e) -> std::int32_t& { return e.layer.value; }) &&
              index([](Event& e) -> std::int32_t& { return e.micro_batch.value; }) &&
              index([](Event& e) -> std::int32_t& { return e.chunk.value; }) &&
              index([](Event& e) -> std::int32_t& { return e.model_chunk.value; }) &&
              index([](Event& e) -> std::int32_t& { return e.operation; }) &&
              number(&Event::bytes) && number(&Event::cpu_ns)))
            return false;
        const std::vector<double> flops = in.doubles();
        for (std::size_t i = 0; i < flops.size(); ++i) out[first + i].flops = flops[i];
        return true;
    });
}

std::string encodeMemory(std::span<const MemorySample> rows) {
    std::string out;
    put(out, rows, [](const MemorySample& s) { return s.time_ns; });
    put(out, rows, [](const MemorySample& s) { return s.term; });
    put(out, rows, [](const MemorySample& s) { return s.bytes; });
    return out;
}

bool decodeMemory(std::string_view blob, std::size_t count, const CodeTables& codes,
                  std::vector<MemorySample>& out) {
    return appendRows(blob, count, out, [&](ColumnReader& in, std::size_t first) {
        const std::vector<std::int64_t> time = in.column(), term = in.column(), bytes = in.column();
        for (std::size_t i = 0; i < count; ++i) {
            MemorySample& row = out[first + i];
            row.time_ns = time[i];
            row.bytes = bytes[i];
            if (!decodeEnum(term[i], codes.term, row.term)) return false;
        }
        return true;
    });
}

std::string encodeClock(std::span<const ClockSample> rows) {
    std::string out;
    put(out, rows, [](const ClockSample& s) { return s.time_ns; });
    put(out, rows, [](const ClockSample& s) { return s.offset_ns; });
    put(out, rows, [](const ClockSample& s) { return s.round_trip_ns; });
    return out;
}

bool decodeClock(std::string_view blob, std::size_t count, std::vector<ClockSample>& out) {
    return appendRows(blob, count, out, [&](ColumnReader& in, std::size_t first) {
        const std::vector<std::int64_t> time = in.column(), offset = in.column(),
                                        trip = in.column();
        for (std::size_t i = 0; i < count; ++i) out[first + i] = {time[i], offset[i], trip[i]};
        return true;
    });
}

std::string encodeSteps(std::span<const StepRecord> rows) {
    std::string out;
    put(out, rows, [](const StepRecord& s) { return s.step; });
    put(out, rows, [](const StepRecord& s) { return s.start_ns; });
    put(out, rows, [](const StepRecord& s) { return s.end_ns; });
    put(out, rows, [](const StepRecord& s) { return s.tokens; });
    putReal(out, rows, [](const StepRecord& s) { return s.loss; });
    putReal(out, rows, [](const StepRecord& s) { return s.gradient_norm; });
    return out;
}

bool decodeSteps(std::string_view blob, std::size_t count, std::vector<StepRecord>& out) {
    return appendRows(blob, count, out, [&](ColumnReader& in, std::size_t first) {
        const std::vector<std::int64_t> step = in.column(), start = in.column(), end = in.column(),
                                        tokens = in.column();
        const std::vector<double> loss = in.doubles(), norm = in.doubles();
        for (std::size_t i = 0; i < count; ++i) {
            StepRecord& row = out[first + i];
            row = {0, start[i], end[i], loss[i], norm[i], tokens[i]};
            if (!narrow(step[i], row.step)) return false;
        }
        return true;
    });
}

std::string encodeExpertLoad(std::span<const ExpertLoad> rows) {
    std::string out;
    put(out, rows, [](const ExpertLoad& l) { return l.step; });
    put(out, rows, [](const ExpertLoad& l) { return l.layer.value; });
    put(out, rows, [](const ExpertLoad& l) { return l.tokens.size(); });
    for (const ExpertLoad& row : rows) putColumn(out, row.tokens);
    return out;
}

bool decodeExpertLoad(std::string_view blob, std::size_t count, std::vector<ExpertLoad>& out) {
    static constexpr std::int64_t kMostExperts = 1 << 16;
    return appendRows(blob, count, out, [&](ColumnReader& in, std::size_t first) {
        const std::vector<std::int64_t> step = in.column(), layer = in.column(), size = in.column();
        for (std::size_t i = 0; i < count && !in.failed(); ++i) {
            ExpertLoad& row = out[first + i];
            if (size[i] < 0 || size[i] > kMostExperts) return false;
            if (!narrow(step[i], row.step) || !narrow(layer[i], row.layer.value)) return false;
            row.tokens = in.column(static_cast<std::size_t>(size[i]));
        }
        return true;
    });
}

Checksum& Checksum::add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    for (char c : text) m_hash = (m_hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return *this;
}

Checksum& Checksum::add(std::int64_t value) {
    auto bits = static_cast<std::uint64_t>(value);
    for (int i = 0; i < 8; ++i, bits >>= 8) m_hash = (m_hash ^ (bits & 0xff)) * 1099511628211ULL;
    return *this;
}

}  // namespace piper
