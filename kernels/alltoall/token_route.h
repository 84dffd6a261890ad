// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "kernels/alltoall/tiers.h"
#include "kernels/transport/transport.h"

namespace piper {

/// What a rank's router chose: slot = token * topk + choice.
struct TokenRouting {
    std::int64_t tokens = 0;
    std::int64_t topk = 1;
    std::span<const std::int32_t> places;  ///< [tokens * topk] owner * local experts + number there
    std::span<const float> weights;        ///< [tokens * topk]
};

/// Where the rows of one exchange lie and go, as one rank knows it. A rank holds a bundle of rows
/// for each source that reaches it: its own tokens, and what others gave it.
struct TokenRoute {
    struct Slot {
        std::int32_t row;    ///< of its bundle
        std::int32_t place;  ///< the expert
        float weight;
    };
    /// Where some of a bundle's rows go on: a part of a message given.
    struct Onward {
        std::size_t hop = 0, part = 0;
    };
    struct Bundle {
        std::int64_t source = 0;
        std::int64_t rows = 0;
        std::ptrdiff_t message = -1;       ///< the hop it came in with, -1: the own tokens
        std::int64_t first_row = 0;        ///< in that message
        std::vector<Slot> slots;           ///< by row
        std::vector<std::int64_t> locals;  ///< numbers of its rows among TokenRoute::locals
        std::vector<Onward> onward;        ///< by hop, each at most once
    };
    /// The share of one bundle in a message: its rows and slots by number there.
    struct Part {
        std::size_t bundle = 0;
        std::int64_t first_row = 0, first_slot = 0;  ///< in the message
        std::vector<std::int32_t> rows;
        std::vector<std::int32_t> slots;
    };
    struct Hop {
        int tier = 0;
        std::int64_t peer = 0;
        std::int64_t rows = 0, slots = 0;
        std::vector<Part> parts;           ///< of what is given
        std::vector<std::size_t> bundles;  ///< of what is received
        /// Of what is given: the messages received that its rows come in with. Of what is received:
        /// the messages given whose answers are part of its answer.
        std::vector<std::size_t> after;
    };
    /// A row for an expert of this rank.
    struct Local {
        std::size_t bundle = 0;
        std::int32_t slot = 0;
    };
    std::vector<Bundle> bundles;        ///< first the own one, its slots in order
    std::vector<Hop> given, received;   ///< messages with rows only
    std::vector<Local> locals;          ///< by local expert, then source, then token
    std::vector<std::int64_t> offsets;  ///< [local experts + 1] into locals

    [[nodiscard]] std::int64_t rows() const { return static_cast<std::int64_t>(locals.size()); }
};

/// Tells every rank what will pass through it: in each tier numbers of rows and slots to every
/// possible receiver, then 8 bytes a slot (its expert, whether a new row begins, its weight) to
/// those that get some. One route for each routing; collective, blocks.
/// Errors: InvalidInput for a place that no rank owns or spans of the wrong length.
[[nodiscard]] Result<std::vector<TokenRoute>> makeTokenRoutes(
    Communicator& group, const ExchangeTiers& tiers, std::int64_t local_experts,
    std::span<const TokenRouting> routings, int tag);

constexpr std::int64_t kCountBytes = 8;   ///< of one source in one message of numbers
constexpr std::int64_t kRecordBytes = 8;  ///< of one slot

}  // namespace piper
