// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/search/search.h"

namespace piper {

/// What a plan of that framework and model computes again when it saves memory by module.
[[nodiscard]] Recompute selectiveRecompute(const Plan& plan);

/// Grids and micro-batch of a plan.
struct SearchCore {
    Layout layout;  ///< vpp 1
    std::int64_t micro_batch_size = 1;
    std::uint32_t rank_order = 0;  ///< of SearchChoices::rankOrders()
};

struct PipelineChoice {
    ScheduleKind schedule = ScheduleKind::OneF1B;
    std::int64_t vpp = 1;
};

/// What a plan gives up for memory.
struct SavingChoice {
    std::uint32_t recompute = 0;  ///< of SearchChoices::recomputes()
    std::int64_t recomputed_layers = 0;
    int zero_stage = 0;
    bool offload = false;
};

/// One plan of a space.
struct SearchPoint {
    SearchCore core;
    PipelineChoice pipeline;
    AllToAllChoice exchange;
    SavingChoice saving;
};

/// Every choice of a search, with those that the base fixes as their only value. Whether a
/// framework takes a combination is for its rules (validatePlan).
///   tp: powers of two within a node (at most 64) that divide the heads; cp: powers of two that
///   leave a rank 2048 tokens; pp: divisors of the ranks up to the layers; vpp: divisors of a
///   stage's layers up to 12; ep: divisors of the experts; etp: 1 or tp; micro-batch: divisors of
///   a replica's batch up to 16; of our own worker EP first or DP first over the links and the
///   exchange in 1, 2 or 4 chunks (pairs of slots hide theirs whole), flat or staged; recompute
///   none, selective, full of all or of the first layers of a chunk; ZeRO 0 to 3; optimizer state
///   on the device or on the host.
class SearchChoices {
public:
    explicit SearchChoices(const SearchSpace& space);

    [[nodiscard]] const std::vector<SearchCore>& cores() const { return m_cores; }
    [[nodiscard]] std::vector<PipelineChoice> pipelines(const SearchCore& core) const;
    [[nodiscard]] std::vector<AllToAllChoice> exchanges(const SearchCore& core,
                                                        const PipelineChoice& pipeline) const;
    /// Each costs no less time and no more memory than the one before it.
    [[nodiscard]] const std::vector<Recompute>& recomputes() const { return m_recomputes; }
    [[nodiscard]] const std::vector<int>& zeroStages() const { return m_zero_stages; }
    [[nodiscard]] const std::vector<bool>& offloads() const { return m_offloads; }
    [[nodiscard]] const std::vector<std::string>& rankOrders() const { return m_orders; }
    /// Whether plans differ in the algorithm of their exchange.
    [[nodiscard]] bool searchesAlgorithms() const;
    /// Whether some plan runs exchanges beside the compute of another chunk or micro-batch.
    [[nodiscard]] bool hidesExchanges() const;
    /// Values of SavingChoice::recomputed_layers under that recompute, 0 (all) first.
    [[nodiscard]] std::vector<std::int64_t> recomputedLayers(const SearchPoint& point) const;

    /// Writes the point over the base of the space.
    void apply(const SearchPoint& point, Plan& plan) const;
    [[nodiscard]] Plan plan(const SearchPoint& point) const;

private:
    [[nodiscard]] bool fixed(std::string_view key) const;
    [[nodiscard]] const Plan& base() const { return m_space.base; }
    /// The frameworks' exchanges and rank orders are theirs; our worker's are searched.
    [[nodiscard]] bool ownWorker() const { return base().framework == Framework::Plain; }
    [[nodiscard]] std::vector<std::int64_t> tensorDegrees() const;
    [[nodiscard]] std::vector<std::int64_t> contextDegrees(std::int64_t tp) const;
    [[nodiscard]] std::vector<std::int64_t> pipelineDegrees(std::int64_t ranks) const;
    [[nodiscard]] std::vector<std::int64_t> expertDegrees() const;
    [[nodiscard]] std::vector<std::int64_t> microBatches(std::int64_t dp) const;
    void addCores();
    void addExpertGrids(Layout dense);
    void setSavings();

    const SearchSpace& m_space;
    std::int64_t m_world = 1;
    std::vector<SearchCore> m_cores;
    std::vector<std::string> m_orders;
    std::vector<Recompute> m_recomputes;
    std::vector<int> m_zero_stages;
    std::vector<bool> m_offloads;
};

}  // namespace piper
