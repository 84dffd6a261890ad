// SPDX-License-Identifier: Apache-2.0
#include "core/run/device_idle.h"

#include <algorithm>

#include "core/run/merged_length.h"

namespace piper {
namespace {

/// The time in gaps of the device until what ended them was launched.
std::int64_t waitedForLaunches(std::span<const DevicePiece> pieces) {
    std::int64_t waited = 0, busy_until = pieces.front().end;
    for (std::size_t i = 1; i < pieces.size();) {
        const std::int64_t begin = pieces[i].begin;
        std::optional<std::int64_t> launched;
        std::int64_t end = begin;
        for (; i < pieces.size() && pieces[i].begin == begin; ++i) {
            const std::optional<std::int64_t> at = pieces[i].launched;
            if (at && (!launched || *at < *launched)) launched = at;
            end = std::max(end, pieces[i].end);
        }
        if (launched) waited += std::max<std::int64_t>(0, std::min(*launched, begin) - busy_until);
        busy_until = std::max(busy_until, end);
    }
    return waited;
}

}  // namespace

void DeviceIdle::add(const DeviceIdle& o) {
    devices += o.devices;
    span_ns += o.span_ns;
    compute_ns += o.compute_ns;
    waiting_communication_ns += o.waiting_communication_ns;
    copying_ns += o.copying_ns;
    waiting_launch_ns += o.waiting_launch_ns;
    unknown_ns += o.unknown_ns;
    pieces += o.pieces;
    pieces_with_launch += o.pieces_with_launch;
}

DeviceIdle deviceIdle(std::span<const DevicePiece> pieces) {
    DeviceIdle out;
    if (pieces.empty()) return out;
    out.devices = 1;
    out.pieces = std::ssize(pieces);
    out.pieces_with_launch = std::count_if(
        pieces.begin(), pieces.end(), [](const DevicePiece& p) { return p.launched.has_value(); });
    const auto length = [&](auto wanted) { return mergedLength(mergedWhere(pieces, wanted)); };
    const std::int64_t kernels_ns = length([](const DevicePiece& p) { return p.kernel; });
    const std::int64_t busy_ns = length([](const DevicePiece&) { return true; });
    std::int64_t last = pieces.front().end;
    for (const DevicePiece& p : pieces) last = std::max(last, p.end);
    out.span_ns = last - pieces.front().begin;
    out.compute_ns = length([](const DevicePiece& p) { return p.kernel && !p.communication; });
    out.waiting_communication_ns = kernels_ns - out.compute_ns;
    out.copying_ns = busy_ns - kernels_ns;
    out.waiting_launch_ns = waitedForLaunches(pieces);
    out.unknown_ns = out.span_ns - busy_ns - out.waiting_launch_ns;
    return out;
}

}  // namespace piper
