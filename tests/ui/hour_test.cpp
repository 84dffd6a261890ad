// SPDX-License-Identifier: GPL-3.0-or-later
// The window kept open and used for an hour (PIPER_HOUR_MINUTES for less): its memory at the end is
// at most 2 % above that after a sixth of the time.
#include <gtest/gtest.h>

#include <unistd.h>
#include <QDropEvent>
#include <QElapsedTimer>
#include <QFile>
#include <QLineEdit>
#include <QMimeData>
#include <QPushButton>
#include <QSlider>
#include <QTabWidget>
#include <QTableView>
#include <QTest>

#include "app/workbench/arenas.h"
#include "app/workbench/own_runs.h"
#include "app/workbench/slider_mouse.h"
#include "core/base/sample.h"
#include "tests/ui/example_plan.h"
#include "tests/ui/window_fixture.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/views/command_palette.h"
#include "ui/views/export_page.h"
#include "ui/views/knob_control.h"
#include "ui/views/plan_page.h"
#include "ui/views/schedule_page.h"
#include "ui/views/theme.h"
#include "ui/views/timeline_page.h"

namespace piper::ui {
namespace {

constexpr double kMostGrowth = 1.02;
constexpr std::size_t kWarmUp = 20;      ///< rounds, in however short a time
constexpr std::ptrdiff_t kOfMedian = 9;  ///< rounds

/// Bytes the process has resident now.
double resident() {
    QFile file(QStringLiteral("/proc/self/statm"));
    EXPECT_TRUE(file.open(QIODevice::ReadOnly));
    return file.readAll().split(' ')[1].toDouble() * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

class HourOfUse : public test::WindowTest {
protected:
    void SetUp() override {
        app::limitArenas();
        open(test::clusterPlan());
        m_window->resize(1600, 900);
        app::openOwnRuns(*m_workbench,
                         piper::test::sourceDir() / "packaging/examples/runs/olmoe-tiny.piper");
        ASSERT_TRUE(waitFor([&] { return m_workbench->pair.comparison() != nullptr; }))
            << m_workbench->pair.status().toStdString();
    }

    void drag(Knob knob) {
        m_window->showPage(PageId::Plan);
        QSlider* slider = pageAs<PlanPage>(PageId::Plan)->knob(knob)->slider();
        const int first = slider->value();
        app::slideMouse(*slider, QEvent::MouseButtonPress, first);
        for (int i = 0; i <= slider->maximum(); ++i) {
            app::slideMouse(*slider, QEvent::MouseMove, i);
            QCoreApplication::processEvents();
        }
        app::slideMouse(*slider, QEvent::MouseMove, first);
        app::slideMouse(*slider, QEvent::MouseButtonRelease, first);
        ASSERT_TRUE(settled());
    }
    void plan();
    void import(const char* config);
    void explore();
    void look(TimelineCanvas* canvas);
    void runs();
    void exportAll();
    /// Everything once; the plan is then what it was.
    void cycle();
};

void HourOfUse::plan() {
    for (const Knob knob : {Knob::NumExperts, Knob::RouterTopk, Knob::Ep, Knob::Pp, Knob::SeqLen})
        drag(knob);
    auto* page = pageAs<PlanPage>(PageId::Plan);
    for (int i = 0; i < 2; ++i) {
        QTest::mouseClick(child<QPushButton>(PageId::Plan, "pin"), Qt::LeftButton);
        m_workbench->plan.setKnob(Knob::Layers, 24 - i);
    }
    for (const PlanPage::Answer answer :
         {PlanPage::Answer::Pins, PlanPage::Answer::Ranks, PlanPage::Answer::Roofline,
          PlanPage::Answer::MemoryAndTime}) {
        page->showAnswer(answer);
        ASSERT_TRUE(settled());
    }
    for (int i = 0; i < 2; ++i) m_workbench->pinned.unpin(1);
    m_workbench->plan.undo();
    m_workbench->plan.redo();
    m_workbench->plan.undo();
    m_workbench->plan.undo();
    ASSERT_TRUE(settled());
}

void HourOfUse::import(const char* config) {
    m_window->showPage(PageId::Plan);
    QMimeData data;
    const auto path = piper::test::sourceDir() / "packaging/examples/configs" / config;
    data.setUrls({QUrl::fromLocalFile(QString::fromStdString(path.string()))});
    QDropEvent drop(QPointF(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
    QCoreApplication::sendEvent(pageAs<PlanPage>(PageId::Plan), &drop);
    ASSERT_TRUE(settled());
}

void HourOfUse::explore() {
    m_window->showPage(PageId::Explore);
    QTest::mouseClick(child<QPushButton>(PageId::Explore, "search"), Qt::LeftButton);
    ASSERT_TRUE(waitFor([&] { return !m_workbench->search.running(); }));
    auto* table = child<QTableView>(PageId::Explore, "plans");
    for (int column = 0; column < table->model()->columnCount(); ++column)
        table->sortByColumn(column, column % 2 == 0 ? Qt::DescendingOrder : Qt::AscendingOrder);
    auto* filter = child<QLineEdit>(PageId::Explore, "filter");
    QTest::keyClicks(filter, QStringLiteral("pp<=4 memory<70"));
    filter->clear();
    for (const int tab : {1, 2, 0}) {
        child<QTabWidget>(PageId::Explore, "explore.tabs")->setCurrentIndex(tab);
        ASSERT_TRUE(settled());
    }
    auto* why = child<QLineEdit>(PageId::Explore, "why_not");
    why->clear();
    QTest::keyClicks(why, QStringLiteral("pp=8 ep=8"));
    QTest::keyClick(why, Qt::Key_Return);
    ASSERT_TRUE(settled());
}

/// Into the picture, along it and out.
void HourOfUse::look(TimelineCanvas* canvas) {
    ASSERT_TRUE(settled());
    using Command = TimelineCommand;
    for (const Command command :
         {Command::ZoomIn, Command::ZoomIn, Command::ZoomIn, Command::Later, Command::Later,
          Command::ZoomIn, Command::ZoomIn, Command::Earlier, Command::NextEvent, Command::Mark,
          Command::FoldAll, Command::FoldAll, Command::ZoomOut, Command::ClearMarks, Command::Clear,
          Command::Fit}) {
        canvas->perform(command);
        ASSERT_TRUE(settled());
    }
    QTest::mousePress(canvas, Qt::LeftButton, {}, QPoint(200, 60));
    QMouseEvent move(QEvent::MouseMove, QPointF(canvas->width() - 20, 160),
                     canvas->mapToGlobal(QPointF(600, 160)), Qt::NoButton, Qt::LeftButton, {});
    QCoreApplication::sendEvent(canvas, &move);
    QTest::mouseRelease(canvas, Qt::LeftButton, {}, QPoint(canvas->width() - 20, 160));
    ASSERT_TRUE(settled());
    QTest::keyClick(canvas, Qt::Key_Escape);
}

void HourOfUse::runs() {
    m_window->showPage(PageId::Runs);
    m_workbench->runs.openWorkspace(m_workbench->runs.workspace());
    ASSERT_TRUE(settled());
    auto* history = child<QTableView>(PageId::Runs, "history");
    for (int row = 0; row < history->model()->rowCount(); ++row) history->selectRow(row);
    const QModelIndex last = history->model()->index(history->model()->rowCount() - 1, 0);
    Q_EMIT history->doubleClicked(last);
    look(pageAs<TimelinePage>(PageId::Timeline)->canvas());
    m_window->showPage(PageId::Compare);
    ASSERT_TRUE(settled());
}

void HourOfUse::exportAll() {
    m_window->showPage(PageId::Export);
    auto* page = pageAs<ExportPage>(PageId::Export);
    for (const ExportTarget target : exportTargets()) {
        page->chooseTarget(target);
        ASSERT_TRUE(settled());
    }
    page->saveReport(QString::fromStdString((m_directory.path() / "report").string()));
    ASSERT_TRUE(waitFor([&] {
        return m_workbench->exporting.saved().contains(QStringLiteral("report.html"));
    })) << m_workbench->exporting.saved().toStdString();
}

void HourOfUse::cycle() {
    for (const Theme theme : {Theme::Dark, Theme::Light}) {
        m_window->chooseTheme(theme);
        ASSERT_TRUE(settled());
    }
    ASSERT_NO_FATAL_FAILURE(plan());
    ASSERT_NO_FATAL_FAILURE(import("OLMoE-1B-7B-0924.json"));
    ASSERT_NO_FATAL_FAILURE(import("Mixtral-8x7B-v0.1.json"));
    ASSERT_NO_FATAL_FAILURE(explore());
    m_window->showPage(PageId::Schedule);
    ASSERT_NO_FATAL_FAILURE(look(pageAs<SchedulePage>(PageId::Schedule)->canvas()));
    ASSERT_NO_FATAL_FAILURE(runs());
    ASSERT_NO_FATAL_FAILURE(exportAll());
    m_window->openPalette();
    auto* palette = qobject_cast<CommandPalette*>(QApplication::activeModalWidget());
    ASSERT_NE(palette, nullptr);
    QTest::keyClicks(palette->field(), QStringLiteral("set ep"));
    QTest::keyClick(palette, Qt::Key_Escape);
    m_workbench->plan.setPlan(test::clusterPlan());
    ASSERT_TRUE(settled());
}

TEST_F(HourOfUse, MemoryDoesNotGrow) {
    const int minutes = qEnvironmentVariableIsSet("PIPER_HOUR_MINUTES")
                            ? qEnvironmentVariableIntValue("PIPER_HOUR_MINUTES")
                            : 60;
    ASSERT_GT(minutes, 0) << "PIPER_HOUR_MINUTES is a number of minutes";
    const qint64 all = qint64{minutes} * 60'000;
    QElapsedTimer clock;
    clock.start();
    // Medians of rounds: a round's end falls before or after what it let go of is given back.
    std::vector<double> rounds;
    std::size_t warm = 0;
    while (clock.elapsed() < all) {
        ASSERT_NO_FATAL_FAILURE(cycle());
        rounds.push_back(resident());
        if (warm == 0 && rounds.size() >= kWarmUp && clock.elapsed() >= all / 6)
            warm = rounds.size();
        std::printf("%5.1f min  %.1f MiB\n", static_cast<double>(clock.elapsed()) / 60e3,
                    rounds.back() / 0x1p20);
        std::fflush(stdout);
    }
    ASSERT_GT(warm, 0U) << rounds.size() << " rounds are too few to tell";
    ASSERT_GE(rounds.size(), warm + static_cast<std::size_t>(kOfMedian))
        << "too few rounds to tell";
    const auto until = rounds.begin() + static_cast<std::ptrdiff_t>(warm);
    const double first = median({until - kOfMedian, until});
    const double last = median({rounds.end() - kOfMedian, rounds.end()});
    EXPECT_LE(last, first * kMostGrowth)
        << first / 0x1p20 << " MiB after a sixth of the time, " << last / 0x1p20 << " at the end";
}

}  // namespace
}  // namespace piper::ui
