// SPDX-License-Identifier: GPL-3.0-or-later
// The ranked plans, what narrows them down, and why a plan is not among them.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ui/example_plan.h"
#include "ui/models/curves_view_model.h"
#include "ui/models/plans_filter_model.h"
#include "ui/models/search_view_model.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

class SearchModels : public ::testing::Test {
protected:
    SearchModels() {
        search.start(test::clusterPlan(), {"schedule", "tp", "cp"}, Objective::Mfu, 60);
        executor.runAll();
    }
    [[nodiscard]] std::vector<int> where(const char* text) {
        const QString fault = filter.setText(QString::fromLatin1(text));
        EXPECT_TRUE(fault.isEmpty()) << fault.toStdString();
        return filter.shownRows();
    }
    [[nodiscard]] std::vector<int> rowsThat(auto holds) {
        std::vector<int> out;
        for (int row = 0; row < search.plans().rowCount(); ++row)
            if (holds(search.plans().planAt(row))) out.push_back(row);
        return out;
    }

    ManualExecutor executor;
    SearchViewModel search{executor};
    PlansFilterModel filter{search.plans()};
};

TEST_F(SearchModels, WordsNarrowTheTableDown) {
    ASSERT_GT(search.plans().rowCount(), 10) << search.status().toStdString();
    EXPECT_EQ(where("").size(), static_cast<std::size_t>(search.plans().rowCount()));
    EXPECT_EQ(where("pp<=2 ep=8"), rowsThat([](const RankedPlan& r) {
                  return r.plan.layout.pp <= 2 && r.plan.layout.ep == 8;
              }));
    EXPECT_EQ(where("memory<50 micro!=1"), rowsThat([](const RankedPlan& r) {
                  return inGiB(r.prediction.memory.peak) < 50.0 && r.plan.micro_batch_size != 1;
              }));
    const double best = 100.0 * search.plans().planAt(0).prediction.mfu;
    EXPECT_EQ(
        where(fmt::format("mfu>={:.9f}", best - 1.0).c_str()),
        rowsThat([best](const RankedPlan& r) { return 100.0 * r.prediction.mfu >= best - 1.0; }));
    EXPECT_EQ(where("FULL"), rowsThat([](const RankedPlan& r) {
                  return r.plan.recompute.granularity == RecomputeGranularity::Full;
              }));
    EXPECT_TRUE(where("rank>1e9").empty());
}

TEST_F(SearchModels, AWordThatCannotBeReadIsNamedAndChangesNothing) {
    const std::vector<int> before = where("ep=8");
    for (const char* bad : {"ip=8", "ep=eight", "ep<=", "mfu>4O"}) {
        const QString fault = filter.setText(QString::fromLatin1(bad));
        EXPECT_FALSE(fault.isEmpty()) << bad;
        EXPECT_EQ(filter.shownRows(), before) << bad;
    }
    EXPECT_TRUE(filter.setText(QStringLiteral("ip=8")).contains(QStringLiteral("'ip'")));
}

TEST_F(SearchModels, ABrushHoldsUntilTheNextSearch) {
    filter.setBrushed(std::set<int>{0, 3, 5});
    EXPECT_EQ(filter.shownRows(), (std::vector<int>{0, 3, 5}));
    const std::vector<int> both = where("rank>2");
    EXPECT_EQ(both, (std::vector<int>{3, 5}));
    (void)where("");
    search.start(test::clusterPlan(), {"schedule", "tp", "cp", "pp"}, Objective::Mfu, 20);
    executor.runAll();
    EXPECT_EQ(filter.shownRows().size(), static_cast<std::size_t>(search.plans().rowCount()));
}

TEST_F(SearchModels, NumbersSortAsNumbers) {
    filter.sort(RankedPlans::Dp, Qt::DescendingOrder);
    for (int row = 1; row < filter.rowCount(); ++row) {
        const auto dp = [&](int r) {
            return filter.data(filter.index(r, RankedPlans::Dp), Qt::UserRole).toDouble();
        };
        EXPECT_GE(dp(row - 1), dp(row));
    }
}

TEST_F(SearchModels, ASortAsksTheKeyOfEachRowOnceAndKeepsTheOrderOfEqualOnes) {
    const std::vector<double> keys = {3, 1, 2, 1, 3, 2, 1};
    for (const bool descending : {false, true}) {
        std::vector<int> asked(keys.size());
        const std::vector<int> sorted = rowsSortedBy(
            keys.size(),
            [&](std::size_t row) {
                ++asked[row];
                return keys[row];
            },
            descending);
        EXPECT_EQ(asked, std::vector<int>(keys.size(), 1));
        EXPECT_EQ(sorted, descending ? (std::vector<int>{0, 4, 2, 5, 1, 3, 6})
                                     : (std::vector<int>{1, 3, 6, 2, 5, 0, 4}));
    }
}

