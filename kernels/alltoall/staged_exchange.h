// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kernels/ops/allocator.h"
#include "kernels/transport/transport.h"

namespace piper {

/// An exchange as data: what is sent and received, and which bytes are copied in between.
///
///     pack -> first sends, all receives -> (relay inputs arrived) -> relay copies ->
///     second sends -> (everything arrived) -> unpack
struct ExchangeScript {
    struct Copy {
        std::byte* to;
        const std::byte* from;
        std::int64_t bytes;
    };
    struct Send {
        std::span<const std::byte> data;
        std::int64_t to;
        bool relayed = false;  ///< travels with the second tag
    };
    struct Receive {
        std::span<std::byte> data;
        std::int64_t from;
        bool relay_input = false;  ///< second sends wait for it
        bool relayed = false;      ///< travels with the second tag
    };
    std::vector<Buffer> staging;
    std::vector<Copy> pack, relay, unpack;
    std::vector<Send> first, second;
    std::vector<Receive> receives;
};

/// Posts the receives and first sends of a script and carries it through. Messages between one
/// pair of ranks are kept apart by two tags: `tag` for direct ones, `tag + 1` for relayed ones.
[[nodiscard]] Result<std::unique_ptr<PendingTransfer>> runScript(Communicator& group,
                                                                 ExchangeScript script, int tag);

}  // namespace piper
