// SPDX-License-Identifier: GPL-3.0-or-later
// The ranked plans, what narrows them down, and why a plan is not among them.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/ui/example_plan.h"
#include "ui/models/plans_filter_model.h"
#include "ui/models/search_view_model.h"

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
    filter.sort(RankedPlansModel::Dp, Qt::DescendingOrder);
    for (int row = 1; row < filter.rowCount(); ++row) {
        const auto dp = [&](int r) {
            return filter.data(filter.index(r, RankedPlansModel::Dp), Qt::UserRole).toDouble();
        };
        EXPECT_GE(dp(row - 1), dp(row));
    }
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

}  // namespace
}  // namespace piper::ui
