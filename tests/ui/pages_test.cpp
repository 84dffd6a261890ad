// SPDX-License-Identifier: GPL-3.0-or-later
#include <QApplication>
#include <QComboBox>
#include <QHeaderView>
#include <QImage>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QTabWidget>
#include <QTableView>
#include <QTest>
#include <QWheelEvent>
#include <fstream>

#include "app/workbench/own_runs.h"
#include "collectors/store/workspace.h"
#include "core/base/csv.h"
#include "tests/ui/example_plan.h"
#include "tests/ui/window_fixture.h"
#include "ui/models/comparison_model.h"
#include "ui/plots/curve_plot.h"
#include "ui/plots/grouped_bars_plot.h"
#include "ui/plots/plans_plot.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/views/explore_page.h"
#include "ui/views/export_page.h"
#include "ui/views/schedule_page.h"
#include "ui/views/theme.h"
#include "ui/views/timeline_page.h"

namespace piper::ui {
namespace {

class Pages : public test::WindowTest {
protected:
    /// Leaves the window on Explore.
    void searchAround(const Plan& plan) {
        open(plan);
        m_window->showPage(PageId::Explore);
        QTest::mouseClick(child<QPushButton>(PageId::Explore, "search"), Qt::LeftButton);
        ASSERT_TRUE(waitFor([&] { return !m_workbench->search.running(); }));
    }
    QTableView* showHeatMap() {
        child<QTabWidget>(PageId::Explore, "explore.tabs")->setCurrentIndex(1);
        return child<QTableView>(PageId::Explore, "heat");
    }
};

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
    ASSERT_NO_FATAL_FAILURE(searchAround(test::clusterPlan()));
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
    ASSERT_NO_FATAL_FAILURE(searchAround(test::clusterPlan()));
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

TEST_F(Pages, AHeatMapCellPutsTheSlidersThereOrSaysWhyNot) {
    ASSERT_NO_FATAL_FAILURE(searchAround(test::clusterPlan()));
    auto* heat = showHeatMap();
    ASSERT_TRUE(waitFor([&] { return heat->isVisible(); }));
    heat->setFocus();
    const QModelIndex best = heat->currentIndex();
    ASSERT_TRUE(best.isValid());
    QTest::keyClick(heat, Qt::Key_Return);
    EXPECT_EQ(m_workbench->plan.plan().layout, m_workbench->search.plans().planAt(0).plan.layout);
    EXPECT_EQ(m_window->currentPage(), PageId::Explore);
    QModelIndex empty;
    for (int row = 0; row < heat->model()->rowCount(); ++row)
        for (int column = 0; column < heat->model()->columnCount(); ++column)
            if (heat->model()->index(row, column).data(HeatMapModel::PlanRole).toInt() < 0)
                empty = heat->model()->index(row, column);
    ASSERT_TRUE(empty.isValid());
    heat->scrollTo(empty);
    auto* answer = child<QLabel>(PageId::Explore, "why_not.answer");
    const QString before = answer->text();
    QTest::mouseClick(heat->viewport(), Qt::LeftButton, {}, heat->visualRect(empty).center());
    EXPECT_TRUE(waitFor([&] { return answer->text() != before; }));
    EXPECT_TRUE(answer->isVisible());
}

TEST_F(Pages, AClickOnACurvePutsTheSlidersThere) {
    Plan plan = test::localPlan();
    plan.global_batch_size = 8;
    open(plan);
    m_window->showPage(PageId::Explore);
    child<QTabWidget>(PageId::Explore, "explore.tabs")->setCurrentIndex(2);
    auto* kind = child<QComboBox>(PageId::Explore, "curve.kind");
    kind->setCurrentIndex(static_cast<int>(CurveKind::RoutingSkew));
    QTest::mouseClick(child<QPushButton>(PageId::Explore, "curve.compute"), Qt::LeftButton);
    ASSERT_TRUE(waitFor([&] { return !m_workbench->curves.running(); }));
    auto* points = child<QTableView>(PageId::Explore, "curve.points");
    ASSERT_EQ(points->model()->rowCount(), 5);
    QTest::mouseClick(points->viewport(), Qt::LeftButton, {},
                      points->visualRect(points->model()->index(4, 0)).center());
    EXPECT_EQ(m_workbench->plan.plan().routing_load.zipf_exponent, 1.0);
    auto* plot =
        points->window()->findChild<CurvePlot*>()->findChild<QWidget*>(QStringLiteral("plot"));
    QTest::mouseClick(plot, Qt::LeftButton, {}, QPoint(plot->width() / 6, plot->height() / 2));
    EXPECT_EQ(m_workbench->plan.plan().routing_load.kind, RoutingLoadKind::Uniform);
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

TEST_F(Pages, TheReportHasEveryPartAndNeedsNoOtherFile) {
    open(test::clusterPlan());
    m_workbench->pinned.pin();
    m_window->showPage(PageId::Explore);
    pageAs<ExplorePage>(PageId::Explore)->startSearch();
    ASSERT_TRUE(waitFor([&] { return !m_workbench->search.running(); }));
    m_window->showPage(PageId::Export);
    const auto into = m_directory.path() / "report";
    pageAs<ExportPage>(PageId::Export)->saveReport(QString::fromStdString(into.string()));
    auto* said = child<QLabel>(PageId::Export, "export.saved");
    ASSERT_TRUE(waitFor([&] { return said->text().contains(QStringLiteral("report.html")); }))
        << said->text().toStdString();
    const std::string html = piper::test::readText(into / "report.html");
    for (const char* part : {"In short", "Memory of each stage", "Time of each phase",
                             "Roofline of GEMMs and links", "Ranks on nodes", "Plans beside it",
                             "The search", "Mixtral-8x7B", "tokens/s", "data:image/png;base64"})
        EXPECT_NE(html.find(part), std::string::npos) << part;
    EXPECT_EQ(html.find("src=\"http"), std::string::npos);
    for (const char* name :
         {"memory", "phases", "roofline_gemms", "roofline_links", "ranks", "pareto"}) {
        const QImage picture(QString::fromStdString((into / name).string() + ".png"));
        EXPECT_GT(test::numColours(picture), 8) << name;
    }
    EXPECT_EQ(piper::test::readText(into / "report.pdf").substr(0, 5), "%PDF-");
    // The plan comes back as it was.
    const Result<Plan> plan = readPlanFile(QString::fromStdString((into / "plan.json").string()));
    ASSERT_TRUE(plan.ok()) << plan.error().text();
    EXPECT_EQ(plan->layout, m_workbench->plan.plan().layout);
    const Result<CsvTable> plans =
        CsvTable::parse(piper::test::readText(into / "plans.csv"), "plans.csv");
    ASSERT_TRUE(plans.ok()) << plans.error().text();
    EXPECT_EQ(static_cast<int>(plans->size()), m_workbench->search.plans().rowCount());
    const Result<CsvTable> metrics =
        CsvTable::parse(piper::test::readText(into / "metrics.csv"), "metrics.csv");
    ASSERT_TRUE(metrics.ok());
    EXPECT_NEAR(numberIn(metrics->at(0, "value")).value_or(0.0),
                m_workbench->plan.prediction()->mfu, 1e-8);
}

TEST_F(Pages, AReportThatCannotBeWrittenSaysSo) {
    open(test::clusterPlan());
    m_window->showPage(PageId::Export);
    auto* said = child<QLabel>(PageId::Export, "export.saved");
    pageAs<ExportPage>(PageId::Export)->saveReport(QStringLiteral("/proc/nowhere"));
    EXPECT_TRUE(waitFor([&] { return said->text().contains(QStringLiteral("/proc/nowhere")); }));
    Plan broken = test::clusterPlan();
    broken.layout.ep = 7;
    m_workbench->plan.setPlan(broken);
    pageAs<ExportPage>(PageId::Export)
        ->saveReport(QString::fromStdString(m_directory.path().string()));
    EXPECT_TRUE(waitFor([&] { return said->text().contains(QStringLiteral("7")); }));
}

TEST_F(Pages, TheFirstStartShowsARecordedRunBesideItsPrediction) {
    const auto example = piper::test::sourceDir() / "packaging/examples/runs/olmoe-tiny.piper";
    const auto own = m_directory.path() / "runs.piper";
    open(test::clusterPlan());
    app::openOwnRuns(*m_workbench, example);
    ASSERT_TRUE(waitFor([&] { return m_workbench->pair.comparison() != nullptr; }))
        << m_workbench->pair.status().toStdString();
    ASSERT_EQ(m_workbench->runs.history().rowCount(), 3);
    EXPECT_EQ(m_workbench->runs.workspace().toStdString(), own.string());
    const ComparedRuns compared = m_workbench->pair.compared();
    for (const ComparisonRow& flops :
         topicRows(*compared.comparison, CompareTopic::Flops, compared.num_ranks))
        EXPECT_NEAR(flops.b / flops.a, 1.0, 0.01) << flops.key;
    m_window->showPage(PageId::Timeline);
    ASSERT_TRUE(settled());
    EXPECT_EQ(m_window->page(PageId::Timeline)->findChild<TimelineCanvas*>()->panes().size(), 2U);
    Result<Workspace> file = Workspace::open(own, Workspace::Mode::ReadWrite);
    ASSERT_TRUE(file.ok()) << file.error().text();
    EXPECT_TRUE(file->check()->empty());
    // From then on the file is the user's.
    ASSERT_TRUE(file->removeRun("modelled routed").ok());
    ASSERT_TRUE(file->close().ok());
    const Result<bool> again = app::startOwnRuns(example, own);
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_FALSE(*again);
    EXPECT_EQ(m_library.list(QString::fromStdString(own.string()))->size(), 2U);
}

TEST_F(Pages, NumbersOfACompareAreSeenInASmallWindowAndNothingIsWhereThereAreNone) {
    open(test::clusterPlan());
    m_window->resize(1024, 700);
    m_window->showPage(PageId::Compare);
    ASSERT_TRUE(settled());
    auto* table = child<QTableView>(PageId::Compare, "differences");
    EXPECT_FALSE(table->isVisible());
    app::openOwnRuns(*m_workbench,
                     piper::test::sourceDir() / "packaging/examples/runs/olmoe-tiny.piper");
    ASSERT_TRUE(waitFor([&] { return table->isVisible(); }));
    ASSERT_TRUE(settled());
    constexpr int kMeasured = 3;
    EXPECT_LE(table->columnViewportPosition(kMeasured) + table->columnWidth(kMeasured),
              table->viewport()->width());
    for (const auto* plot : m_window->page(PageId::Compare)->findChildren<GroupedBarsPlot*>())
        EXPECT_LE(plot->mapTo(plot->parentWidget(), plot->rect().topRight()).x(),
                  plot->parentWidget()->parentWidget()->width());
}

TEST_F(Pages, AnotherScheduleStandsUnderThePlansWithTheMemoryOfEachRank) {
    open(test::clusterPlan());
    m_window->showPage(PageId::Schedule);
    ASSERT_TRUE(settled());
    auto* canvas = pageAs<SchedulePage>(PageId::Schedule)->canvas();
    ASSERT_EQ(canvas->panes().size(), 1U);
    const auto ranks = static_cast<int>(canvas->panes()[0].source->header().ranks.size());
    auto* beside = child<QComboBox>(PageId::Schedule, "schedule.beside");
    const int other = beside->findText(QStringLiteral("interleaved_1f1b"));
    ASSERT_GT(other, 0);
    beside->setCurrentIndex(other);
    Q_EMIT beside->activated(other);
    ASSERT_TRUE(waitFor([&] { return canvas->panes().size() == 2; }));
    ASSERT_TRUE(waitFor([&] { return canvas->curvesDrawn() == 2 * ranks; }));
    EXPECT_TRUE(canvas->panes()[1].title.contains(QStringLiteral("interleaved_1f1b")));
    beside->setCurrentIndex(0);
    Q_EMIT beside->activated(0);
    EXPECT_TRUE(waitFor([&] { return canvas->panes().size() == 1; }));
}

TEST_F(Pages, WhatWasSavedIsNotSaidOfOtherFiles) {
    open(test::clusterPlan());
    m_window->showPage(PageId::Export);
    ASSERT_TRUE(settled());
    auto* said = child<QLabel>(PageId::Export, "export.saved");
    m_workbench->exporting.save(QString::fromStdString(m_directory.path().string()));
    ASSERT_TRUE(waitFor([&] { return said->text().startsWith(QStringLiteral("Saved ")); }));
    pageAs<ExportPage>(PageId::Export)->chooseTarget(ExportTarget::DeepSpeed);
    ASSERT_TRUE(settled());
    EXPECT_EQ(said->text(), QString());
}

TEST_F(Pages, TheHeatMapHasTheWidthOfItsTableWhateverCameFirst) {
    // The cells come while the table is behind another tab and has no width of its own yet.
    ASSERT_NO_FATAL_FAILURE(searchAround(test::clusterPlan()));
    auto* heat = showHeatMap();
    ASSERT_TRUE(settled());
    EXPECT_EQ(heat->horizontalHeader()->length(), heat->viewport()->width());
    m_window->resize(m_window->width() - 300, m_window->height());
    ASSERT_TRUE(settled());
    EXPECT_EQ(heat->horizontalHeader()->length(), heat->viewport()->width());
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

TEST_F(Canvas, WhatOfAFileIsDamagedStandsOverIt) {
    const std::filesystem::path file = m_directory.path() / "damaged.piper";
    piper::Run run;
    run.name = "damaged";
    run.ranks.emplace_back().rank = RankId(0);
    for (int i = 0; i < 20'000; ++i) {
        Event e;
        e.start_ns = 1000 * i;
        e.duration_ns = 300 + i * 7919 % 600;
        e.bytes = i * 104729 % 65536;
        run.ranks[0].events.push_back(e);
    }
    {
        Result<Workspace> workspace = Workspace::create(file);
        ASSERT_TRUE(workspace.ok() && workspace->addRun(run).ok());
    }
    std::string bytes = piper::test::readText(file);
    // Records and summaries of the run are the larger part; tables lie before them.
    for (std::size_t at = bytes.size() / 2 + 2000; at < bytes.size(); at += 4096) bytes[at] ^= 0x10;
    std::ofstream(file, std::ios::binary) << bytes;
    open(test::localPlan());
    m_window->showPage(PageId::Timeline);
    auto* page = pageAs<TimelinePage>(PageId::Timeline);
    ASSERT_TRUE(settled());
    EXPECT_FALSE(page->damage()->isVisible());
    m_workbench->pair.select(QString::fromStdString(file.string()), {}, QStringLiteral("damaged"));
    ASSERT_TRUE(waitFor([&] { return page->damage()->isVisible(); }));
    EXPECT_TRUE(page->damage()->text().contains(QStringLiteral("of rank 0 is damaged")))
        << page->damage()->text().toStdString();
    EXPECT_TRUE(page->damage()->toolTip().contains(QStringLiteral("measured · damaged")))
        << page->damage()->toolTip().toStdString();
}

}  // namespace
}  // namespace piper::ui
