// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/alltoall/token_exchange.h"

namespace piper {

/// The algorithms that move one row for each expert of a token.
[[nodiscard]] Result<std::unique_ptr<TokenExchange>> makePathTokenExchange(
    Communicator& group, TaggedAllocator& allocator, const TokenExchangeOptions& options);

}  // namespace piper
