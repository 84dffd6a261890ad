// SPDX-License-Identifier: GPL-3.0-or-later
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/paths.h"
#include "tests/ui/example_plan.h"
#include "ui/models/pinned_plans_model.h"
#include "ui/models/plan_summary.h"
#include "ui/models/plan_view_model.h"
#include "ui/models/rank_map.h"
#include "ui/models/ranked_plans_model.h"
#include "ui/models/roofline_model.h"

namespace piper::ui {
namespace {

class PlanModels : public ::testing::Test {
protected:
    PlanModels() {
        QObject::connect(&model, &PlanViewModel::predictionChanged, [&] { ++changes; });
    }
    void settle() { executor.runAll(); }

    ManualExecutor executor;
    PlanViewModel model{executor};
    int changes = 0;
};

TEST_F(PlanModels, TheClosedFormIsThereAtOnceAndTheSimulationReplacesIt) {
    model.setPlan(test::clusterPlan());
    ASSERT_NE(model.prediction(), nullptr) << model.fault().toStdString();
    EXPECT_EQ(model.mode(), PredictMode::ClosedForm);
    EXPECT_GT(model.prediction()->mfu, 0.0);
    EXPECT_LT(model.prediction()->mfu, 1.0);
    EXPECT_EQ(changes, 1);
    settle();
    EXPECT_EQ(model.mode(), PredictMode::Simulated);
    EXPECT_EQ(changes, 2);
}

TEST_F(PlanModels, AStaleAnswerIsDropped) {
    model.setPlan(test::clusterPlan());
    settle();
    int answers = 0;
    QObject::connect(&model, &PlanViewModel::legalValuesChanged, [&] { ++answers; });
    model.setKnob(Knob::RouterTopk, 4);
    // The user moves on while the answer for top-k 4 is on its way.
    ASSERT_TRUE(executor.runOne([&] { model.setKnob(Knob::RouterTopk, 1); }));
    EXPECT_EQ(answers, 0);
    EXPECT_EQ(model.mode(), PredictMode::ClosedForm);
    settle();
    EXPECT_EQ(answers, 1);
    EXPECT_EQ(model.mode(), PredictMode::Simulated);
    EXPECT_EQ(model.plan().model.moe->router_topk, 1);
    EXPECT_DOUBLE_EQ(model.prediction()->mfu, predict(model.plan())->mfu);
}

TEST_F(PlanModels, SlidersKnowTheLegalValuesOnly) {
    model.setPlan(test::clusterPlan());
    settle();
    for (const KnobInfo& info : knobTable()) {
        const auto& legal = model.legal(info.knob);
        ASSERT_FALSE(legal.empty()) << info.key;
        EXPECT_TRUE(std::is_sorted(legal.begin(), legal.end())) << info.key;
        EXPECT_TRUE(std::count(legal.begin(), legal.end(), model.value(info.knob))) << info.key;
        for (const std::int64_t value : legal)
            EXPECT_TRUE(validatePlan(withKnob(model.plan(), info.knob, value)).empty())
                << info.key << " " << value;
    }
    const auto& ep = model.legal(Knob::Ep);
    EXPECT_EQ(std::count(ep.begin(), ep.end(), 7), 0) << "8 experts do not divide by 7";
}

TEST_F(PlanModels, AnIllegalValueIsRefusedWithItsReason) {
    model.setPlan(test::clusterPlan());
    settle();
    QString reason;
    QObject::connect(&model, &PlanViewModel::rejected,
                     [&](Knob, qint64, const QString& why) { reason = why; });
    model.setKnob(Knob::Ep, 7);
    EXPECT_EQ(model.plan().layout.ep, 8);
    EXPECT_TRUE(reason.startsWith(QStringLiteral("ep 7: "))) << reason.toStdString();
    EXPECT_TRUE(reason.contains(QStringLiteral("8"))) << reason.toStdString();
    model.setKnob(Knob::Tp, 0);
    EXPECT_TRUE(reason.contains(QStringLiteral("below 1"))) << reason.toStdString();
}

TEST_F(PlanModels, DpFollowsWhenAnotherDegreeMoves) {
    model.setPlan(test::clusterPlan());
    settle();
    model.setKnob(Knob::Pp, 8);
    EXPECT_EQ(model.plan().layout.pp, 8);
    EXPECT_EQ(model.plan().layout.dp, 8);
    EXPECT_EQ(model.plan().layout.world(), 64);
}

TEST_F(PlanModels, ABrokenPlanShowsItsViolationsAndNoNumbers) {
    Plan plan = test::clusterPlan();
    plan.layout.ep = 7;
    model.setPlan(plan);
    EXPECT_EQ(model.prediction(), nullptr);
    EXPECT_FALSE(model.violations().empty());
    settle();
    EXPECT_EQ(model.prediction(), nullptr);
}

TEST_F(PlanModels, AModelFileIsImportedOnTheExecutorAndABadOneIsRefused) {
    model.setPlan(test::clusterPlan());
    const auto path = piper::test::sourceDir() / "packaging/examples/configs/OLMoE-1B-7B-0924.json";
    model.importModel(QString::fromStdString(path.string()));
    EXPECT_EQ(model.plan().model.moe->num_experts, 8) << "no file is read before the executor runs";
    settle();
    EXPECT_EQ(model.plan().model.moe->num_experts, 64);
    QString message;
    QObject::connect(&model, &PlanViewModel::importFailed,
                     [&](const QString& why) { message = why; });
    model.importModel(QStringLiteral("/nonexistent/config.json"));
    settle();
    EXPECT_TRUE(message.contains(QStringLiteral("/nonexistent/config.json")));
    EXPECT_EQ(model.plan().model.moe->num_experts, 64);
}

TEST_F(PlanModels, EveryMetricHasAUnitAndADefinition) {
    model.setPlan(test::clusterPlan());
    settle();
    const auto metrics = planMetrics(model.plan(), *model.prediction());
    ASSERT_EQ(metrics.size(), 6U);
    for (const Metric& m : metrics) {
        EXPECT_TRUE(m.value.contains(u' ')) << m.id.toStdString() << ": " << m.value.toStdString();
        EXPECT_FALSE(m.definition.isEmpty()) << m.id.toStdString();
    }
    EXPECT_FALSE(bottleneckText(*model.prediction()).isEmpty());
}

TEST_F(PlanModels, PhaseSharesAreSortedAndNoneIsLost) {
    model.setPlan(test::clusterPlan());
    settle();
    double sum = 0.0, shown = 0.0;
    for (const Seconds s : model.prediction()->phase) sum += s.value;
    double last = 1e300;
    for (const PhaseShare& share : phaseShares(*model.prediction())) {
        EXPECT_LE(share.time.value, last);
        last = share.time.value;
        shown += share.time.value;
    }
    EXPECT_NEAR(shown, sum, 1e-12);
}

std::size_t optionOf(const std::vector<ChoiceOption>& options, std::string_view label) {
    const auto at = std::ranges::find(options, label, &ChoiceOption::label);
    EXPECT_NE(at, options.end()) << label;
    return static_cast<std::size_t>(at - options.begin());
}

TEST_F(PlanModels, EachListHasOneCurrentOptionAndReasonsForTheGreyOnes) {
    model.setPlan(test::clusterPlan());
    settle();
    for (const ChoiceInfo& info : choiceTable()) {
        const std::vector<ChoiceOption>& options = model.options(info.choice);
        EXPECT_EQ(std::ranges::count(options, true, &ChoiceOption::current), 1) << info.key;
        for (std::size_t i = 0; i < options.size(); ++i) {
            const Plan changed = withChoice(model.plan(), info.choice, i);
            EXPECT_EQ(validatePlan(changed).empty(), options[i].reason.empty())
                << info.key << " " << options[i].label;
        }
    }
    // Megatron-LM launches neither GPipe nor the zero-bubble schedules.
    Plan megatron = test::clusterPlan();
    megatron.framework = Framework::Megatron;
    const std::vector<ChoiceOption> schedules = choiceOptions(megatron, Choice::Schedule);
    EXPECT_NE(schedules[optionOf(schedules, "zb_v")].reason.find("megatron"), std::string::npos);
}

TEST_F(PlanModels, AScheduleBringsItsChunksAndChunksTheirSchedule) {
    model.setPlan(test::clusterPlan());
    settle();
    const auto choose = [&](std::string_view label) {
        model.setChoice(Choice::Schedule,
                        static_cast<qint64>(optionOf(model.options(Choice::Schedule), label)));
        settle();
    };
    choose("interleaved_1f1b");
    EXPECT_GT(model.plan().layout.vpp, 1);
    EXPECT_NE(model.prediction(), nullptr);
    choose("zb_v");
    EXPECT_EQ(model.plan().layout.vpp, 2);
    choose("1f1b");
    EXPECT_EQ(model.plan().layout.vpp, 1);
    model.setKnob(Knob::Vpp, 2);
    EXPECT_EQ(model.plan().schedule, ScheduleKind::InterleavedOneF1B);
    model.setKnob(Knob::Vpp, 1);
    EXPECT_EQ(model.plan().schedule, ScheduleKind::OneF1B);
}

TEST_F(PlanModels, ASettingOutsideTheListStaysAndIsNamed) {
    Plan plan = test::clusterPlan();
    plan.routing_load.kind = RoutingLoadKind::Zipf;
    plan.routing_load.zipf_exponent = 0.6;
    const std::vector<ChoiceOption> options = choiceOptions(plan, Choice::RoutingSkew);
    EXPECT_EQ(options.back().label, "Zipf 0.6");
    EXPECT_TRUE(options.back().current);
    EXPECT_EQ(withChoice(plan, Choice::RoutingSkew, options.size() - 1).routing_load,
              plan.routing_load);
    EXPECT_EQ(withChoice(plan, Choice::RoutingSkew, 0).routing_load, RoutingLoad{});
}

TEST_F(PlanModels, UndoTakesBackAMovementAsAWholeAndRedoDoesItAgain) {
    model.setPlan(test::clusterPlan());
    settle();
    EXPECT_FALSE(model.canUndo());
    const std::int64_t topk = model.value(Knob::RouterTopk);
    model.setKnob(Knob::RouterTopk, 1, true);
    model.setKnob(Knob::RouterTopk, 4, true);
    model.endDrag();
    model.setKnob(Knob::RouterTopk, 8, true);
    model.endDrag();
    model.setChoice(Choice::ZeroStage, 2);
    EXPECT_EQ(model.plan().zero_stage, 2);
    model.undo();
    model.undo();
    EXPECT_EQ(model.value(Knob::RouterTopk), 4);
    model.undo();
    EXPECT_EQ(model.value(Knob::RouterTopk), topk);
    EXPECT_FALSE(model.canUndo());
    model.redo();
    EXPECT_EQ(model.value(Knob::RouterTopk), 4);
    model.setKnob(Knob::RouterTopk, 2);
    EXPECT_FALSE(model.canRedo()) << "a new change leaves nothing to redo";
    settle();
    EXPECT_DOUBLE_EQ(model.prediction()->mfu, predict(model.plan())->mfu);
}

TEST_F(PlanModels, LayersFollowTheModelsPattern) {
    Plan plan = test::clusterPlan();
    model.setPlan(plan);
    settle();
    model.setKnob(Knob::Layers, 16);
    EXPECT_EQ(model.plan().model.layers.size(), 16U);
    EXPECT_EQ(model.plan().model.name, plan.model.name);
    EXPECT_TRUE(validatePlan(model.plan()).empty());
}

TEST_F(PlanModels, PinnedPlansStandBesideTheOneAtHand) {
    model.setPlan(test::clusterPlan());
    settle();
    PinnedPlansModel pins(model);
    EXPECT_EQ(pins.columnCount(), 1);
    pins.pin();
    const auto differs = [&](int row, int column) {
        return pins.data(pins.index(row, column), PinnedPlansModel::DiffersRole).toBool();
    };
    for (int row = 0; row < pins.rowCount(); ++row) EXPECT_FALSE(differs(row, 1)) << row;
    const QVariant mfu = pins.data(pins.index(0, 1), Qt::DisplayRole);
    model.setKnob(Knob::Pp, 8);
    settle();
    EXPECT_TRUE(differs(0, 1));
    EXPECT_EQ(pins.data(pins.index(0, 1), Qt::DisplayRole), mfu) << "a pin stays what it was";
    EXPECT_FALSE(differs(11, 1)) << "the sequence is the same";
    pins.choose(1);
    EXPECT_EQ(model.plan().layout.pp, 4);
    while (pins.canPin()) pins.pin();
    EXPECT_EQ(pins.numPins(), PinnedPlansModel::kMostPins);
    pins.unpin(1);
    EXPECT_EQ(pins.columnCount(), 4);
    pins.unpin(0);
    EXPECT_EQ(pins.columnCount(), 4) << "the plan at hand cannot be unpinned";
    Plan broken = test::clusterPlan();
    broken.layout.ep = 7;
    model.setPlan(broken);
    EXPECT_FALSE(pins.canPin());
    EXPECT_EQ(pins.data(pins.index(0, 0), Qt::DisplayRole).toString(), QStringLiteral("–"));
}

TEST(RankMap, ShowsEachRankOnItsNodeAndInBothGrids) {
    Plan plan = test::clusterPlan();
    plan.cluster.nodes = 2;
    plan.cluster.devices_per_node = 4;
    plan.layout = {.tp = 2, .sp = true, .cp = 1, .pp = 2, .vpp = 1, .ep = 2, .etp = 1, .dp = 2};
    const RankMap map(plan);
    EXPECT_EQ(map.dump().toStdString(),
              "Nodes (devices of a node)\n"
              "  node 0: 0 1 2 3\n"
              "  node 1: 4 5 6 7\n"
              "Dense grid: tp 2 × cp 1 × dp 2 × pp 2 (dp down, cp and tp across)\n"
              "  stage 0: 0 1 / 2 3\n"
              "  stage 1: 4 5 / 6 7\n"
              "Expert grid: etp 1 × ep 2 × edp 2 × pp 2 (edp down, ep and etp across)\n"
              "  stage 0: 0 1 / 2 3\n"
              "  stage 1: 4 5 / 6 7\n");
    EXPECT_EQ(map.group(RankId(std::int32_t{5}), "dp").size(), 2U);
    EXPECT_TRUE(map.describe(RankId(std::int32_t{5}), "pp")
                    .contains(QStringLiteral("Rank 5: node 1, device 1")));
    EXPECT_TRUE(map.describe(RankId(std::int32_t{5}), "pp")
                    .contains(QStringLiteral("its pp group: 2 ranks on 2 nodes")));
}

TEST(RankMap, NoRankIsLostWhateverTheOrder) {
    Plan plan = test::clusterPlan();
    for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-pp-ep-dp"}) {
        plan.rank_order = order;
        const RankMap map(plan);
        for (const RankPicture& picture : map.pictures()) {
            std::set<RankId> seen;
            for (const RankBlock& block : picture.blocks)
                seen.insert(block.ranks.begin(), block.ranks.end());
            EXPECT_EQ(static_cast<std::int64_t>(seen.size()), map.world())
                << order << ": " << picture.title.toStdString();
        }
    }
}

TEST(RooflineModel, ShowsEveryGemmAndLinkWithItsEvidence) {
    Result<Roofline> found = roofline(test::clusterPlan());
    ASSERT_TRUE(found.ok()) << found.error().text();
    RooflineModel model;
    model.setRoofline(std::move(found).value());
    ASSERT_GT(model.numGemms(), 5);
    ASSERT_GT(model.rowCount(), model.numGemms());
    EXPECT_EQ(model.gemmPoints().size() + model.linkPoints().size(),
              static_cast<std::size_t>(model.rowCount()));
    const QString table = tableText(model);
    EXPECT_TRUE(table.contains(QStringLiteral("Expert, forward\t"))) << table.toStdString();
    EXPECT_TRUE(table.contains(QStringLiteral("Dispatch, dispatch\t"))) << table.toStdString();
    for (int row = 0; row < model.rowCount(); ++row) {
        EXPECT_FALSE(model.index(row, RooflineModel::EvidenceColumn)
                         .data(Qt::DisplayRole)
                         .toString()
                         .isEmpty());
        EXPECT_TRUE(model.index(row, RooflineModel::Rate)
                        .data(Qt::DisplayRole)
                        .toString()
                        .endsWith(QStringLiteral("/s")));
    }
    for (const RoofPoint& p : model.gemmPoints()) EXPECT_LE(p.rate, p.roof * 1.0001);
    model.setRoofline({});
    EXPECT_EQ(model.rowCount(), 0);
}

TEST(NearestLegal, GoesByRatio) {
    const std::vector<std::int64_t> legal = {1, 2, 4, 8, 64};
    EXPECT_EQ(nearestLegal(legal, 3), 4);
    EXPECT_EQ(nearestLegal(legal, 20), 8);
    EXPECT_EQ(nearestLegal(legal, 1000), 64);
    EXPECT_EQ(nearestLegal({}, 5), 5);
}

}  // namespace
}  // namespace piper::ui
