// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/cost/cost.h"
#include "core/plan/plan.h"
#include "core/resources/memory.h"
#include "core/schedule/closed_form.h"
#include "core/schedule/slot_moments.h"
#include "core/schedule/slot_pieces.h"

namespace piper {

/// Step time and memory of a plan without its table of terms, bottlenecks and evidence.
struct PlanEstimate {
    std::int64_t step_ns = 0;   ///< PredictMode::ClosedForm's
    std::int64_t bound_ns = 0;  ///< PredictMode::Simulated is not below this
    /// Means over the stages, without the step's end: compute; dispatch and combine; slots one
    /// after the other on the compute lane, with what they wait for inside.
    std::int64_t compute_ns = 0, exchange_ns = 0, slots_ns = 0;
    Bytes device_total;  ///< of the worst stage: this must fit into the capacity
    /// Smaller than device_total where the chunks between a stage's first and last differ in what
    /// they hold: the truth lies between.
    Bytes device_total_low;
    StageId peak_stage;
    bool complete = true;  ///< false: device_total alone is known, and it may be higher
};

// Concept: plans of one search differ in a few numbers, and most of what a prediction costs depends
// on few of those: layers on the split of tensors and the micro-batch, states on the grids, moments
// on the schedule's shape. Each is worked out once and kept; a plan is then put together from parts
// in about ten microseconds, to the nanosecond and byte that predict() gives in its closed form.

/// Answers for plans that differ from `base` in layout, schedule, micro-batch and global batch,
/// recompute, ZeRO stage, optimizer off-load, exchange, rank order, stage layers and overlap;
/// model, cluster, precision and all else stay. Not for several threads at once.
class PlanEstimator {
public:
    explicit PlanEstimator(const Plan& base);
    PlanEstimator(const PlanEstimator&) = delete;
    PlanEstimator& operator=(const PlanEstimator&) = delete;

    /// The plan that the next estimate is of: change it between estimates.
    [[nodiscard]] Plan& plan() { return m_plan; }
    /// Errors: RuleBroken where the schedule has no slots; Unsupported for a routing histogram with
    /// a row for each layer and for off-loaded activations, which are not the same in all stages.
    /// With a limit, of a schedule with pairs that needs more only that it does (not `complete`).
    [[nodiscard]] Result<PlanEstimate> estimate(std::optional<Bytes> limit = {});

    /// What the device holds at least, without any slot written out: what lives all the time, and
    /// where `with_slots` what slots begin with. 0 where estimate() gives an error.
    [[nodiscard]] Bytes leastDeviceTotal(bool with_slots);
    /// Of a plan whose schedule pairs slots, without any pair written out: no step is shorter. What
    /// a rank computes or exchanges in one slot of a pair takes as long in the pair, and its first
    /// slot waits for those of the ranks before it. 0 where estimate() gives an error.
    [[nodiscard]] std::int64_t pairsFloorNs();
    /// Of the plan last estimated (not one of pairs): no schedule of these slots ends earlier when
    /// that share of every exchange is hidden, whatever follows the slots.
    [[nodiscard]] std::int64_t boundHidingNs(double share) const;

    /// Layouts whose prices are kept: about 15 kB each.
    [[nodiscard]] std::size_t numPriced() const { return m_layouts.size(); }
    /// Drops prices of layouts; estimates stay the same.
    void forget();

private:
    static constexpr std::size_t kKeySize = 24;
    using Key = std::array<std::int32_t, kKeySize>;
    struct KeyHash {
        std::size_t operator()(const Key& key) const;
    };
    /// Pieces of a layout and the chunks put together from them.
    struct LayoutPrices {
        explicit LayoutPrices(SlotPieces p) : pieces(std::move(p)) {}
        SlotPieces pieces;
        std::unordered_map<std::uint64_t, ChunkSlots> chunks;  ///< by pattern and ends
        std::unordered_map<std::uint64_t, ChunkSlots> pairs;   ///< Forward's entry holds the pair
        std::int32_t number = 0;
        const LayoutPrices* plain = nullptr;  ///< without recompute
    };
    /// What a stage holds from start to end, and the end of its step.
    struct StageState {
        Bytes persistent, at_optimizer;
        std::int64_t tail_ns = 0;
    };
    /// A stage by what lies on it.
    struct StageContent {
        bool embedding = false, head = false;
        std::int32_t dense = 0, moe = 0;
        bool operator==(const StageContent&) const = default;
    };
    /// A stage chunk, ready to be priced.
    struct ChunkUse {
        std::int64_t begin = 0, end = 0;  ///< layers
        ChunkEnds ends;
        bool sends_forward = false, sends_back = false;  ///< to another rank
    };
    /// What the slots of a stage take and hold.
    struct StageSum {
        RankSlots rank;
        std::int64_t busy_ns = 0, exchange_ns = 0;
        std::int64_t lane_ns = 0;        ///< its slots on the compute lane
        std::int64_t first_ns = 0;       ///< until the next stage can start, once this one can
        std::int64_t last_ns = 0;        ///< one gradient through the first chunk
        std::int64_t after_last_ns = 0;  ///< of its last slot, after the message
        Bytes low, high;                 ///< held at the peak, without what lives all the time
    };
    struct Held;

