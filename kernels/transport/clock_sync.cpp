// SPDX-License-Identifier: Apache-2.0
#include "kernels/transport/clock_sync.h"

#include <limits>

namespace piper {
namespace {

constexpr int kTag = 9001;

std::span<const std::byte> bytesOf(const std::int64_t& value) {
    return std::as_bytes(std::span(&value, 1));
}
std::span<std::byte> writableBytesOf(std::int64_t& value) {
    return std::as_writable_bytes(std::span(&value, 1));
}

Status sendNow(Communicator& world, const std::int64_t& value, std::int64_t to) {
    PIPER_ASSIGN(auto pending, world.send(bytesOf(value), to, kTag));
    return pending->wait();
}
Status receiveNow(Communicator& world, std::int64_t& value, std::int64_t from) {
    PIPER_ASSIGN(auto pending, world.receive(writableBytesOf(value), from, kTag));
    return pending->wait();
}

Status answerPings(Communicator& world, const ClockNs& clock, std::int64_t peer, int pings) {
    for (int i = 0; i < pings; ++i) {
        std::int64_t ignored = 0;
        PIPER_TRY(receiveNow(world, ignored, peer));
        PIPER_TRY(sendNow(world, clock(), peer));
    }
    return {};
}

}  // namespace

Result<ClockSample> measureClockOffset(Communicator& world, const ClockNs& clock, int pings) {
    ClockSample best;
    if (world.rank() == 0) {
        for (std::int64_t peer = 1; peer < world.size(); ++peer)
            PIPER_TRY(answerPings(world, clock, peer, pings));
        best.time_ns = clock();
        return best;
    }
    best.round_trip_ns = std::numeric_limits<std::int64_t>::max();
    for (int i = 0; i < pings; ++i) {
        std::int64_t remote = 0;
        const std::int64_t begin = clock();
        PIPER_TRY(sendNow(world, begin, 0));
        PIPER_TRY(receiveNow(world, remote, 0));
        const std::int64_t end = clock();
        if (end - begin >= best.round_trip_ns) continue;
        const std::int64_t middle = begin + (end - begin) / 2;
        best = ClockSample{middle, remote - middle, end - begin};
    }
    return best;
}

}  // namespace piper
