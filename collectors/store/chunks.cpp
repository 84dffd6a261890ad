// SPDX-License-Identifier: Apache-2.0
#include "collectors/store/chunks.h"

#include <algorithm>

namespace piper {
namespace {

using columns::appendRows;
using columns::field;
using columns::put;
using columns::putReal;
using columns::Reader;
using columns::real;
using columns::word;

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
            identity<PipelinePhase>(), identity<Lane>(),  identity<MemoryTerm>(),
            identity<EventCategory>()};
}

bool CodeTables::areOwn() const {
    const CodeTables ours = own();
    for (const auto member :
         {&CodeTables::kind, &CodeTables::phase, &CodeTables::pass, &CodeTables::pipeline_phase,
          &CodeTables::lane, &CodeTables::term, &CodeTables::category}) {
        const std::vector<int>&theirs = this->*member, &wanted = ours.*member;
        if (theirs.size() > wanted.size() ||
            !std::equal(theirs.begin(), theirs.end(), wanted.begin()))
            return false;
    }
    return true;
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
    put(out, rows, [](const Event& e) { return e.category; });
    put(out, rows, [](const Event& e) { return e.sub_lane; });
    put(out, rows, [](const Event& e) { return e.step; });
    put(out, rows, [](const Event& e) { return e.layer.value; });
    put(out, rows, [](const Event& e) { return e.micro_batch.value; });
    put(out, rows, [](const Event& e) { return e.chunk.value; });
    put(out, rows, [](const Event& e) { return e.model_chunk.value; });
    put(out, rows, [](const Event& e) { return e.operation; });
    put(out, rows, [](const Event& e) { return e.name; });
    put(out, rows, [](const Event& e) { return e.track; });
    put(out, rows, [](const Event& e) { return e.correlation; });
    put(out, rows, [](const Event& e) { return e.bytes; });
    put(out, rows, [](const Event& e) { return e.cpu_ns; });
    putReal(out, rows, [](const Event& e) { return e.flops; });
    return out;
}

namespace {

/// Reads the columns of events that `Row` has fields for.
template <class Row>
bool readEvents(std::string_view blob, std::size_t count, const CodeTables& codes,
                std::vector<Row>& out) {
    return appendRows(blob, count, out, [&](Reader& in, std::span<Row> rows) {
        return field(in, rows, PIPER_FIELD(start_ns)) &&
               field(in, rows, PIPER_FIELD(duration_ns)) &&
               word(in, rows, PIPER_FIELD(kind), codes.kind) &&
               word(in, rows, PIPER_FIELD(phase), codes.phase) &&
               word(in, rows, PIPER_FIELD(pass), codes.pass) &&
               word(in, rows, PIPER_FIELD(pipeline_phase), codes.pipeline_phase) &&
               word(in, rows, PIPER_FIELD(lane), codes.lane) &&
               word(in, rows, PIPER_FIELD(category), codes.category) &&
               field(in, rows, PIPER_FIELD(sub_lane)) && field(in, rows, PIPER_FIELD(step)) &&
               field(in, rows, PIPER_FIELD(layer.value)) &&
               field(in, rows, PIPER_FIELD(micro_batch.value)) &&
               field(in, rows, PIPER_FIELD(chunk.value)) &&
               field(in, rows, PIPER_FIELD(model_chunk.value)) &&
               field(in, rows, PIPER_FIELD(operation)) && field(in, rows, PIPER_FIELD(name)) &&
               field(in, rows, PIPER_FIELD(track)) && field(in, rows, PIPER_FIELD(correlation)) &&
               field(in, rows, PIPER_FIELD(bytes)) && field(in, rows, PIPER_FIELD(cpu_ns)) &&
               real(in, rows, PIPER_FIELD(flops));
    });
}

}  // namespace

bool decodeEvents(std::string_view blob, std::size_t count, const CodeTables& codes,
                  std::vector<Event>& out) {
    return readEvents(blob, count, codes, out);
}