    [[nodiscard]] Status supported() const;
    [[nodiscard]] Key layoutKey(bool split, const Recompute& recompute);
    [[nodiscard]] LayoutPrices& layout(bool split);
    [[nodiscard]] LayoutPrices& plainLayout(bool split);
    [[nodiscard]] const std::vector<RankMoments>* moments();
    /// Only collectives that hide behind compute ask what the layers take (`layout`: their number).
    [[nodiscard]] bool hidesCollectives() const;
    [[nodiscard]] const StageState& state(std::int32_t layout, StageId stage,
                                          const StageContent& content);
    [[nodiscard]] std::int64_t messageNs();

    void setChunks();
    [[nodiscard]] const ChunkUse& use(std::size_t stage, ModelChunkId chunk) const;
    [[nodiscard]] StageContent content(std::size_t stage) const;
    [[nodiscard]] std::uint32_t pattern(std::int64_t begin, std::int64_t end);
    [[nodiscard]] const ChunkSlots& chunk(LayoutPrices& prices, const ChunkUse& use);
    [[nodiscard]] const ChunkSlots& pair(LayoutPrices& prices, std::size_t stage,
                                         const SlotForm& form);
    [[nodiscard]] Held heldOf(LayoutPrices& prices, std::size_t stage);
    /// The moments of the plan's schedule, with all that an estimate asks first; null without
    /// slots.
    [[nodiscard]] const std::vector<RankMoments>* begin();
    [[nodiscard]] Bytes persistent(std::int32_t layout, std::size_t stage) {
        return state(layout, StageId(static_cast<std::int32_t>(stage)), content(stage)).persistent;
    }
    /// Most that a slot of the stage begins with, at least.
    [[nodiscard]] Bytes heldAtLeast(LayoutPrices& prices, const RankMoments& rank,
                                    std::size_t stage);
    [[nodiscard]] std::optional<PlanEstimate> beyond(LayoutPrices& prices,
                                                     const std::vector<RankMoments>& ranks,
                                                     const DeviceReserve& reserve, Bytes limit);
    void findPeak(LayoutPrices& prices, std::size_t stage, const RankMoments& moments,
                  StageSum& out);
    [[nodiscard]] StageSum stageSum(LayoutPrices& prices, std::size_t stage,
                                    const RankMoments& moments);

    Plan m_plan;
    CostModel m_cost;
    std::vector<std::int64_t> m_moe_before;  ///< [layers + 1]
    std::unordered_map<Key, std::unique_ptr<LayoutPrices>, KeyHash> m_layouts;
    std::int32_t m_next_number = 0;  ///< of LayoutPrices; none comes twice
    std::unordered_map<Key, StageState, KeyHash> m_states;
    std::unordered_map<Key, std::int64_t, KeyHash> m_messages;
    std::unordered_map<Key, std::vector<RankMoments>, KeyHash> m_moments;
    std::unordered_map<std::string, std::uint32_t> m_pattern_names;
    std::vector<std::uint32_t> m_patterns;  ///< [begin * (layers + 1) + end], 0 not yet known
    std::vector<std::vector<std::string>> m_modules;
    std::vector<std::string> m_orders;
    PipelineShape m_shape;
    std::vector<ChunkUse> m_chunks;  ///< [stage * chunks + chunk]
    std::vector<StageSum> m_sums;
    std::vector<RankSlots> m_ranks;
    std::int64_t m_message_ns = 0;           ///< to the next rank or back
    std::vector<const ChunkSlots*> m_slots;  ///< [form] of the stage at hand
};

}  // namespace piper
