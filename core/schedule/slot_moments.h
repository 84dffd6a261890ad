// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "core/base/result.h"
#include "core/plan/pipeline_shape.h"
#include "core/schedule/slot_form.h"

namespace piper {

// Concept: what a rank holds when a slot begins follows from how many micro-batch chunks wait for
// their gradients. Of the thousands of slots of a step only those matter that no other of their
// kind holds more than: a handful a rank, the same for every model under that schedule.

/// The first and the last chunk of a rank may have ends of the model; those between are alike.
enum class ChunkClass : std::uint8_t { First, Middle, Last };
inline constexpr std::size_t kChunkClasses = 3;
[[nodiscard]] constexpr ChunkClass chunkClass(std::int64_t chunk, std::int64_t chunks) {
    return chunk == 0            ? ChunkClass::First
           : chunk == chunks - 1 ? ChunkClass::Last
                                 : ChunkClass::Middle;
}

/// A moment of a rank: a slot of that form begins.
struct SlotMoment {
    std::uint32_t form = 0;  ///< of the rank; of Middle chunks one stands for all
    /// Micro-batch chunks by class between forward and (input) gradient, and between input and
    /// weight gradient.
    std::array<std::int32_t, kChunkClasses> whole{}, late{};
};

struct RankMoments {
    struct FormCount {
        SlotForm form;
        std::int64_t count = 0;
    };
    std::vector<FormCount> forms;     ///< in order of first use
    std::vector<SlotMoment> moments;  ///< none holds less of everything than another of its form
};

/// [pp]. Errors: those of makeSlots.
[[nodiscard]] Result<std::vector<RankMoments>> slotMoments(const PipelineShape& shape);

/// Moments by shape, each worked out once.
class SlotMomentsTable {
public:
    using Moments = std::vector<RankMoments>;  ///< [pp]; empty where the shape has no slots

    /// Stay where they are as long as the table lives.
    [[nodiscard]] const Moments& of(const PipelineShape& shape);
    /// Null for a shape that is not there yet.
    [[nodiscard]] const Moments* find(const PipelineShape& shape) const;
    void add(const PipelineShape& shape, Moments moments);

private:
    std::map<PipelineShape, Moments> m_known;
};

}  // namespace piper
