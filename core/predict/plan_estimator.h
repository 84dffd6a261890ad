// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
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
};

/// What a device is known to hold.
enum class HeldPart : std::uint8_t {
    States,  ///< what lives all the time
    Kept,    ///< also what slots begin with
    Slots,   ///< also the most that a slot holds: all but the end of the step, where slots do not
             ///< come in pairs
};
struct DeviceFloor {
    Bytes total;
    StageId stage;
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
    /// `shared`: moments of shapes that several estimators read; others are worked out here.
    explicit PlanEstimator(const Plan& base, const SlotMomentsTable* shared = nullptr);
    PlanEstimator(const PlanEstimator&) = delete;
    PlanEstimator& operator=(const PlanEstimator&) = delete;

    /// The plan that the next estimate is of: change it between estimates.
    [[nodiscard]] Plan& plan() { return m_plan; }
    /// Errors: RuleBroken where the schedule has no slots; Unsupported for a routing histogram with
    /// a row for each layer and for off-loaded activations, which are not the same in all stages.
    [[nodiscard]] Result<PlanEstimate> estimate();

    /// What the worst stage's device holds at least, without anything priced; each part takes more
    /// time than the one before. 0 where estimate() gives an error.
    [[nodiscard]] DeviceFloor deviceFloor(HeldPart part);
    /// Of a plan whose schedule pairs slots, without any pair written out: no step is shorter. What
    /// a rank computes or exchanges in one slot of a pair takes as long in the pair, and its first
    /// slot waits for those of the ranks before it. 0 where estimate() gives an error.
    [[nodiscard]] std::int64_t pairsFloorNs();
    /// Of the plan last estimated (not one of pairs): no schedule of these slots on these stages
    /// ends earlier when that share of every exchange is hidden, whatever follows the slots; with
    /// `split` none either that runs a backward in two slots.
    [[nodiscard]] std::int64_t boundHidingNs(double share, bool split) const;

    /// Layouts whose prices are kept: about 15 kB each.
    [[nodiscard]] std::size_t numPriced() const { return m_layouts.size(); }
    /// Drops prices of layouts; estimates stay the same.
    void forget();

private:
    static std::int32_t number(std::int64_t value) { return static_cast<std::int32_t>(value); }

    static constexpr std::size_t kKeySize = 24;
    using Key = std::array<std::int32_t, kKeySize>;
    struct KeyHash {
        std::size_t operator()(const Key& key) const;
    };
    /// What is the same wherever the groups of a layout lie.
    struct Shapes {
        Shapes(const Plan& plan, const CostModel& cost) : work(plan), parts(work, cost) {}
        WorkTable work;  ///< of plans with these shapes
        SlotShapes parts;
        std::unordered_map<std::uint64_t, ChunkHeld> chunks;  ///< by pattern and ends
        std::int32_t number = 0;
        const Shapes* plain = this;  ///< without recompute
    };
    /// Pieces of a layout and the chunks put together from them.
    struct LayoutPrices {
        LayoutPrices(SlotPieces p, Shapes& s) : parts(std::move(p)), shapes(s) {}
        SlotPieces parts;
        Shapes& shapes;
        std::unordered_map<std::uint64_t, ChunkSlots> chunks;  ///< by pattern and ends
        std::unordered_map<std::uint64_t, PairSlots> pairs;
        std::int32_t number = 0;
        const LayoutPrices* plain = this;  ///< without recompute
    };
    /// The end of a stage's step.
    struct StageTail {
        Bytes held;  ///< most, over what lives all the time
        std::int64_t ns = 0;
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
    [[nodiscard]] Key shapesKey();
    [[nodiscard]] Shapes& shapes(bool split);
    [[nodiscard]] Key layoutKey(const Shapes& shapes, std::int32_t order) const;
    [[nodiscard]] LayoutPrices& layout(bool split);
    /// Full recompute of the first layers of a chunk: the others are as without.
    [[nodiscard]] bool recomputesSome() const;
    /// make(), of the plan without recompute.
    template <class Make>
    [[nodiscard]] auto* withoutRecompute(const Make& make);
    /// Only collectives that hide behind compute ask what the layers take.
    [[nodiscard]] bool hidesCollectives() const;
    [[nodiscard]] Key stageKey(const StageContent& content,
                               std::initializer_list<std::int64_t> more);
    /// What a stage holds from start to end.
    [[nodiscard]] Bytes persistent(StageId stage, const StageContent& content);
    [[nodiscard]] const StageTail& tail(const LayoutPrices& prices, StageId stage,
                                        const StageContent& content);
    /// Calls visit(stage, what it holds from start to end).
    template <class Visit>
    void forEachPersistent(const Visit& visit);
    [[nodiscard]] std::int64_t messageNs();

