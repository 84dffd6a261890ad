// SPDX-License-Identifier: GPL-3.0-or-later
#include <QLabel>
#include <QPushButton>
#include <QSpinBox>
#include <QTest>
#include <cmath>

#include "collectors/store/workspace.h"
#include "sessions/mpirun_launcher.h"
#include "tests/ui/example_plan.h"
#include "tests/ui/window_fixture.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/views/timeline_page.h"

namespace piper::ui {
namespace {

/// Real ranks of the real worker under Open MPI.
class RunTest : public test::WindowTest {
protected:
    RunsViewModel& runs() { return m_workbench->runs; }

    void press(int steps) {
        open(test::localPlan());
        m_window->showPage(PageId::Runs);
        ASSERT_EQ(runs().whyNot(), QString());
        m_window->page(PageId::Runs)->findChild<QSpinBox*>()->setValue(steps);
        QTest::mouseClick(child<QPushButton>(PageId::Runs, "run"), Qt::LeftButton);
        ASSERT_TRUE(runs().running());
    }
    std::filesystem::path workspace() const { return m_directory.path() / "runs.piper"; }
};

TEST_F(RunTest, PressRunWatchItAndSeeItBesideItsModel) {
    QString ended;
    QObject::connect(&runs(), &RunsViewModel::runEnded, [&](const QString& run) { ended = run; });
    press(4);
    ASSERT_TRUE(waitFor([&] { return !ended.isEmpty(); }, 180'000)) << runs().log().toStdString();
    EXPECT_EQ(runs().progress().step, 4);
    EXPECT_TRUE(std::isfinite(runs().progress().loss));
    EXPECT_GT(runs().progress().tokens_per_second, 0.0);
    ASSERT_EQ(runs().history().rowCount(), 1);
    EXPECT_EQ(runs().history().runs().front().outcome, RunOutcome::Finished);
    m_window->showPage(PageId::Timeline);
    ASSERT_TRUE(settled());
    auto* page = pageAs<TimelinePage>(PageId::Timeline);
    ASSERT_EQ(page->canvas()->panes().size(), 2U);
    EXPECT_TRUE(page->canvas()->panes()[0].title.startsWith(QStringLiteral("modelled")));
    EXPECT_TRUE(page->canvas()->panes()[1].title.startsWith(QStringLiteral("measured")));
    const Comparison* comparison = m_workbench->pair.comparison();
    ASSERT_NE(comparison, nullptr);
    EXPECT_FALSE(comparison->phase_seconds.empty());
    EXPECT_GT(comparison->attribution.step_b_seconds, 0.0);
}

TEST_F(RunTest, ClosingInMidRunWithStopKeepsWhatWasRecorded) {
    press(100'000);
    ASSERT_TRUE(waitFor([&] { return runs().progress().step >= 2; }, 180'000))
        << runs().log().toStdString();
    m_window->ask_on_close = [] { return MainWindow::OnClose::StopRun; };
    EXPECT_FALSE(m_window->close()) << "the window waits for the ranks";
    ASSERT_TRUE(waitFor([&] { return !m_window->isVisible(); }, 60'000));
    Result<Workspace> file = Workspace::open(workspace());
    ASSERT_TRUE(file.ok()) << file.error().text();
    const auto rows = file->runs();
    ASSERT_TRUE(rows.ok());
    ASSERT_EQ(rows->size(), 1U);
    EXPECT_EQ(rows->front().outcome, RunOutcome::Cancelled);
    EXPECT_GE(rows->front().steps, 1);
    EXPECT_GT(rows->front().events, 100);
}

TEST_F(RunTest, StayingHereKeepsTheWindowAndTheRun) {
    press(100'000);
    ASSERT_TRUE(waitFor([&] { return runs().progress().step >= 1; }, 180'000))
        << runs().log().toStdString();
    m_window->ask_on_close = [] { return MainWindow::OnClose::StayOpen; };
    EXPECT_FALSE(m_window->close());
    EXPECT_TRUE(runs().running());
    // Detached, the ranks run on: the job can be found and cancelled by its directory.
    m_window->ask_on_close = [] { return MainWindow::OnClose::KeepRunning; };
    EXPECT_TRUE(m_window->close());
    EXPECT_FALSE(runs().running());
    std::filesystem::path job;
    for (const auto& entry : std::filesystem::directory_iterator(m_directory.path() / "jobs"))
        job = entry.path();
    Result<std::unique_ptr<Job>> left = openJob(*m_connection, job.string());
    ASSERT_TRUE(left.ok()) << left.error().text();
    const Result<JobStatus> status = (*left)->status();
    ASSERT_TRUE(status.ok()) << status.error().text();
    EXPECT_EQ(status->state, JobState::Running);
    EXPECT_TRUE((*left)->cancel().ok());
}

TEST_F(RunTest, AWorkerThatCannotStartIsAFailedRunWithItsReason) {
    app::RunPlaces places;
    places.worker = "/nonexistent/piper-worker";
    places.jobs_root = (m_directory.path() / "jobs").string();
    places.workspace_file = [this] { return QString::fromStdString(workspace().string()); };
    app::SessionRunController controller(m_connection, places);
    RunEnd end;
    bool ended = false;
    QObject::connect(&controller, &RunController::finished, [&](const RunEnd& e) {
        end = e;
        ended = true;
    });
    controller.start({std::make_shared<const Plan>(test::localPlan()), 2});
    ASSERT_TRUE(waitFor([&] { return ended; }, 60'000));
    EXPECT_EQ(end.outcome, RunOutcome::Failed);
    EXPECT_FALSE(end.reason.isEmpty());
    EXPECT_FALSE(controller.running());
}

}  // namespace
}  // namespace piper::ui
