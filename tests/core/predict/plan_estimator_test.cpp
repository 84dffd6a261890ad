// SPDX-License-Identifier: Apache-2.0
#include "core/predict/plan_estimator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "core/base/cast.h"
#include "core/base/sample.h"
#include "core/predict/predict.h"
#include "tests/support/example_plans.h"

namespace piper {
namespace {

/// Draws plans of a base that its framework's rules allow.
class Draw {
public:
    Draw(Plan base, std::uint32_t seed) : m_base(std::move(base)), m_random(seed) {}

    /// The next legal plan.
    Plan plan() {
        for (;;) {
            Plan out = m_base;
            decide(out);
            if (validatePlan(out).empty()) return out;
        }
    }

private:
    template <class T>
    T of(std::initializer_list<T> values) {
        std::uniform_int_distribution<std::size_t> index(0, values.size() - 1);
        return values.begin()[index(m_random)];
    }

    void decide(Plan& p) {
        Layout& l = p.layout;
        const std::int64_t world = p.cluster.numDevices();
        l.tp = of<std::int64_t>({1, 1, 2, 4});
        l.sp = l.tp > 1 && of({false, true, true});
        l.cp = of<std::int64_t>({1, 1, 1, 2});
        l.pp = of<std::int64_t>({1, 2, 4, 8, 8});
        l.dp = std::max<std::int64_t>(1, world / (l.tp * l.cp * l.pp));
        l.ep = p.model.moe ? of<std::int64_t>({1, 2, 4, 8}) : 1;
        l.etp = of({std::int64_t{1}, l.tp});
        p.schedule = of({ScheduleKind::GPipe, ScheduleKind::OneF1B, ScheduleKind::OneF1B,
                         ScheduleKind::InterleavedOneF1B, ScheduleKind::ZbH1, ScheduleKind::ZbH2,
                         ScheduleKind::ZbV, ScheduleKind::DualPipe, ScheduleKind::DualPipeV});
        l.vpp = p.schedule == ScheduleKind::InterleavedOneF1B  ? of<std::int64_t>({2, 3, 4})
                : placementOf(p.schedule) == ChunkPlacement::V ? 2
                                                               : 1;
        p.micro_batch_size = of<std::int64_t>({1, 2, 4});
        p.recompute = {};
        p.recompute.granularity = of({RecomputeGranularity::None, RecomputeGranularity::Selective,
                                      RecomputeGranularity::Full});
        if (p.recompute.granularity == RecomputeGranularity::Selective)
            p.recompute.modules = of<std::vector<std::string>>({{"core_attn"}, {"moe_act"}});
        if (p.recompute.granularity == RecomputeGranularity::Full)
            p.recompute.num_layers = of<std::int64_t>({0, 0, 1, 2});
        p.zero_stage = of({0, 1, 2, 3});
        p.offload.optimizer = of({false, false, true});
        p.all_to_all.chunks = of<std::int64_t>({1, 1, 2});
        p.all_to_all.algorithm = of({AllToAllAlgorithm::Auto, AllToAllAlgorithm::Node});
        p.rank_order = of<std::string>({"tp-cp-ep-dp-pp", "tp-cp-dp-ep-pp"});
        p.overlap.reset();
        if (of({false, true})) {
            Overlap o;
            o.tp = of({false, true});
            o.ep = of({false, true});
            o.pp = of({false, true});
            o.dp_grad_reduce = of({false, true});
            o.dp_param_gather = o.dp_grad_reduce;
            p.overlap = o;
        }
    }