TEST_F(SearchModels, AFilterIsOneChangeAndASortKeepsWhatIsPointedAt) {
    int resets = 0, removals = 0;
    QObject::connect(&filter, &QAbstractItemModel::modelReset, [&] { ++resets; });
    QObject::connect(&filter, &QAbstractItemModel::rowsRemoved, [&] { ++removals; });
    ASSERT_FALSE(where("dp>1").empty());
    EXPECT_EQ(resets, 1);
    EXPECT_EQ(removals, 0) << "not one for each stretch of rows";
    const QPersistentModelIndex last = filter.index(filter.rowCount() - 1, RankedPlans::Mfu);
    const int plan = filter.planRow(last.row());
    filter.sort(RankedPlans::Memory, Qt::DescendingOrder);
    EXPECT_EQ(filter.planRow(last.row()), plan);
    EXPECT_EQ(filter.rowOf(plan), last.row());
    for (int row = 1; row < filter.rowCount(); ++row)
        EXPECT_GE(search.plans().number(filter.planRow(row - 1), RankedPlans::Memory),
                  search.plans().number(filter.planRow(row), RankedPlans::Memory));
    EXPECT_EQ(resets, 1);
}

TEST_F(SearchModels, WhyNotNamesTheRuleTheMemoryOrTheTerm) {
    const auto answer = [&](const char* asked) {
        search.askWhyNot(test::clusterPlan(), QString::fromLatin1(asked));
        executor.runAll();
        return search.whyNotText().toStdString();
    };
    EXPECT_NE(answer("ep=7").find("7"), std::string::npos);
    EXPECT_NE(answer("pp=1 ep=1").find("GiB"), std::string::npos) << answer("pp=1 ep=1");
    EXPECT_NE(answer("pp=8 ep=8").find("more than the best plan's"), std::string::npos)
        << answer("pp=8 ep=8");
    EXPECT_NE(answer("pq=8").find("pq"), std::string::npos);
}

TEST_F(SearchModels, TheHeatMapHoldsTheBestPlanOfEachPairOfValues) {
    HeatMapModel& heat = search.heatMap();
    heat.setDimensions(RankedPlans::Ep, RankedPlans::Pp);
    ASSERT_GT(heat.rowCount(), 1);
    ASSERT_GT(heat.columnCount(), 1);
    int filled = 0, counted = 0;
    for (int row = 0; row < heat.rowCount(); ++row)
        for (int column = 0; column < heat.columnCount(); ++column) {
            const QModelIndex cell = heat.index(row, column);
            const int plan = cell.data(HeatMapModel::PlanRole).toInt();
            const QString ep = heat.headerData(row, Qt::Vertical, Qt::DisplayRole).toString();
            const QString pp = heat.headerData(column, Qt::Horizontal, Qt::DisplayRole).toString();
            const std::vector<int> there = rowsThat([&](const RankedPlan& r) {
                return ep == QStringLiteral("EP %1").arg(r.plan.layout.ep) &&
                       pp == QStringLiteral("PP %1").arg(r.plan.layout.pp);
            });
            counted += static_cast<int>(there.size());
            if (plan < 0) {
                EXPECT_TRUE(there.empty()) << ep.toStdString() << ' ' << pp.toStdString();
                EXPECT_FALSE(cell.data(HeatMapModel::ShareRole).isValid());
                continue;
            }
            ++filled;
            // The plans stand best first.
            ASSERT_FALSE(there.empty());
            EXPECT_EQ(plan, there.front());
            EXPECT_EQ(cell.data(Qt::DisplayRole).toString(),
                      search.plans().cellText(plan, RankedPlans::Mfu));
        }
    EXPECT_EQ(counted, search.plans().rowCount()) << "no plan is lost";
    EXPECT_GT(filled, 1);
    EXPECT_EQ(heat.best().data(HeatMapModel::PlanRole).toInt(), 0);
    EXPECT_EQ(heat.best().data(HeatMapModel::ShareRole).toDouble(), 1.0);
    // Of times and memory the least is the best.
    heat.setMeasure(RankedPlans::Memory);
    const int least = heat.best().data(HeatMapModel::PlanRole).toInt();
    for (int row = 0; row < search.plans().rowCount(); ++row)
        EXPECT_GE(search.plans().number(row, RankedPlans::Memory),
                  search.plans().number(least, RankedPlans::Memory));
}

