// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/json_fwd.h"
#include "core/run/device_comparison.h"
#include "core/run/device_statistics.h"
#include "core/run/statistics.h"

namespace piper {

/// One entry of `runs` of `piperctl stats --json` (docs/formats.md).
[[nodiscard]] Json statisticsJson(const Run& run, const RunStatistics& statistics);
/// The key "attribution" of both comparisons.
[[nodiscard]] Json attributionJson(const Attribution& why);
/// The document of `piperctl compare --json` (docs/formats.md).
[[nodiscard]] Json comparisonJson(const Run& a, const Run& b, const Comparison& comparison);

/// The keys of device work, imports and counters of one entry of `runs`, added to `out`.
void addDeviceStatistics(const Run& header, const DeviceStatistics& statistics, Json& out);
/// The same for the terminal.
[[nodiscard]] std::string deviceTable(const Run& header, const DeviceStatistics& statistics);

/// The document of `piperctl compare --json` for two imported traces.
[[nodiscard]] Json deviceComparisonJson(const Run& a, const Run& b, const DeviceComparison& c);
[[nodiscard]] std::string deviceComparisonTable(const Run& a, const Run& b,
                                                const DeviceComparison& c);

/// Phases, memory and step times of one run, for the terminal.
[[nodiscard]] std::string statisticsTable(const Run& run, const RunStatistics& statistics);
/// A against B phase by phase: time, FLOPs, bytes, memory; then the attribution and the warnings.
[[nodiscard]] std::string comparisonTable(const Run& a, const Run& b, const Comparison& comparison);

}  // namespace piper
