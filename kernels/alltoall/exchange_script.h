// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/ops/allocator.h"
#include "kernels/transport/transport.h"

namespace piper {

/// One rank's part of an exchange as data: messages to be received, and steps that each wait for
/// some of them. A step copies, works and sends as soon as the last message it waits for is here;
/// there is no barrier and no common phase.
struct ExchangeScript {
    struct Copy {
        std::byte* to;
        const std::byte* from;
        std::int64_t bytes;
    };
    struct Receive {
        std::span<std::byte> data;
        std::int64_t from = 0;
        int phase = 0;  ///< hop of the way, the same at both ends: messages of a pair differ in it
    };
    struct Step {
        std::vector<std::size_t> after;  ///< receives, by number
        std::vector<Copy> copies;
        std::function<void()> work;  ///< after the copies
        std::span<const std::byte> data;
        std::int64_t to = -1;  ///< below 0: nothing is sent
        int phase = 0;
    };
    std::vector<Buffer> staging;  ///< held until everything is done
    std::vector<Receive> receives;
    std::vector<Step> steps;  ///< those that wait for nothing run in this order
};

constexpr int kMaxPhases = 4;

/// Posts the receives, runs what waits for nothing and carries the rest through. Messages of hop p
/// travel with tag + p; tag .. tag + kMaxPhases - 1 are this exchange's alone. in_flight above 0:
/// so many messages of a hop may come at once, from the nearest rank before this one on; the next
/// is let come when one is there, so that large messages do not share this rank's link.
[[nodiscard]] Result<std::unique_ptr<PendingTransfer>> runScript(Communicator& group,
                                                                 ExchangeScript script, int tag,
                                                                 std::int64_t in_flight = 0);

}  // namespace piper
