// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json_fwd.h"
#include "core/predict/fit.h"
#include "core/search/model_family.h"
#include "core/search/search.h"

namespace piper {

// Concept: every question is one search, or a few. Whether anything fits is asked of the most
// frugal part of the space (1F1B, one sequence a micro-batch, full recompute, unless they are
// fixed); the last refusal is confirmed by the whole space, of which the answer's plan is the best.

/// How searches run: the program's loop over plans, its wish to stop, and who is told after each of
/// several searches (sensitivity).
struct SearchRun {
    ParallelFor parallel_for = sequentialFor();
    std::stop_token stop;
    std::function<void(std::size_t done, std::size_t total)> progress = {};
};

/// An empty feasible set: what stops it, and the plan that would fit with the least change.
struct Shortfall {
    std::string layout;                 ///< the plan of the space that comes nearest
    std::string rule, message;          ///< "memory": by how much; or a rule of the framework
    std::optional<RankedPlan> nearest;  ///< the plan that needs least memory, as if it fitted
    std::vector<FitChange> changes;     ///< of it, smallest first
};

/// The best plan of a space, or why there is none.
struct BestPlan {
    std::optional<RankedPlan> best;
    Shortfall shortfall;  ///< when there is none
};
/// Errors: those of searchPlans.
[[nodiscard]] Result<BestPlan> bestPlan(const SearchSpace& space, const SearchRun& run);

struct LargestModel {
    GrowBy by = GrowBy::Layers;
    std::int64_t size = 0, next_size = 0;  ///< next_size does not fit
    ModelSpec model;
    std::optional<RankedPlan> best;  ///< none: not even the smallest fits
    Shortfall stopped;               ///< of next_size, or of the smallest
    std::int64_t sizes_tried = 0;
};
/// The largest member of the family of space.base.model, by bisection over its sizes: next_size is
/// one step further, of familyStep and of what the fixed tp (hidden), ep (experts) or pp and vpp
/// (layers) divide. Errors: those of familyMember and searchPlans.
[[nodiscard]] Result<LargestModel> largestModel(const SearchSpace& space, GrowBy by,
                                                const SearchRun& run);

struct FewestDevices {
    std::int64_t devices = 0, nodes = 0;
    std::optional<RankedPlan> best;   ///< none: no count asked for fits (doubling up to the most)
    std::int64_t least_possible = 0;  ///< weights and gradients alone fill that many
    std::int64_t counts_tried = 0;
    Shortfall stopped;  ///< of the next smaller count, or of the most
    std::int64_t stopped_devices =
        0;  ///< that count; 0: devices is the least that can be asked for
};
/// Devices that the plan of space.base needs with its batch and seq_len: powers of two within a
/// node, then whole nodes, up to `max_devices` (0: the cluster's). Every smaller count was refused.
/// Errors: those of searchPlans; InvalidInput for more than a node where no link joins nodes.
[[nodiscard]] Result<FewestDevices> fewestDevices(const SearchSpace& space,
                                                  std::int64_t max_devices, const SearchRun& run);

/// Time and cost of a token budget.
struct TrainingBill {
    Seconds time;  ///< with availability
    double steps = 0.0, device_hours = 0.0;
    double price = 0.0;  ///< 0: the cluster names none
};
/// `availability`: share of the time in which steps are made, above 0 to 1.
[[nodiscard]] TrainingBill trainingBill(const RankedPlan& plan, double tokens, double availability);

/// One part of the cluster multiplied.
struct Purchase {
    std::string part;        ///< "memory", "network", "node_links", "nodes"
    double factor = 1.0;     ///< of what is bought
    std::int64_t nodes = 0;  ///< "nodes": how many then
    std::optional<RankedPlan> best;
    double tokens_per_second = 0.0;  ///< of all devices
    /// Over the cluster as it is, minus 1 (links: without measured curves of them, which tell
    /// nothing of faster ones); nothing when that fits no plan.
    std::optional<double> gain;
};
struct Purchases {
    BestPlan now;
    std::vector<Purchase> parts;  ///< most tokens a second first
};
/// What the best plan of the space, `now`, becomes with each part `factor` times as large (nodes:
/// rounded up); parts the cluster does not have are left out. Errors: those of searchPlans;
/// InvalidInput for a factor that is not above 1.
[[nodiscard]] Result<Purchases> nextPurchases(const SearchSpace& space, const BestPlan& now,
                                              double factor, const SearchRun& run);

[[nodiscard]] Json shortfallJson(const Shortfall& shortfall);
[[nodiscard]] Json largestModelJson(const LargestModel& answer);
[[nodiscard]] Json fewestDevicesJson(const FewestDevices& answer);
[[nodiscard]] Json billJson(const TrainingBill& bill);
[[nodiscard]] Json purchasesJson(const Purchases& answer);
/// Name, degrees, step, MFU, tokens a second and memory of a plan.
[[nodiscard]] Json planSummaryJson(const RankedPlan& plan);

}  // namespace piper
