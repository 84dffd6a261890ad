// SPDX-License-Identifier: GPL-3.0-or-later
#include <QApplication>
#include <QComboBox>
#include <QImage>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QTableView>
#include <QTest>
#include <QWheelEvent>

#include "tests/ui/example_plan.h"
#include "tests/ui/window_fixture.h"
#include "ui/plots/plans_plot.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/views/explore_page.h"
#include "ui/views/schedule_page.h"
#include "ui/views/theme.h"

namespace piper::ui {
namespace {

class Pages : public test::WindowTest {};

TEST_F(Pages, EachShowsSomethingOfTheRightSize) {
    open(test::clusterPlan());
    m_window->resize(1400, 820);
    for (int i = 0; i < kNumPages; ++i) {
        const auto id = static_cast<PageId>(i);
        m_window->showPage(id);
        ASSERT_TRUE(settled());
        const QImage picture = m_window->grab().toImage();
        EXPECT_EQ(picture.size(), QSize(1400, 820) * m_window->devicePixelRatio());
        // The content without the navigation.
        EXPECT_GT(test::numColours(picture.copy(150, 0, 1250, 820)), 16)
            << pageName(id).toStdString();
        EXPECT_EQ(m_window->currentPage(), id);
    }
}

TEST_F(Pages, TheSessionShowsFactsOfThisMachine) {
    open(test::clusterPlan());
    m_window->showPage(PageId::Sessions);
    ASSERT_TRUE(settled());
    const SessionViewModel& session = m_workbench->sessions.local();
    ASSERT_EQ(session.state(), SessionViewModel::State::Open);
    ASSERT_GE(session.facts().size(), 5U);
    EXPECT_TRUE(session.facts()[1].value.contains(QStringLiteral("Linux")));
    EXPECT_TRUE(session.facts()[3].value.contains(QStringLiteral("GiB")));
}

TEST_F(Pages, ASearchRanksPlansAndADoubleClickPutsTheSlidersThere) {
    open(test::clusterPlan());
    m_window->showPage(PageId::Explore);
    QTest::mouseClick(child<QPushButton>(PageId::Explore, "search"), Qt::LeftButton);
    ASSERT_TRUE(waitFor([&] { return !m_workbench->search.running(); }));
    RankedPlansModel& plans = m_workbench->search.plans();
    ASSERT_GT(plans.rowCount(), 3) << m_workbench->search.status().toStdString();
    for (int row = 1; row < plans.rowCount(); ++row)
        EXPECT_GE(plans.planAt(row - 1).prediction.mfu, plans.planAt(row).prediction.mfu);
    auto* table = child<QTableView>(PageId::Explore, "plans");
    const QModelIndex third = table->model()->index(2, 0);
    QTest::mouseClick(table->viewport(), Qt::LeftButton, {}, table->visualRect(third).center());
    QTest::mouseDClick(table->viewport(), Qt::LeftButton, {}, table->visualRect(third).center());
    EXPECT_EQ(m_window->currentPage(), PageId::Plan);
    EXPECT_EQ(m_workbench->plan.plan().layout, plans.planAt(2).plan.layout);
}

TEST_F(Pages, TableAndPlotShowTheSamePlans) {
    open(test::clusterPlan());
    m_window->showPage(PageId::Explore);
    QTest::mouseClick(child<QPushButton>(PageId::Explore, "search"), Qt::LeftButton);
    ASSERT_TRUE(waitFor([&] { return !m_workbench->search.running(); }));
    auto* table = child<QTableView>(PageId::Explore, "plans");
    auto* plot = pageAs<ExplorePage>(PageId::Explore)->findChild<PlansPlot*>();
    ASSERT_NE(plot, nullptr);
    auto* canvas = plot->findChild<QWidget*>(QStringLiteral("plot"));
    const int all = table->model()->rowCount();
    // A rectangle over the left half holds some of the points.
    QTest::mousePress(canvas, Qt::LeftButton, {}, QPoint(5, 5));
    QTest::mouseMove(canvas, QPoint(canvas->width() / 2, canvas->height() - 5));
    QTest::mouseRelease(canvas, Qt::LeftButton, {},
                        QPoint(canvas->width() / 2, canvas->height() - 5));
    EXPECT_LT(table->model()->rowCount(), all);
    EXPECT_GT(table->model()->rowCount(), 0);
    // Where there are none, a click takes the brush away.
    QTest::mouseClick(canvas, Qt::LeftButton, {}, QPoint(2, 2));
    EXPECT_EQ(table->model()->rowCount(), all);
    auto* filter = child<QLineEdit>(PageId::Explore, "filter");
    QTest::keyClicks(filter, QStringLiteral("ep=8 tp"));
    EXPECT_EQ(table->model()->rowCount(), 0);
    QTest::keyClicks(filter, QStringLiteral("=1"));
    EXPECT_GT(table->model()->rowCount(), 0);
    EXPECT_LT(table->model()->rowCount(), all);
    auto* why = child<QLineEdit>(PageId::Explore, "why_not");
    QTest::keyClicks(why, QStringLiteral("ep=7"));
    QTest::keyClick(why, Qt::Key_Return);
    EXPECT_TRUE(waitFor(
        [&] { return child<QLabel>(PageId::Explore, "why_not.answer")->text().contains(u'7'); }));
}

TEST_F(Pages, ACancelledSearchStops) {
    open(test::clusterPlan());
    m_window->showPage(PageId::Explore);
    pageAs<ExplorePage>(PageId::Explore)->startSearch();
    m_workbench->search.cancel();
    EXPECT_FALSE(m_workbench->search.running());
    EXPECT_TRUE(settled());
    EXPECT_EQ(m_workbench->search.plans().rowCount(), 0);
}

TEST_F(Pages, APlanForOtherDevicesCannotBeRunHereAndSaysWhy) {
    open(test::clusterPlan());
    m_window->showPage(PageId::Runs);
    EXPECT_FALSE(child<QPushButton>(PageId::Runs, "run")->isEnabled());
    EXPECT_TRUE(
        child<QLabel>(PageId::Runs, "run.why_not")->text().contains(QStringLiteral("H100")));
    ASSERT_TRUE(settled());  // the session of this machine is open
    m_workbench->plan.setPlan(test::localPlan());
    EXPECT_TRUE(child<QPushButton>(PageId::Runs, "run")->isEnabled());
}

TEST_F(Pages, AnUnreadableWorkspaceIsNamed) {
    open(test::localPlan());
    QString message;
    QObject::connect(&m_workbench->runs, &RunsViewModel::failed,
                     [&](const QString& why) { message = why; });
    m_workbench->runs.openWorkspace(QStringLiteral("/nonexistent/runs.piper"));
    EXPECT_TRUE(waitFor([&] { return !message.isEmpty(); }));
    EXPECT_TRUE(message.contains(QStringLiteral("/nonexistent/runs.piper")));
}

TEST_F(Pages, TheThemeChangesEveryColourAtOnce) {
    open(test::clusterPlan());
    auto* theme = m_window->findChild<QComboBox*>(QStringLiteral("theme"));
    ASSERT_NE(theme, nullptr);
    const auto background = [&] {
        return m_window->grab().toImage().pixelColor(m_window->width() - 4, 4);
    };
    EXPECT_GT(background().lightnessF(), 0.8);
    applyTheme(*qApp, Theme::Dark);
    EXPECT_LT(background().lightnessF(), 0.3);
    applyTheme(*qApp, Theme::Light);
    EXPECT_GT(background().lightnessF(), 0.8);
}

class Canvas : public test::WindowTest {
protected:
    TimelineCanvas* openCanvas() {
        open(test::localPlan());
        m_window->showPage(PageId::Schedule);
        auto* canvas = pageAs<SchedulePage>(PageId::Schedule)->canvas();
        EXPECT_TRUE(settled());
        EXPECT_TRUE(waitFor([&] { return canvas->blocksDrawn() > 0; }));
        return canvas;
    }
    void wheel(QWidget* on, QPointF at, int notches, Qt::KeyboardModifiers modifiers) {
        QWheelEvent event(at, on->mapToGlobal(at), {}, QPoint(0, notches * 120), Qt::NoButton,
                          modifiers, Qt::NoScrollPhase, false);
        QCoreApplication::sendEvent(on, &event);
    }
};

TEST_F(Canvas, ZoomsAtThePointerPansAndFits) {
    TimelineCanvas* canvas = openCanvas();
    const double all = canvas->viewport().span();
    const QPointF at(canvas->width() * 0.6, 80);
    const double share = (at.x() - 176.0) / (canvas->width() - 176.0);
    const double under = canvas->viewport().toNs(share);
    wheel(canvas, at, 5, Qt::ControlModifier);
    EXPECT_LT(canvas->viewport().span(), all * 0.4);
    EXPECT_NEAR(canvas->viewport().toNs(share), under, all * 1e-6);
    const double begin = canvas->viewport().begin();
    QTest::keyClick(canvas, Qt::Key_D);
    EXPECT_GT(canvas->viewport().begin(), begin);
    QTest::keyClick(canvas, Qt::Key_A);
    EXPECT_NEAR(canvas->viewport().begin(), begin, all * 1e-6);
    QTest::mousePress(canvas, Qt::RightButton, {}, QPoint(600, 100));
    QTest::mouseMove(canvas, QPoint(500, 100));
    EXPECT_TRUE(waitFor([&] { return canvas->viewport().begin() > begin; }));
    QTest::mouseRelease(canvas, Qt::RightButton, {}, QPoint(500, 100));
    QTest::keyClick(canvas, Qt::Key_F);
    EXPECT_NEAR(canvas->viewport().span(), all, all * 1e-6);
}

TEST_F(Canvas, HoverNamesTheOperationUnderThePointer) {
    TimelineCanvas* canvas = openCanvas();
    QTest::mouseMove(canvas, QPoint(10, 10));
    bool found = false;
    // Along the first row of lanes, below axis and pane header.
    for (int x = 200; x < canvas->width() && !found; x += 40) {
        QTest::mouseMove(canvas, QPoint(x, 58));
        const int frames = canvas->framesPainted();
        ASSERT_TRUE(waitFor([&] { return canvas->framesPainted() > frames; }));
        // The name at once, the rest when the event was read.
        found = !canvas->hoverLines().empty() &&
                waitFor([&] { return canvas->hoverLines().size() >= 4; });
    }
    ASSERT_TRUE(found);
    std::string all;
    for (const std::string& line : canvas->hoverLines()) all += line + "\n";
    EXPECT_NE(all.find("duration"), std::string::npos) << all;
    EXPECT_NE(all.find("rank 0"), std::string::npos) << all;
}

TEST_F(Canvas, MeasuresMarksFoldsAndUndoes) {
    TimelineCanvas* canvas = openCanvas();
    const double all = canvas->viewport().span();
    QTest::mousePress(canvas, Qt::LeftButton, Qt::ShiftModifier, QPoint(400, 60));
    QMouseEvent move(QEvent::MouseMove, QPointF(600, 60), canvas->mapToGlobal(QPointF(600, 60)),
                     Qt::NoButton, Qt::LeftButton, Qt::ShiftModifier);
    QCoreApplication::sendEvent(canvas, &move);
    QTest::mouseRelease(canvas, Qt::LeftButton, Qt::ShiftModifier, QPoint(600, 60));
    EXPECT_NEAR(canvas->measuredNs(), 200.0 / (canvas->width() - 176.0) * all, all * 1e-6);
    QTest::keyClick(canvas, Qt::Key_F);
    EXPECT_NEAR(canvas->viewport().span(), 200.0 / (canvas->width() - 176.0) * all, all * 1e-6);
    QTest::keyClick(canvas, Qt::Key_Backspace);
    EXPECT_NEAR(canvas->viewport().span(), all, all * 1e-6);
    QTest::keyClick(canvas, Qt::Key_M);
    EXPECT_EQ(canvas->marks().size(), 1U);
    QTest::keyClick(canvas, Qt::Key_M);
    EXPECT_TRUE(canvas->marks().empty()) << "the mark under the pointer goes";
    const std::size_t strips = canvas->layoutOf(0).strips().size();
    QTest::keyClick(canvas, Qt::Key_C, Qt::ShiftModifier);
    EXPECT_LT(canvas->layoutOf(0).strips().size(), strips);
    QTest::keyClick(canvas, Qt::Key_C, Qt::ShiftModifier);
    EXPECT_EQ(canvas->layoutOf(0).strips().size(), strips);
}

TEST_F(Canvas, DraggingOverRowsSumsWhatIsInside) {
    TimelineCanvas* canvas = openCanvas();
    QTest::mousePress(canvas, Qt::LeftButton, {}, QPoint(200, 50));
    QMouseEvent move(QEvent::MouseMove, QPointF(canvas->width() - 20, 120),
                     canvas->mapToGlobal(QPointF(600, 60)), Qt::NoButton, Qt::LeftButton, {});
    QCoreApplication::sendEvent(canvas, &move);
    QTest::mouseRelease(canvas, Qt::LeftButton, {}, QPoint(canvas->width() - 20, 120));
    EXPECT_TRUE(waitFor([&] { return canvas->model().totals().rowCount() > 0; }));
    QTest::keyClick(canvas, Qt::Key_Escape);
    EXPECT_EQ(canvas->model().totals().rowCount(), 0);
}

}  // namespace
}  // namespace piper::ui