    Plan m_base;
    std::mt19937 m_random;
};

struct Case {
    const char* config;
    Framework framework;
    RoutingLoadKind load;
};

std::string textOf(const Plan& plan) {
    const Layout& l = plan.layout;
    return fmt::format("tp {} sp {} cp {} pp {} vpp {} ep {} etp {} dp {} {} mbs {} zero {}", l.tp,
                       l.sp, l.cp, l.pp, l.vpp, l.ep, l.etp, l.dp, toText(plan.schedule),
                       plan.micro_batch_size, plan.zero_stage);
}

std::int64_t simulatedNs(const Plan& plan) {
    const Result<Prediction> played =
        predictUnchecked(plan, PredictMode::Simulated, PredictDetail::StepOnly);
    EXPECT_TRUE(played.ok());
    return played.ok() ? inNs(played->step) : 0;
}

class PlanEstimators : public testing::TestWithParam<Case> {
protected:
    PlanEstimators() : m_base(test::h100Plan(GetParam().config, 8, 2048, 256)) {
        m_base.framework = GetParam().framework;
        m_base.routing_load.kind = GetParam().load;
        m_base.routing_load.zipf_exponent = 0.5;
        m_estimator.emplace(m_base);
    }

    /// The estimate against the prediction it stands for.
    void expectSame(const Plan& plan, const PlanEstimate& fast, const Prediction& slow) {
        EXPECT_EQ(fast.step_ns, inNs(slow.step));
        const double total = slow.memory.device_total.value;
        EXPECT_LE(fast.device_total_low.value, total * (1.0 + 1e-9));
        EXPECT_GE(fast.device_total.value, total * (1.0 - 1e-9));
        if (plan.layout.vpp <= 2) {
            EXPECT_NEAR(fast.device_total.value / total, 1.0, 1e-9);
        }
        expectFloors(plan, fast);
    }

    /// What is known to be held before anything is priced.
    void expectFloors(const Plan& plan, const PlanEstimate& fast) {
        const Bytes states = m_estimator->deviceFloor(HeldPart::States).total;
        const Bytes kept = m_estimator->deviceFloor(HeldPart::Kept).total;
        const Bytes slots = m_estimator->deviceFloor(HeldPart::Slots).total;
        const Bytes most = fast.device_total_low * (1.0 + 1e-9);
        EXPECT_GT(states.value, 0.0);
        EXPECT_LE(states, kept);
        EXPECT_LE(kept, most);
        EXPECT_LE(slots, most);
        // All but the optimizer's moment, which some plans end with.
        if (!pairsSlots(plan.schedule)) m_slot_floors.push_back(slots / fast.device_total_low);
        // What is kept between slots does not ask in how many chunks rows came.
        m_estimator->plan().all_to_all.chunks *= 4;
        EXPECT_NEAR(m_estimator->deviceFloor(HeldPart::Kept).total / kept, 1.0, 1e-9);
        m_estimator->plan() = plan;
    }

    /// Its bounds against what a schedule played gives.
    void expectBounds(const Plan& plan, const PlanEstimate& fast) {
        const std::int64_t played = simulatedNs(plan);
        EXPECT_LE(fast.bound_ns, played);
        EXPECT_GE(asDouble(fast.bound_ns), 0.6 * asDouble(played));
        if (pairsSlots(plan.schedule)) {
            const std::int64_t floor = m_estimator->pairsFloorNs();
            EXPECT_LE(floor, played);
            m_floors.push_back(asDouble(floor) / asDouble(played));
            return;
        }
        if (effectiveOverlap(plan).ep || plan.all_to_all.chunks > 1) return;
        EXPECT_LE(m_estimator->boundHidingNs(0.0, false), fast.bound_ns);
        EXPECT_LE(m_estimator->boundHidingNs(0.0, true), m_estimator->boundHidingNs(0.0, false));
        Plan chunked = plan;
        chunked.all_to_all.chunks = 4;
        EXPECT_LE(m_estimator->boundHidingNs(0.75, false), simulatedNs(chunked));
        if (plan.schedule != ScheduleKind::OneF1B) return;
        for (const ScheduleKind split : {ScheduleKind::ZbH1, ScheduleKind::ZbH2}) {
            chunked.schedule = split;
            if (validatePlan(chunked).empty()) {
                EXPECT_LE(m_estimator->boundHidingNs(0.75, true), simulatedNs(chunked));
                ++m_split;
            }
        }
    }

