// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "kernels/alltoall/exchange_script.h"
#include "kernels/alltoall/token_route.h"
#include "kernels/alltoall/wire_format.h"
#include "kernels/ops/tensor.h"

namespace piper {

/// The two movements of a TokenRoute as scripts. Spread: a token's row goes once to each group that
/// needs it and is copied there. Reduce: the rows of a token's experts come back as one sum from
/// each group that the token's row had gone to, by the same ways backwards. What stays on the rank
/// is never rounded; a row that travels is rounded to the wire format once a hop.

struct SpreadProblem {
    const TokenRoute& route;  ///< outlives the exchange, like the matrices
    WireFormat wire = WireFormat::Fp32;
    ConstMatrix x;  ///< [tokens, H]
    Matrix rows;    ///< [route.rows(), H]
    /// Called with each local row once it is in place; may be empty.
    std::function<void(std::int64_t row, const TokenRoute::Slot& slot)> hook;
};
[[nodiscard]] Result<ExchangeScript> spreadScript(SpreadProblem problem,
                                                  TaggedAllocator& allocator);

struct ReduceProblem {
    const TokenRoute& route;
    WireFormat wire = WireFormat::Fp32;
    ConstMatrix rows;       ///< [route.rows(), H] of this rank's experts
    bool weighted = false;  ///< each row times its slot's weight
    Matrix out;             ///< [tokens, H]
    Store store = Store::Overwrite;
    bool scalars = false;                ///< one more float for each slot travels back
    std::span<const float> row_scalars;  ///< [route.rows()]
    std::span<float> slot_scalars;       ///< [tokens * topk] of the own tokens
};
/// Sums are made in one order, whatever comes first: own rows, then groups by tier and number.
[[nodiscard]] Result<ExchangeScript> reduceScript(ReduceProblem problem,
                                                  TaggedAllocator& allocator);

}  // namespace piper
