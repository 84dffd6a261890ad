// SPDX-License-Identifier: GPL-3.0-or-later
#include <gtest/gtest.h>

#include "ui/models/timeline_view_model.h"

namespace piper::ui {
namespace {

piper::Run runOf(int events) {
    piper::Run run;
    run.ranks.emplace_back();
    run.ranks[0].rank = RankId(0);
    run.ranks[0].names = {"gemm", "ncclSend"};
    for (int i = 0; i < events; ++i) {
        Event e;
        e.start_ns = i * 1000;
        e.duration_ns = 800;
        e.name = i % 10 == 9 ? 1 : 0;
        e.category = EventCategory::Kernel;
        run.ranks[0].events.push_back(e);
    }
    return run;
}

class TimelineModel : public testing::Test {
protected:
    TimelineModel() { m_model.setPanes({{QStringLiteral("a"), makeRunTimeline(runOf(1000)), 0}}); }
    [[nodiscard]] std::int64_t countShown() const {
        std::int64_t count = 0;
        for (const TimelineBlock& b : m_model.picture(0)->blocks) count += b.count;
        return count;
    }
    ManualExecutor m_executor;
    TimelineViewModel m_model{m_executor, QStringLiteral("test")};
};

/// A file that cannot be read any more.
class LostTimeline final : public TimelineSource {
public:
    LostTimeline() { setSteps({}); }
    Result<TimelineView> view(TimeWindow, std::int64_t) override { return lost(); }
    Result<std::vector<SelectionTotal>> totals(TimeWindow, std::span<const std::size_t>) override {
        return lost();
    }
    Result<std::optional<FoundEvent>> find(const EventQuery&) override { return lost(); }

private:
    static Error lost() { return fail(ErrorCode::Io, "the file is gone"); }
};

TEST_F(TimelineModel, AFailureIsSaidOnceAndNotDrawn) {
    m_model.setPanes({{QStringLiteral("a"), std::make_shared<LostTimeline>(), 0}});
    int failures = 0, pictures = 0;
    QObject::connect(&m_model, &TimelineViewModel::failed, [&failures] { ++failures; });
    QObject::connect(&m_model, &TimelineViewModel::pictureChanged, [&pictures] { ++pictures; });
    m_model.want(0, {0, 1'000}, 1);
    m_executor.runAll();
    EXPECT_EQ(failures, 1);
    EXPECT_EQ(pictures, 0) << "a new frame would ask again at once";
}

/// A part of the file cannot be read, as the first look at it shows.
class DamagedTimeline final : public TimelineSource {
public:
    DamagedTimeline() { setSteps({}); }
    Result<TimelineView> view(TimeWindow window, std::int64_t pixel_ns) override {
        m_met = {"a summary of rank 3 is damaged"};
        return TimelineView{window, pixel_ns, {}, {}};
    }
    Result<std::vector<SelectionTotal>> totals(TimeWindow, std::span<const std::size_t>) override {
        m_met.emplace_back("a sum of rank 5 is damaged");
        return std::vector<SelectionTotal>();
    }
    Result<std::optional<FoundEvent>> find(const EventQuery&) override {
        m_met.resize(2);
        m_met.emplace_back("a chunk of rank 5 is damaged");
        return std::optional<FoundEvent>();
    }
    std::vector<std::string> damage() const override { return m_met; }

private:
    std::vector<std::string> m_met;
};

TEST_F(TimelineModel, DamageThatReadingMeetsIsToldOnceWithItsPane) {
    m_model.setPanes({{QStringLiteral("a"), makeRunTimeline(runOf(9)), 0},
                      {QStringLiteral("b"), std::make_shared<DamagedTimeline>(), 0}});
    int told = 0;
    QObject::connect(&m_model, &TimelineViewModel::damageChanged, [&told] { ++told; });
    for (const std::int64_t end : {1'000, 50'000}) {
        m_model.want(0, {0, end}, 1);
        m_model.want(1, {0, end}, 1);
        m_executor.runAll();
    }
    EXPECT_EQ(told, 1);
    EXPECT_EQ(m_model.damage(), QStringList{QStringLiteral("b: a summary of rank 3 is damaged")});
    m_model.select({1, {0, 10}, {0}});
    m_executor.runAll();
    m_model.search(QStringLiteral("x"), true, 0);
    m_executor.runAll();
    EXPECT_EQ(m_model.damage().size(), 3);
    m_model.setPanes({{QStringLiteral("a"), makeRunTimeline(runOf(9)), 0}});
    EXPECT_TRUE(m_model.damage().isEmpty());
}

TEST_F(TimelineModel, TheLastPictureStaysUntilTheNewOneIsThere) {
    EXPECT_EQ(m_model.picture(0), nullptr);
    m_model.want(0, {0, 1'000'000}, 1000);
    m_executor.runAll();
    ASSERT_NE(m_model.picture(0), nullptr);
    EXPECT_EQ(countShown(), 1000);
    // Within the margin and at about the same zoom nothing is asked.
    m_model.want(0, {100'000, 1'100'000}, 1100);
    EXPECT_TRUE(m_executor.idle());
    m_model.want(0, {0, 10'000}, 10);
    EXPECT_FALSE(m_executor.idle());
    EXPECT_EQ(countShown(), 1000) << "the old one";
    // While one is on its way, only the newest wish waits.
    m_model.want(0, {500'000, 520'000}, 20);
    m_model.want(0, {700'000, 740'000}, 40);
    EXPECT_TRUE(m_executor.runOne());
    EXPECT_EQ(m_model.picture(0)->window, (TimeWindow{-5'000, 15'000}));
    EXPECT_TRUE(m_executor.runOne());
    EXPECT_EQ(m_model.picture(0)->window, (TimeWindow{680'000, 760'000}));
    EXPECT_TRUE(m_executor.idle());
    // What is asked of panes that are gone never comes.
    m_model.want(0, {0, 10}, 1);
    m_model.setPanes({{QStringLiteral("b"), makeRunTimeline(runOf(5)), 0}});
    m_executor.runAll();
    EXPECT_EQ(m_model.picture(0), nullptr);
}

TEST_F(TimelineModel, EventsAreChosenAndSteppedAndSearched) {
    m_model.want(0, {0, 1'000'000}, 100);
    m_executor.runAll();
    m_model.choose(0, 0, m_model.picture(0)->row(0)[41]);
    m_executor.runAll();
    ASSERT_TRUE(m_model.chosen());
    EXPECT_EQ(m_model.chosen()->found.event.start_ns, 41'000);
    EXPECT_EQ(m_model.lines(*m_model.chosen()).front(), "gemm");
    EXPECT_EQ(m_model.lines(*m_model.chosen()).back(), "rank 0 · lane compute");
    m_model.chooseNeighbour(true);
    m_executor.runAll();
    EXPECT_EQ(m_model.chosen()->found.event.start_ns, 42'000);
    m_model.chooseNeighbour(false);
    m_executor.runAll();
    EXPECT_EQ(m_model.chosen()->found.event.start_ns, 41'000);
    m_model.search(QStringLiteral("NCCL"), true, 0);
    m_executor.runAll();
    EXPECT_EQ(m_model.chosen()->found.event.start_ns, 49'000);
    m_model.search(QStringLiteral("nccl"), false, 0);
    m_executor.runAll();
    EXPECT_EQ(m_model.chosen()->found.event.start_ns, 39'000);
    QString missing;
    QObject::connect(&m_model, &TimelineViewModel::notFound,
                     [&](const QString& text) { missing = text; });
    m_model.search(QStringLiteral("gelu"), true, 0);
    m_executor.runAll();
    EXPECT_EQ(missing, QStringLiteral("gelu"));
}

TEST_F(TimelineModel, ASelectionFillsTheTable) {
    m_model.select({0, {500, 10'500}, {0}});
    m_executor.runAll();
    const SelectionTotalsModel& table = m_model.totals();
    ASSERT_EQ(table.rowCount(), 2);
    const auto cell = [&](int row, int column) {
        return table.data(table.index(row, column), Qt::DisplayRole).toString();
    };
    EXPECT_EQ(cell(0, SelectionTotalsModel::Name), QStringLiteral("gemm"));
    EXPECT_EQ(cell(0, SelectionTotalsModel::Count), QStringLiteral("10"));
    EXPECT_EQ(table.totals()[0].sum_ns, 300 + 8 * 800 + 500);
    EXPECT_EQ(table.totals()[1].sum_ns, 800);
    m_model.select({});
    EXPECT_EQ(table.rowCount(), 0);
}

}  // namespace
}  // namespace piper::ui
