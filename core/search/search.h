// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json_fwd.h"
#include "core/base/result.h"
#include "core/predict/predict.h"

namespace piper {

enum class Objective { Mfu, TokensPerSecond, CostPerToken, MemoryHeadroom };

/// What is searched: every dimension not fixed by `base` (SearchChoices names the values).
struct SearchSpace {
    Plan base;                       ///< model, cluster, batch, seq_len, precision
    std::vector<std::string> fixed;  ///< keys of the layout and plan that base decides
    std::int64_t max_world = 0;      ///< 0: the whole cluster
    Objective objective = Objective::Mfu;
    std::size_t top = 20;
    double memory_margin = 0.0;  ///< share of the capacity to leave free
};

struct RankedPlan {
    Plan plan;
    Prediction prediction;
};

/// Why one layout of the space lost.
struct Rejection {
    std::string layout;   ///< "tp=1 pp=4 ep=8 dp=8 mbs=2"
    std::string rule;     ///< "memory", "experts_divide_ep", "slower"
    std::string message;  ///< with the numbers
};

/// A plan that no other of the found ones beats in step time, memory and devices at once.
struct ParetoPlan {
    Plan plan;
    Seconds step;
    Bytes device_total;
};

struct SearchResult {
    std::vector<RankedPlan> plans;      ///< best first, at most `top`
    std::vector<ParetoPlan> pareto;     ///< fastest first
    std::vector<Rejection> rejections;  ///< one per reason kind, the nearest example first
    std::int64_t evaluated = 0;         ///< plans decided one by one; bounds decide the others
    std::int64_t feasible = 0;          ///< of these, plans that fit
    double seconds = 0.0;               ///< filled by the caller, who owns the clock
};

/// Runs bodies 0..n-1, in any order, perhaps in parallel; given by the program.
using ParallelFor =
    std::function<void(std::size_t n, const std::function<void(std::size_t)>& body)>;
/// One after the other.
[[nodiscard]] ParallelFor sequentialFor();

struct SearchProgress {
    std::int64_t done = 0, total = 0;
    const RankedPlan* best = nullptr;  ///< so far, null before the first feasible plan
};

/// Decides dimensions of the search: "tp=2 micro_batch_size=1 schedule=1f1b" is written into
/// `base`; returns the keys for SearchSpace::fixed. Errors: InvalidInput for an unknown key (names
/// the nearest) or a value that cannot be read.
[[nodiscard]] Result<std::vector<std::string>> applyFixed(Plan& base, std::string_view text);

/// The best plans of the space, exact: of every layout and schedule the settings that save memory
/// at the least time are chosen by the closed form, then schedules are played until no bound is
/// below the last of the best. Deterministic for any ParallelFor. `progress` is called on the
/// caller's thread, between batches of bodies. Errors: Cancelled when the token asked; InvalidInput
/// for a fixed key that does not exist.
[[nodiscard]] Result<SearchResult> searchPlans(
    const SearchSpace& space, const ParallelFor& parallel_for, std::stop_token stop = {},
    const std::function<void(const SearchProgress&)>& progress = {});

/// The exact Pareto set at some memory limits (100 to 40 % of the device) and device counts (all, a
/// half, a quarter): the fastest plan under each. Errors: those of searchPlans.
[[nodiscard]] Result<std::vector<ParetoPlan>> paretoPlans(const SearchSpace& space,
                                                          const ParallelFor& parallel_for,
                                                          std::stop_token stop = {});
/// Drops what another one beats; fastest first.
[[nodiscard]] std::vector<ParetoPlan> undominated(std::vector<ParetoPlan> plans);

[[nodiscard]] Json searchJson(const SearchResult& result);

}  // namespace piper
