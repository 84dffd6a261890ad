// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/evidence.h"
#include "core/cost/cost.h"
#include "core/schedule/closed_form.h"
#include "core/schedule/expand.h"
#include "core/schedule/exposure.h"
#include "core/schedule/lane_matrix.h"
#include "core/schedule/slot_player.h"

namespace piper {

/// What one stage does in a step, without a timeline.
struct StageEstimate {
    std::int64_t end_ns = 0;
    std::int64_t busy_compute_ns = 0;
    std::int64_t span_ns = 0;  ///< sum of its slots, each as if nothing had to be waited for
    std::array<std::int64_t, kNumPhases> phase_ns{};    ///< sums over operations
    std::array<std::int64_t, kNumPhases> exposed_ns{};  ///< communication outside compute
    Flops recompute_flops;
    Bytes peak;
    std::array<Bytes, kNumMemoryTerms> at_peak{};
    Operation peak_operation;  ///< of the schedule's order; id -1 when nothing comes and goes
};

struct StepEstimate {
    std::int64_t step_ns = 0;
    std::vector<StageEstimate> stages;  ///< [pp]
    double bubble_fraction = 0.0;       ///< mean share of the step in which a stage waits
};

/// A plan's step at slot level: the same times as simulate(), without its operations. Made once,
/// then asked again with other costs to learn what the step would be without something.
class StepModel {
public:
    /// New seconds of an operation in place of cost.time.
    using Adjust = std::function<Seconds(const Operation&, const OperationWork&, const Cost&)>;

    /// The plan must outlive the model. Errors: those of makeSlots.
    [[nodiscard]] static Result<StepModel> make(const Plan& plan, const CostModel& cost);

    /// Errors: External for a deadlock.
    [[nodiscard]] Result<StepEstimate> estimate(const Adjust& adjust = {}) const;

    /// The step without playing the slots (closedFormStepNs).
    [[nodiscard]] StepEstimate closedForm(const Adjust& adjust = {}) const;

    /// Cost of every operation of a step added up by phase, with the weakest evidence.
    [[nodiscard]] std::array<Cost, kNumPhases> phaseCosts() const;
    [[nodiscard]] const SlotTable& slots() const { return m_slots; }

private:
    /// One kind of slot with its costs; shared by all stage chunks that do the same work.
    struct PricedSlot {
        SlotTemplate slot;
        std::vector<Cost> costs;
        std::vector<double> shares;  ///< of the time that the lane is held up (exposure.h)
        std::vector<const OperationWork*> work;
        std::array<Bytes, kNumMemoryTerms> net{};      ///< what the slot leaves held
        std::array<Bytes, kNumMemoryTerms> at_peak{};  ///< held at its worst operation
        Bytes net_total, peak_total;
        std::int32_t peak_operation = -1;
        LayerId first_layer;  ///< of the chunk it was made for
    };
    using SlotPointer = std::shared_ptr<const PricedSlot>;
    struct SlotUse {
        SlotPointer slot;
        std::int64_t count = 0;  ///< slots of this form in the step
        LayerId first_layer;     ///< of the chunk that uses it
    };
    struct PricedStage {
        std::vector<SlotUse> slots;  ///< [form of m_player]
        SlotUse tail;
        std::array<Bytes, kNumMemoryTerms> persistent{};
    };
    /// What a slot takes under one choice of costs.
    struct UseTimes {
        LaneMatrix matrix;
        std::int64_t span_ns = 0, busy_compute_ns = 0;
        std::array<std::int64_t, kNumPhases> phase_ns{}, exposed_ns{};
        Flops recompute_flops;
    };
    using TimesTable = std::map<const PricedSlot*, UseTimes>;

    explicit StepModel(const Plan& plan) : m_plan(&plan) {}

    [[nodiscard]] SlotPointer priceSlot(SlotTemplate slot, const CostModel& cost,
                                        Exposure& exposure, StageId stage, LayerId first_layer);
    [[nodiscard]] SlotPointer slotOf(const StageExpander& expander, const SlotForm& form,
                                     const CostModel& cost, Exposure& exposure, StageId stage);
    void priceStage(const CostModel& cost, Exposure& exposure, StageId stage);
    [[nodiscard]] static std::vector<std::int64_t> durations(const PricedSlot& slot,
                                                             const Adjust& adjust);
    [[nodiscard]] static UseTimes timesOf(const PricedSlot& slot, const Adjust& adjust);
    [[nodiscard]] TimesTable times(const Adjust& adjust) const;
    [[nodiscard]] static StageEstimate stageSums(const PricedStage& stage, const TimesTable& times);
    [[nodiscard]] RankSlots rankSlots(std::size_t stage, const StageEstimate& sums,
                                      const TimesTable& times) const;
    static void finish(StepEstimate& out);
    void findPeak(std::size_t stage, StageEstimate& out) const;

    const Plan* m_plan;
    SlotTable m_slots;
    std::optional<SlotPlayer> m_player;
    std::shared_ptr<WorkTable> m_work;
    struct Price {
        Cost cost;
        double share = 1.0;
    };
    std::unordered_map<std::uint64_t, Price> m_costs;
    std::map<std::string, SlotPointer> m_shared;  ///< by what a stage chunk does
    std::vector<PricedStage> m_stages;
};

}  // namespace piper