bool decodeEvents(std::string_view blob, std::size_t count, const CodeTables& codes,
                  std::vector<DrawnEvent>& out) {
    return readEvents(blob, count, codes, out);
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
    return appendRows(blob, count, out, [&](Reader& in, std::span<MemorySample> rows) {
        return field(in, rows, PIPER_FIELD(time_ns)) &&
               word(in, rows, PIPER_FIELD(term), codes.term) && field(in, rows, PIPER_FIELD(bytes));
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
    return appendRows(blob, count, out, [&](Reader& in, std::span<ClockSample> rows) {
        return field(in, rows, PIPER_FIELD(time_ns)) && field(in, rows, PIPER_FIELD(offset_ns)) &&
               field(in, rows, PIPER_FIELD(round_trip_ns));
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
    return appendRows(blob, count, out, [&](Reader& in, std::span<StepRecord> rows) {
        return field(in, rows, PIPER_FIELD(step)) && field(in, rows, PIPER_FIELD(start_ns)) &&
               field(in, rows, PIPER_FIELD(end_ns)) && field(in, rows, PIPER_FIELD(tokens)) &&
               real(in, rows, PIPER_FIELD(loss)) && real(in, rows, PIPER_FIELD(gradient_norm));
    });
}

std::string encodeExpertLoad(std::span<const ExpertLoad> rows) {
    std::string out;
    put(out, rows, [](const ExpertLoad& l) { return l.step; });
    put(out, rows, [](const ExpertLoad& l) { return l.layer.value; });
    put(out, rows, [](const ExpertLoad& l) { return l.tokens.size(); });
    for (const ExpertLoad& row : rows)
        put(out, std::span<const std::int64_t>(row.tokens), [](std::int64_t v) { return v; });
    return out;
}

bool decodeExpertLoad(std::string_view blob, std::size_t count, std::vector<ExpertLoad>& out) {
    static constexpr std::int64_t kMostExperts = 1 << 16;
    return appendRows(blob, count, out, [&](Reader& in, std::span<ExpertLoad> rows) {
        const bool heads = field(in, rows, PIPER_FIELD(step)) &&
                           field(in, rows, PIPER_FIELD(layer.value)) &&
                           in.integers([&](std::size_t i, std::int64_t size) {
                               if (size < 0 || size > kMostExperts) return false;
                               rows[i].tokens.resize(static_cast<std::size_t>(size));
                               return true;
                           });
        for (std::size_t r = 0; heads && r < rows.size(); ++r) {
            std::vector<std::int64_t>& tokens = rows[r].tokens;
            if (!in.integers(tokens.size(), [&](std::size_t i, std::int64_t v) {
                    tokens[i] = v;
                    return true;
                }))
                return false;
        }
        return heads;
    });
}

std::string encodeStepTotals(std::span<const StepTotals> rows) {
    std::string out;
    put(out, rows, [](const StepTotals& s) { return s.step; });
    put(out, rows, [](const StepTotals& s) { return s.events; });
    put(out, rows, [](const StepTotals& s) { return s.busy_ns; });
    put(out, rows, [](const StepTotals& s) { return s.covered_ns; });
    put(out, rows, [](const StepTotals& s) { return s.compute_ns; });
    put(out, rows, [](const StepTotals& s) { return s.exposed_ns; });
    for (std::size_t p = 0; p < kNumPhases; ++p) {
        put(out, rows, [p](const StepTotals& s) { return s.phases[p].count; });
        put(out, rows, [p](const StepTotals& s) { return s.phases[p].sum_ns; });
        put(out, rows, [p](const StepTotals& s) { return s.phases[p].union_ns; });
        put(out, rows, [p](const StepTotals& s) { return s.phases[p].exposed_ns; });
        putReal(out, rows, [p](const StepTotals& s) { return s.phases[p].flops; });
        putReal(out, rows, [p](const StepTotals& s) { return s.phases[p].bytes; });
    }
    return out;
}

bool decodeStepTotals(std::string_view blob, std::size_t count, const CodeTables& codes,
                      std::vector<StepTotals>& out) {
    return appendRows(blob, count, out, [&](Reader& in, std::span<StepTotals> rows) {
        bool good =
            field(in, rows, PIPER_FIELD(step)) && field(in, rows, PIPER_FIELD(events)) &&
            field(in, rows, PIPER_FIELD(busy_ns)) && field(in, rows, PIPER_FIELD(covered_ns)) &&
            field(in, rows, PIPER_FIELD(compute_ns)) && field(in, rows, PIPER_FIELD(exposed_ns));
        for (const int phase : codes.phase) {
            if (phase < 0) return false;
            const auto of = [p = static_cast<std::size_t>(phase)](auto member) {
                return [ p, member ](StepTotals & s) -> auto& {
                    return s.phases[p].*member;
                };
            };
            good = good && field(in, rows, of(&PhaseTotal::count)) &&
                   field(in, rows, of(&PhaseTotal::sum_ns)) &&
                   field(in, rows, of(&PhaseTotal::union_ns)) &&
                   field(in, rows, of(&PhaseTotal::exposed_ns)) &&
                   real(in, rows, of(&PhaseTotal::flops)) && real(in, rows, of(&PhaseTotal::bytes));
        }
        return good;
    });
}

Checksum& Checksum::add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    for (char c : text) m_hash = (m_hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return *this;
}

std::int64_t blobChecksum(std::string_view blob) {
    // Four sums side by side, each over every fourth word, or they would wait for each other. A
    // step is a bijection of both its inputs: no change of a single word is lost.
    std::array<std::uint64_t, 4> sums{1, 2, 3, 4};
    const auto add = [](std::uint64_t& sum, const char* at, std::size_t bytes) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, bytes);
        sum = (sum ^ word) * 0x9e3779b97f4a7c15ULL;
        sum ^= sum >> 32;
    };
    const char* at = blob.data();
    const char* const end = at + blob.size();
    for (; end - at >= 32; at += 32)
        for (std::size_t i = 0; i < 4; ++i) add(sums[i], at + 8 * i, 8);
    for (std::size_t i = 0; end - at >= 8; at += 8, ++i) add(sums[i], at, 8);
    if (at != end) add(sums[3], at, static_cast<std::size_t>(end - at));
    Checksum whole;
    for (const std::uint64_t sum : sums) whole.add(static_cast<std::int64_t>(sum));
    return whole.add(static_cast<std::int64_t>(blob.size())).value();
}

Checksum& Checksum::add(std::int64_t value) {
    auto bits = static_cast<std::uint64_t>(value);
    for (int i = 0; i < 8; ++i, bits >>= 8) m_hash = (m_hash ^ (bits & 0xff)) * 1099511628211ULL;
    return *this;
}

}  // namespace piper