    Plan m_base;
    std::optional<PlanEstimator> m_estimator;
    std::vector<double> m_floors;       ///< of plans that pair slots, over their steps
    std::vector<double> m_slot_floors;  ///< of memory, of all others
    int m_split = 0;                    ///< held against a schedule that splits the backward
};

TEST_P(PlanEstimators, GiveWhatPredictionGivesForEveryPlanOfASearch) {
    Draw draw(m_base, 7);
    int pairs = 0;
    for (int i = 0; i < 160; ++i) {
        const Plan plan = draw.plan();
        if (i % 40 == 39) {
            EXPECT_GT(m_estimator->numPriced(), 0U);
            m_estimator->forget();
            EXPECT_EQ(m_estimator->numPriced(), 0U);
        }
        SCOPED_TRACE(fmt::format("plan {}: {}", i, textOf(plan)));
        m_estimator->plan() = plan;
        const Result<PlanEstimate> fast = m_estimator->estimate();
        const Result<Prediction> slow =
            predictUnchecked(plan, PredictMode::ClosedForm, PredictDetail::StepOnly);
        ASSERT_EQ(fast.ok(), slow.ok());
        if (!fast.ok()) continue;
        ++pairs;
        expectSame(plan, *fast, *slow);
        expectBounds(plan, *fast);
    }
    EXPECT_GT(pairs, 100);
    EXPECT_NEAR(median(m_slot_floors), 1.0, 1e-9);
    EXPECT_EQ(m_split > 0, GetParam().framework == Framework::Plain);
    // Of use to a search: not far below most plans' times.
    // Megatron has no schedule that pairs slots.
    ASSERT_EQ(m_floors.empty(), GetParam().framework == Framework::Megatron);
    if (!m_floors.empty()) {
        EXPECT_GE(median(m_floors), 0.2);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Models, PlanEstimators,
    testing::Values(
        Case{"configs/Mixtral-8x7B-v0.1.json", Framework::Megatron, RoutingLoadKind::Uniform},
        Case{"configs/Qwen3-30B-A3B.json", Framework::Plain, RoutingLoadKind::Zipf},
        Case{"configs/DeepSeek-V2-Lite.json", Framework::Torchtitan, RoutingLoadKind::Uniform},
        Case{"models/glam-1.2t.json", Framework::Plain, RoutingLoadKind::Uniform}),
    [](const auto& info) { return "Model" + std::to_string(info.index); });

TEST(PlanEstimator, TellsPairsApartByTheirRecomputedLayers) {
    Plan plan = test::h100Plan("configs/Mixtral-8x7B-v0.1.json", 1, 2048, 64);
    plan.layout.pp = 2;
    plan.layout.dp = 4;
    plan.schedule = ScheduleKind::DualPipe;
    plan.recompute = {RecomputeGranularity::Full, 1, {}};
    PlanEstimator estimator(plan);
    for (const std::int64_t layers : {1, 5, 9, 13, 16}) {
        plan.recompute.num_layers = layers;
        estimator.plan() = plan;
        const Result<PlanEstimate> fast = estimator.estimate();
        const Result<Prediction> slow =
            predictUnchecked(plan, PredictMode::ClosedForm, PredictDetail::StepOnly);
        ASSERT_TRUE(fast.ok() && slow.ok());
        EXPECT_EQ(fast->step_ns, inNs(slow->step)) << layers;
    }
}

TEST(PlanEstimator, SaysWhatItCannotPutTogetherFromParts) {
    Plan plan = test::h100Plan("configs/Mixtral-8x7B-v0.1.json", 1, 2048, 64);
    plan.layout.dp = 8;
    PlanEstimator estimator(plan);
    EXPECT_TRUE(estimator.estimate().ok());
    estimator.plan().offload.activations = 0.5;
    EXPECT_EQ(estimator.estimate().error().code, ErrorCode::Unsupported);
}

}  // namespace
}  // namespace piper
