// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "core/base/json_fwd.h"
#include "core/predict/predict.h"
#include "core/search/expert_layout.h"

namespace piper {

/// Plan: one layout for all layers, what a plan's expert_placement says and every runtime takes.
/// Layer: each layer its own, as arXiv 2605.05049 migrates.
enum class PlacementScope { Plan, Layer };

struct PlacementOptions {
    PlacementScope scope = PlacementScope::Plan;
    std::int64_t replicas = 0;     ///< copies a layer has beyond one of each expert
    std::int64_t max_swaps = 512;  ///< of each layout
};

/// A copy that a rank has to be sent.
struct ExpertTransfer {
    std::int64_t expert = 0, from = 0, to = 0;  ///< to, from: ep ranks
    bool operator==(const ExpertTransfer&) const = default;
};

/// What moving experts costs: once, between two steps, every ep group of every stage at a time.
struct MigrationCost {
    Bytes expert;   ///< one expert of one layer on one rank: weights and optimizer state
    Bytes busiest;  ///< most that one rank sends, or receives, over its layers
    Bytes total;    ///< sent by all ranks of the plan
    Cost time;      ///< the busiest rank's, over the links of its ep group
    std::int64_t transfers = 0;  ///< expert copies that move, in one ep group of each stage
};

/// Copies that stand beside an expert's first one.
struct ReplicaCost {
    Bytes memory;        ///< more on the rank that holds most of them, gradients with it
    Bytes sync_payload;  ///< gradients that the busiest rank sends to other copies in a step
    Cost sync;           ///< their time, nothing hidden
};

/// Experts evened out over the ranks of each ep group.
struct ExpertPlacement {
    std::vector<LayerId> moe_layers;
    std::vector<ExpertLayout> layouts;  ///< [1] with scope Plan, else [moe_layers]
    std::int64_t swaps = 0;
    std::vector<std::vector<ExpertTransfer>> transfers;    ///< [layouts]
    double imbalance_before = 1.0, imbalance_after = 1.0;  ///< mean over the MoE layers
    Prediction before, after;  ///< after: with the new loads, replica sync not in it
    MigrationCost migration;
    ReplicaCost replicas;
    bool fits = true;         ///< after, replicas with it
    Plan plan;                ///< what `after` was predicted for
    bool launchable = false;  ///< plan.expert_placement says it all (scope Plan, no replicas)

    /// Seconds a step gains, replica sync paid; not above 0: not worth it.
    [[nodiscard]] Seconds gain() const { return before.step - after.step - replicas.sync.time; }
    /// Steps after which the migration is paid; nothing when it never is.
    [[nodiscard]] std::optional<double> stepsToPay() const;
};

/// Bytes of the training state of one routed expert of one layer on one rank (its share under etp
/// and ZeRO); `with_gradients` as the paper counts: 16 bytes a parameter, 48 d f of a SwiGLU
/// expert in mixed precision.
[[nodiscard]] Bytes expertStateBytes(const Plan& plan, bool with_gradients = false);

/// Copies of `after` that are not in `before`, each from the holder that has sent least so far.
[[nodiscard]] std::vector<ExpertTransfer> expertTransfers(const ExpertLayout& before,
                                                          const ExpertLayout& after,
                                                          std::int64_t ep);

/// `transfers` [1] of every MoE layer, or one list a layer. The exchange is priced as an all-to-all
/// of the ep group whose hottest rank sends what the busiest one does.
[[nodiscard]] MigrationCost migrationCost(const Plan& plan,
                                          const std::vector<std::vector<ExpertTransfer>>& transfers,
                                          bool with_gradients = false);

/// `layouts` [1] of every MoE layer, or one a layer. Every copy of an expert takes part in a ring
/// reduction of its gradients, over the links of the ep group.
[[nodiscard]] ReplicaCost replicaCost(const Plan& plan, const std::vector<ExpertLayout>& layouts);

/// Replicates, climbs, and puts costs and gain on the result. Deterministic.
/// Errors: InvalidInput without MoE layers or with ep 1, for negative counts, or for more replicas
/// than ep - 1 of each expert; those of predict.
[[nodiscard]] Result<ExpertPlacement> balanceExperts(const Plan& plan,
                                                     const PlacementOptions& options);

[[nodiscard]] Json placementJson(const ExpertPlacement& placement);

}  // namespace piper
