// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace piper {

/// A kernel, copy or set on a device.
struct DevicePiece {
    std::int64_t begin = 0, end = 0;
    bool kernel = true;
    bool communication = false;            ///< a kernel that is communication
    std::optional<std::int64_t> launched;  ///< end of the host's call for it, where recorded
};

/// What the time between a device's first and last work went to. All but `span_ns` and the counts
/// are parts of the span and add up to it.
struct DeviceIdle {
    std::int64_t devices = 0;
    std::int64_t span_ns = 0;                   ///< first start to last end
    std::int64_t compute_ns = 0;                ///< a kernel that is no communication runs
    std::int64_t waiting_communication_ns = 0;  ///< else communication runs
    std::int64_t copying_ns = 0;                ///< else a copy or a set runs
    std::int64_t waiting_launch_ns = 0;         ///< else the host had not launched what came next
    std::int64_t unknown_ns = 0;                ///< else
    std::int64_t pieces = 0, pieces_with_launch = 0;

    void add(const DeviceIdle& other);
    /// Without any launch the time for which the device waited for one is part of the unknown.
    [[nodiscard]] bool launchesKnown() const { return pieces_with_launch > 0; }
};

/// Of one device; `pieces` are sorted by their begin. Where several begin at once after a gap, the
/// first that was launched ended it.
[[nodiscard]] DeviceIdle deviceIdle(std::span<const DevicePiece> pieces);

}  // namespace piper
