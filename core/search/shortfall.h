// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/search/capacity.h"

// What the questions of capacity.h share; not for other folders.
namespace piper {

/// The part of the space that needs least memory, bar few exceptions (part recompute,
/// schedules that hold less than 1F1B): 1F1B unless chunks a rank are fixed, one sequence a
/// micro-batch, full recompute, where these are open.
[[nodiscard]] SearchSpace frugalSpace(SearchSpace space);

/// Devices that the cluster would need for any plan at all: the rest may be sharded or moved out.
[[nodiscard]] std::int64_t leastDevices(const Plan& plan);

/// Why the space holds no plan; `found`: its search, without any. Errors: those of searchPlans.
[[nodiscard]] Result<Shortfall> shortfallOf(const SearchSpace& space, const SearchResult& found,
                                            const SearchRun& run);

}  // namespace piper
