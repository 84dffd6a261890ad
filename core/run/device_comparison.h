// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/run/device_statistics.h"
#include "core/run/statistics.h"

namespace piper {

/// Something both sides may have: kernels of a name, a class of device time, a rank.
struct DeviceRow {
    std::string key;
    std::int64_t a_count = 0, b_count = 0;
    std::int64_t a_sum_ns = 0, b_sum_ns = 0;
    [[nodiscard]] double aMean() const;
    [[nodiscard]] double bMean() const;
};

/// Two traces by what their devices did. Traces rarely cover the same number of steps: sums are
/// those of the windows as they are, means are per launch and comparable also where windows differ.
struct DeviceComparison {
    std::vector<DeviceRow> kernels;  ///< largest change of the sum first
    std::vector<DeviceRow> classes;  ///< compute, communication, memcpy, memset, idle
    std::vector<DeviceRow> ranks;    ///< kernels of ranks that both have
    std::vector<std::string> only_in_a, only_in_b;
    std::vector<std::string> warnings;
    /// Of the mean over ranks of the time between first and last device work: compute, exposed
    /// communication, idle (as bubble), and copies and sets nothing else covers (as rest).
    Attribution attribution;
};

/// `a` and `b` are headers: notes and ranks, without records.
[[nodiscard]] DeviceComparison compareDevices(const Run& a, const DeviceStatistics& in_a,
                                              const Run& b, const DeviceStatistics& in_b);

}  // namespace piper
