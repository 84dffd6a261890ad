// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "core/base/cast.h"
#include "core/resources/memory.h"

// How this room writes the lines of its memory table; private to it.
namespace piper {

/// Statistics, scores and tables are fp32 and int32 whatever the plan's precision.
inline constexpr double kWide = 4.0;

/// Collects tensors [rows, width] with their formula.
class MemoryTable {
public:
    explicit MemoryTable(Lifetime lifetime) : m_lifetime(lifetime) { m_entries.reserve(24); }

    void add(MemoryTerm term, std::string_view name, double rows, double width, double element,
             std::string_view shape) {
        if (rows <= 0.0 || width <= 0.0) return;
        m_entries.push_back({.term = term,
                             .name = name,
                             .bytes = Bytes(rows * width * element),
                             .lifetime = m_lifetime,
                             .shape = shape,
                             .rows = rows,
                             .width = width,
                             .element_bytes = element});
    }
    [[nodiscard]] std::vector<MemoryEntry> take() { return std::move(m_entries); }

private:
    Lifetime m_lifetime;
    std::vector<MemoryEntry> m_entries;
};

/// Bytes of a logit from the loss to its backward pass, and of its gradient besides.
struct LogitBytes {
    double kept = 0.0, gradient = 0.0;
};
[[nodiscard]] LogitBytes logitBytes(const Plan& plan);

/// One way the memory of a stage can be at its highest.
struct Moment {
    std::string_view name;  ///< "backward of the experts"
    std::vector<MemoryEntry> entries;
    double released = 0.0;  ///< micro-batches (of those in flight) that are gone by then
};

/// Layers of a stage, multi-token prediction with them, by what they keep.
struct StageLayerCount {
    double dense = 0.0, moe = 0.0;                        ///< that keep their activations
    double recomputed_dense = 0.0, recomputed_moe = 0.0;  ///< that keep their input
};
/// The moments of the forward and backward passes on a stage, the message of a pipeline with them.
[[nodiscard]] std::vector<Moment> stageMoments(const Plan& plan, StageId stage, double imbalance,
                                               const StageLayerCount& count);

}  // namespace piper