    void setChunks();
    [[nodiscard]] const ChunkUse& use(std::size_t stage, ModelChunkId chunk) const;
    [[nodiscard]] StageContent content(std::size_t stage) const;
    [[nodiscard]] std::uint32_t pattern(std::int64_t begin, std::int64_t end);
    [[nodiscard]] std::uint64_t chunkKey(const ChunkUse& use);
    /// What the parts of `kept` make of a chunk, once.
    template <class Kept>
    [[nodiscard]] const auto& ofChunk(Kept& kept, const ChunkUse& use);
    [[nodiscard]] std::span<const LayerUse> layersOf(const ChunkUse& use);
    [[nodiscard]] const ChunkSlots& chunk(LayoutPrices& prices, const ChunkUse& use);
    [[nodiscard]] const ChunkHeld& chunkHeld(Shapes& shapes, const ChunkUse& use);
    [[nodiscard]] const PairSlots& pair(LayoutPrices& prices, std::size_t stage,
                                        const SlotForm& form);
    [[nodiscard]] Held heldOf(Shapes& shapes, std::size_t stage);
    /// The moments of the plan's schedule, with all that an estimate asks first; null without
    /// slots.
    [[nodiscard]] const std::vector<RankMoments>* begin();
    /// Most that the stage holds in or where `begin` at the beginning of a slot, at least.
    [[nodiscard]] Bytes heldAtLeast(Shapes& shapes, const RankMoments& rank, std::size_t stage,
                                    bool begin);
    struct PeakRange {
        Bytes low, high;
    };
    /// Of a single slot of that form: those of Middle chunks stand for each other.
    [[nodiscard]] PeakRange slotPeak(Shapes& shapes, std::size_t stage, const SlotForm& form);
    void findPeak(LayoutPrices& prices, std::size_t stage, const RankMoments& moments,
                  StageSum& out);
    [[nodiscard]] StageSum stageSum(LayoutPrices& prices, std::size_t stage,
                                    const RankMoments& moments);

    Plan m_plan;
    CostModel m_cost;
    std::vector<std::int64_t> m_moe_before;  ///< [layers + 1]
    std::unordered_map<Key, std::unique_ptr<LayoutPrices>, KeyHash> m_layouts;
    std::unordered_map<Key, std::unique_ptr<Shapes>, KeyHash> m_shapes;
    std::int32_t m_next_number = 0;  ///< of Shapes and LayoutPrices; none comes twice
    std::unordered_map<Key, Bytes, KeyHash> m_persistent;
    std::unordered_map<Key, StageTail, KeyHash> m_tails;
    std::unordered_map<Key, std::int64_t, KeyHash> m_messages;
    const SlotMomentsTable* m_shared_moments;
    SlotMomentsTable m_moments;
    std::unordered_map<std::string, std::uint32_t> m_pattern_names;
    std::vector<std::uint32_t> m_patterns;  ///< [begin * (layers + 1) + end], 0 not yet known
    std::vector<std::vector<std::string>> m_modules;
    std::vector<std::string> m_orders;
    PipelineShape m_shape;
    const std::vector<RankMoments>* m_ranks_of_shape = nullptr;
    /// What the chunks of a plan follow from.
    struct ChunksOf {
        std::int64_t pp = 0, vpp = 0;
        ChunkPlacement placement = ChunkPlacement::Loop;
        bool blocking = false;
        std::vector<std::int64_t> stage_layers;
        bool operator==(const ChunksOf&) const = default;
    };
    ChunksOf m_chunks_of;
    std::vector<ChunkUse> m_chunks;  ///< [stage * chunks + chunk]
    std::vector<StageSum> m_sums;
    std::vector<RankSlots> m_ranks;
    std::int64_t m_message_ns = 0;   ///< to the next rank or back
    std::vector<LayerUse> m_layers;  ///< of the chunk at hand
};

}  // namespace piper