TEST_F(SearchModels, AnEmptyCellAsksWhyNot) {
    HeatMapModel& heat = search.heatMap();
    heat.setDimensions(RankedPlans::Ep, RankedPlans::Schedule);
    QModelIndex empty;
    for (int row = 0; row < heat.rowCount(); ++row)
        if (heat.index(row, 0).data(HeatMapModel::PlanRole).toInt() < 0) empty = heat.index(row, 0);
    ASSERT_TRUE(empty.isValid()) << "one power of two beyond those found";
    const QString asked = heat.asked(empty);
    const QString ep = heat.headerData(empty.row(), Qt::Vertical, Qt::DisplayRole).toString();
    EXPECT_TRUE(asked.contains(QString(ep).replace(QStringLiteral("EP "), QStringLiteral("ep="))))
        << asked.toStdString();
    search.askWhyNot(test::clusterPlan(), asked);
    executor.runAll();
    EXPECT_FALSE(search.whyNotText().contains(QStringLiteral("no value of")))
        << search.whyNotText().toStdString();
    EXPECT_GT(search.whyNotText().size(), 40) << search.whyNotText().toStdString();
}

class Curves : public ::testing::Test {
protected:
    Curves() { plan.global_batch_size = 8; }
    /// "setting | first | second | has a plan", a line a point.
    [[nodiscard]] std::string dump() const {
        QString out;
        for (int row = 0; row < curves.rowCount(); ++row) {
            for (const int column : {0, 1, 2})
                out += curves.index(row, column).data(Qt::DisplayRole).toString() +
                       QStringLiteral(" | ");
            out += curves.curve().points[static_cast<std::size_t>(row)].plan != nullptr
                       ? QStringLiteral("plan\n")
                       : QStringLiteral("none\n");
        }
        return out.toStdString();
    }
    Plan plan = test::localPlan();
    ManualExecutor executor;
    CurvesViewModel curves{executor};
};

TEST_F(Curves, SensitivityShowsTheBestPlanAndTheHeldOneAtEachValue) {
    curves.start(CurveKind::RoutingSkew, plan);
    EXPECT_TRUE(curves.running());
    executor.runAll();
    EXPECT_FALSE(curves.running());
    ASSERT_EQ(curves.rowCount(), 5) << curves.status().toStdString();
    const std::vector<CurvePoint>& points = curves.curve().points;
    // At today's value the best plan is the held one; nowhere is it worse.
    ASSERT_TRUE(points[0].first && points[0].second) << dump();
    EXPECT_NEAR(*points[0].first, *points[0].second, 1e-6 * *points[0].first) << dump();
    for (const CurvePoint& p : points) {
        ASSERT_NE(p.plan, nullptr) << dump();
        EXPECT_DOUBLE_EQ(*p.first, predict(*p.plan)->tokens_per_second_per_device);
        EXPECT_GE(*p.first, p.second.value_or(0.0) * (1 - 1e-9)) << dump();
    }
    EXPECT_GT(*points[0].first, *points[4].first) << "skew costs" << dump();
}

TEST_F(Curves, CapacityShowsTheLargestModelOverTheDevices) {
    curves.start(CurveKind::CapacityExperts, plan);
    executor.runAll();
    ASSERT_GE(curves.rowCount(), 2) << curves.status().toStdString();
    const std::vector<CurvePoint>& points = curves.curve().points;
    EXPECT_EQ(points.back().setting, countText(plan.cluster.numDevices()));
    for (std::size_t i = 1; i < points.size(); ++i)
        EXPECT_GE(points[i].first.value_or(0.0), points[i - 1].first.value_or(0.0)) << dump();
    ASSERT_NE(points.back().plan, nullptr) << dump();
    EXPECT_TRUE(validatePlan(*points.back().plan).empty());
    EXPECT_FALSE(curves.curve().sentence.isEmpty());
}

TEST_F(Curves, WhatCannotBeAskedIsNamed) {
    curves.start(CurveKind::Link, plan);  // one machine: no link joins nodes
    executor.runAll();
    EXPECT_EQ(curves.rowCount(), 0);
    EXPECT_TRUE(curves.status().contains(QStringLiteral("no link that joins nodes")))
        << curves.status().toStdString();
    curves.start(CurveKind::RoutingSkew, plan);
    curves.cancel();
    executor.runAll();
    EXPECT_EQ(curves.rowCount(), 0) << "what was cancelled says nothing any more";
}

}  // namespace
}  // namespace piper::ui
