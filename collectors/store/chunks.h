// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/store/columns.h"
#include "core/run/run.h"

namespace piper {

/// Chunks: up to kChunkRows records of one stream as one blob, column after column.
///
/// The forms of a column stand in collectors/store/columns.h. Sizes follow the magnitude of the
/// differences between rows.
/// Enumerations are stored as numbers; CodeTables says what they mean in that file.
inline constexpr std::size_t kChunkRows = columns::kMostRows;

/// What the numbers of a file's enumerations mean to this program: [stored code] -> own value,
/// -1 where the file's word is unknown here.
struct CodeTables {
    std::vector<int> kind, phase, pass, pipeline_phase, lane, term, category;
    [[nodiscard]] static CodeTables own();
    /// True when each number means what it means in this program.
    [[nodiscard]] bool areOwn() const;
};

/// What a timeline draws of an event; the other columns of a chunk are passed over.
struct DrawnEvent {
    std::int64_t start_ns = 0;
    std::int64_t duration_ns = 0;
    OperationKind kind = OperationKind::Forward;
    Phase phase = Phase::Idle;
    Pass pass = Pass::Forward;
    EventCategory category = EventCategory::Operation;
    MicroBatchId micro_batch;
    std::int32_t name = -1;
};

[[nodiscard]] std::string encodeEvents(std::span<const Event> rows);
[[nodiscard]] std::string encodeMemory(std::span<const MemorySample> rows);
[[nodiscard]] std::string encodeClock(std::span<const ClockSample> rows);
[[nodiscard]] std::string encodeSteps(std::span<const StepRecord> rows);
[[nodiscard]] std::string encodeExpertLoad(std::span<const ExpertLoad> rows);
[[nodiscard]] std::string encodeStepTotals(std::span<const StepTotals> rows);

/// Append `count` decoded rows; false (nothing appended) when the blob does not hold exactly them.
[[nodiscard]] bool decodeEvents(std::string_view blob, std::size_t count, const CodeTables& codes,
                                std::vector<Event>& out);
[[nodiscard]] bool decodeEvents(std::string_view blob, std::size_t count, const CodeTables& codes,
                                std::vector<DrawnEvent>& out);
[[nodiscard]] bool decodeMemory(std::string_view blob, std::size_t count, const CodeTables& codes,
                                std::vector<MemorySample>& out);
[[nodiscard]] bool decodeClock(std::string_view blob, std::size_t count,
                               std::vector<ClockSample>& out);
[[nodiscard]] bool decodeSteps(std::string_view blob, std::size_t count,
                               std::vector<StepRecord>& out);
[[nodiscard]] bool decodeExpertLoad(std::string_view blob, std::size_t count,
                                    std::vector<ExpertLoad>& out);
[[nodiscard]] bool decodeStepTotals(std::string_view blob, std::size_t count,
                                    const CodeTables& codes, std::vector<StepTotals>& out);

/// FNV-1a over the fields of a row, so that a flipped bit is found.
class Checksum {
public:
    Checksum& add(std::string_view text);
    Checksum& add(std::int64_t value);
    [[nodiscard]] std::int64_t value() const { return static_cast<std::int64_t>(m_hash); }

private:
    std::uint64_t m_hash = 14695981039346656037ULL;
};

/// Of a blob, eight bytes at a time: cheap beside decoding it.
[[nodiscard]] std::int64_t blobChecksum(std::string_view blob);

/// Of numbers and the blob beside them.
template <class Numbers>
[[nodiscard]] std::int64_t numbersChecksum(const Numbers& numbers, std::string_view blob) {
    Checksum sum;
    for (const std::int64_t v : numbers) sum.add(v);
    return sum.add(blobChecksum(blob)).value();
}
/// True when `stored` is their checksum, as it is made since version 4 of the file or was before.
template <class Numbers>
[[nodiscard]] bool isIntact(const Numbers& numbers, std::string_view blob, std::int64_t stored) {
    if (numbersChecksum(numbers, blob) == stored) return true;
    Checksum sum;
    for (const std::int64_t v : numbers) sum.add(v);
    return sum.add(blob).value() == stored;
}

}  // namespace piper
