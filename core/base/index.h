// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace piper {

/// A typed index: a rank is not a stage, a layer is not an expert. Negative means "none".
template <class Tag>
struct Index {
    std::int32_t value = -1;

    constexpr Index() = default;
    constexpr explicit Index(std::int32_t v) : value(v) {}
    constexpr explicit Index(std::size_t v) : value(static_cast<std::int32_t>(v)) {}
    [[nodiscard]] constexpr bool valid() const { return value >= 0; }
    [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
    constexpr auto operator<=>(const Index&) const = default;
};

using RankId = Index<struct RankTag>;
using StageId = Index<struct StageTag>;    ///< pipeline rank, 0 .. pp-1
using LayerId = Index<struct LayerTag>;    ///< transformer layer, 0 .. num_layers-1
using ExpertId = Index<struct ExpertTag>;  ///< routed expert of one layer
using MicroBatchId = Index<struct MicroBatchTag>;
using ChunkId = Index<struct ChunkTag>;  ///< slice of the tokens of one dispatch or combine
using ModelChunkId = Index<struct ModelChunkTag>;  ///< virtual stage on a rank, 0 .. vpp-1

}  // namespace piper

template <class Tag>
struct std::hash<piper::Index<Tag>> {
    std::size_t operator()(piper::Index<Tag> i) const noexcept {
        return std::hash<std::int32_t>{}(i.value);
    }
};
