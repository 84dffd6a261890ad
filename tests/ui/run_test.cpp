// SPDX-License-Identifier: GPL-3.0-or-later
#include <gmock/gmock.h>

#include <QDialog>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QTabWidget>
#include <QTableView>
#include <QTest>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "app/workbench/own_runs.h"
#include "collectors/store/workspace.h"
#include "core/base/json.h"
#include "core/run/job_status.h"
#include "tests/sessions/ssh_server.h"
#include "tests/ui/example_plan.h"
#include "tests/ui/window_fixture.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/views/timeline_page.h"

namespace piper::ui {
namespace {

using ::testing::HasSubstr;

/// Real ranks of the real worker under Open MPI.
class RunTest : public test::WindowTest {
protected:
    RunsViewModel& runs() { return m_workbench->runs; }

    void press(int steps) {
        open(test::localPlan());
        m_window->showPage(PageId::Runs);
        ASSERT_TRUE(settled());  // this machine's session is open
        ASSERT_EQ(runs().whyNot(), QString());
        m_window->page(PageId::Runs)->findChild<QSpinBox*>()->setValue(steps);
        QTest::mouseClick(child<QPushButton>(PageId::Runs, "run"), Qt::LeftButton);
        ASSERT_TRUE(runs().running());
    }
    /// A row of the history becomes the current one.
    void choose(const QString& run) {
        auto* history = child<QTableView>(PageId::Runs, "history");
        for (int row = 0; row < history->model()->rowCount(); ++row)
            if (history->model()->index(row, 0).data().toString() == run)
                history->setCurrentIndex(history->model()->index(row, 0));
    }
    /// Writes words on the chosen run, by the keyboard.
    void label(const char* button, const QString& words) {
        QTest::mouseClick(child<QPushButton>(PageId::Runs, button), Qt::LeftButton);
        auto* editor = qobject_cast<QLineEdit*>(QApplication::focusWidget());
        ASSERT_NE(editor, nullptr);
        editor->selectAll();
        QTest::keyClicks(editor, words);
        QTest::keyClick(editor, Qt::Key_Return);
        ASSERT_TRUE(settled());
    }
    /// What was seen live is what the run recorded.
    void expectCurves(const RunSummary& measured) {
        const Plan& plan = m_workbench->plan.plan();
        const RunCurves live = runs().curves({});
        EXPECT_EQ(live.of, QString());
        EXPECT_EQ(live.loss.back(), measured.losses.back());
        EXPECT_EQ(live.load, measured.load);
        EXPECT_EQ(live.rank_peak_bytes, measured.rank_peak_bytes);
        ASSERT_EQ(std::ssize(live.load.tokens), plan.model.moe->num_experts);
        EXPECT_EQ(std::ssize(live.rank_peak_bytes), plan.layout.world());
        EXPECT_THAT(live.dump().toStdString(),
                    HasSubstr("Tokens by expert, last step: hottest expert "));
        EXPECT_THAT(live.dump().toStdString(), HasSubstr("Memory of each rank, the most so far: up "
                                                         "to "));
        for (const char* name : {"run.load", "run.memory"})
            EXPECT_TRUE(child<QWidget>(PageId::Runs, name)->isVisible()) << name;
        EXPECT_EQ(runs().curves(measured.name).of, measured.name);
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
    const RunSummary* measured = runs().history().find(ended);
    ASSERT_NE(measured, nullptr) << ended.toStdString();
    EXPECT_EQ(measured->kind, RunKind::Measured);
    EXPECT_EQ(measured->outcome, RunOutcome::Finished);
    expectCurves(*measured);
    m_window->showPage(PageId::Timeline);
    ASSERT_TRUE(settled());
    auto* page = pageAs<TimelinePage>(PageId::Timeline);
    ASSERT_EQ(page->canvas()->panes().size(), 2U);
    EXPECT_TRUE(page->canvas()->panes()[0].title.startsWith(QStringLiteral("modelled")));
    EXPECT_TRUE(page->canvas()->panes()[1].title.startsWith(QStringLiteral("measured")));
    // Memory of the measured ranks, read from the file behind the first picture.
    const std::vector<MemoryCurve>& memory = page->canvas()->model().memory(1);
    ASSERT_EQ(memory.size(), measured->rank_peak_bytes.size());
    for (std::size_t rank = 0; rank < memory.size(); ++rank)
        EXPECT_EQ(memory[rank].peak(), measured->rank_peak_bytes[rank]) << rank;
    EXPECT_GT(page->canvas()->curvesDrawn(), 0);
    const Comparison* comparison = m_workbench->pair.comparison();
    ASSERT_NE(comparison, nullptr);
    EXPECT_FALSE(comparison->phase_seconds.empty());
    EXPECT_GT(comparison->attribution.step_b_seconds, 0.0);
}

TEST_F(RunTest, ARunOfTheHistoryIsTaggedFoundAndRunAgain) {
    QString ended;
    QObject::connect(&runs(), &RunsViewModel::runEnded, [&](const QString& run) { ended = run; });
    press(3);
    ASSERT_TRUE(waitFor([&] { return !ended.isEmpty(); }, 180'000)) << runs().log().toStdString();
    m_window->showPage(PageId::Runs);
    ASSERT_TRUE(settled());
    EXPECT_FALSE(child<QPushButton>(PageId::Runs, "history.again")->isEnabled())
        << "none is chosen";
    choose(ended);
    ASSERT_NO_FATAL_FAILURE(label("history.tags", QStringLiteral("tiny, first")));
    ASSERT_NO_FATAL_FAILURE(label("history.note", QStringLiteral("as a baseline")));
    QString refused;
    QObject::connect(&runs(), &RunsViewModel::failed, [&](const QString& m) { refused = m; });
    ASSERT_NO_FATAL_FAILURE(label("history.tags", QStringLiteral("#odd")));
    EXPECT_THAT(refused.toStdString(), HasSubstr("tag '#odd'"));
    const RunLabels labels{"as a baseline", {"first", "tiny"}};
    EXPECT_EQ(runs().history().find(ended)->labels, labels);
    const auto stored = m_library.list(runs().workspace());
    ASSERT_TRUE(stored.ok());
    for (const RunSummary& run : *stored)
        EXPECT_EQ(run.labels, run.name == ended ? labels : RunLabels()) << run.name.toStdString();

    const auto* history = child<QTableView>(PageId::Runs, "history");
    const int all = history->model()->rowCount();
    auto* filter = child<QLineEdit>(PageId::Runs, "history.filter");
    for (const auto& [words, rows] : {std::pair{"#tiny baseline", 1}, std::pair{"#tin", 0},
                                      std::pair{"measured", 1}, std::pair{"", all}}) {
        filter->setText(QString::fromLatin1(words));
        EXPECT_EQ(history->model()->rowCount(), rows) << words;
    }
    // Another plan and another number of steps, then back to those of the run.
    const Plan plan = m_workbench->plan.plan();
    m_workbench->plan.setPlan(test::clusterPlan());
    child<QSpinBox>(PageId::Runs, "run.steps")->setValue(99);
    choose(ended);
    QTest::mouseClick(child<QPushButton>(PageId::Runs, "history.again"), Qt::LeftButton);
    QDialog* dialog = nullptr;
    ASSERT_TRUE(waitFor([&] {
        dialog = m_window->findChild<QDialog*>(QStringLiteral("preview"));
        return dialog != nullptr && dialog->isVisible();
    })) << runs().status().toStdString();
    EXPECT_EQ(writePlan(m_workbench->plan.plan()), writePlan(plan));
    EXPECT_EQ(child<QSpinBox>(PageId::Runs, "run.steps")->value(), 3);
    const RunSummary& first = *runs().history().find(ended);
    EXPECT_EQ(first.session, QStringLiteral("local"));
    EXPECT_EQ(first.launcher, QStringLiteral("mpirun"));
    const QString before = ended;
    QString again;
    QObject::connect(&runs(), &RunsViewModel::runEnded, [&](const QString& run) { again = run; });
    QTest::mouseClick(dialog->findChild<QPushButton*>(QStringLiteral("preview.run")),
                      Qt::LeftButton);
    ASSERT_TRUE(waitFor([&] { return !again.isEmpty(); }, 180'000)) << runs().log().toStdString();
    EXPECT_EQ(runs().history().find(again)->steps, 3);
    EXPECT_NE(again, before);
}

TEST_F(RunTest, ARunOfASessionThatIsGoneSaysSo) {
    const std::filesystem::path path = m_directory.path() / "gone.piper";
    Result<Workspace> file = Workspace::create(path);
    ASSERT_TRUE(file.ok());
    piper::Run stored;
    stored.name = "bare";
    ASSERT_TRUE(file->addRun(stored).ok());
    stored.name = "gone";
    stored.plan_json = writePlan(test::localPlan()).dump();
    stored.notes = {{"session", "nowhere"}};
    ASSERT_TRUE(file->addRun(stored).ok() && file->close().ok());
    open(test::localPlan());
    runs().openWorkspace(QString::fromStdString(path.string()));
    ASSERT_TRUE(settled());
    runs().again(QStringLiteral("bare"));
    EXPECT_THAT(runs().status().toStdString(), HasSubstr("keeps no plan"));
    runs().again(QStringLiteral("gone"));
    EXPECT_THAT(runs().status().toStdString(), HasSubstr("session ‘nowhere’, which is not there"));
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
    const auto measured = std::find_if(
        rows->begin(), rows->end(), [](const auto& row) { return row.kind == RunKind::Measured; });
    ASSERT_NE(measured, rows->end());
    EXPECT_EQ(measured->outcome, RunOutcome::Cancelled);
    EXPECT_GE(measured->steps, 1);
    EXPECT_GT(measured->events, 100);
}

TEST_F(RunTest, ADetachedRunIsFoundAgainAndWatched) {
    press(100'000);
    ASSERT_TRUE(waitFor([&] { return runs().progress().step >= 1; }, 180'000))
        << runs().log().toStdString();
    m_window->ask_on_close = [] { return MainWindow::OnClose::StayOpen; };
    EXPECT_FALSE(m_window->close());
    EXPECT_TRUE(runs().running());
    m_window->ask_on_close = [] { return MainWindow::OnClose::KeepRunning; };
    EXPECT_TRUE(m_window->close());
    EXPECT_FALSE(runs().running());
    const int seen = runs().progress().step;

    restart();
    open(test::localPlan());
    m_window->showPage(PageId::Runs);
    ASSERT_TRUE(settled());
    JobsModel& jobs = m_workbench->jobs;
    ASSERT_EQ(jobs.going(), 1) << jobs.dump().toStdString();
    EXPECT_TRUE(jobs.dump().contains(QStringLiteral("1 jobs, 1 of them go on.")));
    auto* tabs = child<QTabWidget>(PageId::Runs, "run.tabs");
    EXPECT_TRUE(tabs->tabText(1).contains(QStringLiteral("1 go on")));
    tabs->setCurrentIndex(1);
    QTest::mouseClick(child<QPushButton>(PageId::Runs, "jobs.attach"), Qt::LeftButton);
    ASSERT_TRUE(runs().running());
    ASSERT_TRUE(waitFor([&] { return runs().progress().step > seen; }));
    EXPECT_FALSE(runs().log().isEmpty());
    QString ended;
    QObject::connect(&runs(), &RunsViewModel::runEnded, [&](const QString& run) { ended = run; });
    QTest::mouseClick(child<QPushButton>(PageId::Runs, "cancel"), Qt::LeftButton);
    ASSERT_TRUE(waitFor([&] { return !ended.isEmpty(); })) << runs().status().toStdString();
    EXPECT_EQ(runs().history().find(ended)->outcome, RunOutcome::Cancelled);
    ASSERT_TRUE(waitFor([&] { return jobs.going() == 0; }));
}

TEST_F(RunTest, AWorkerThatCannotStartIsAFailedRunWithItsReason) {
    SessionConfig config;
    config.name = "local";
    config.worker = "/nonexistent/piper-worker";
    const auto session = Session::open(config, nullptr);
    ASSERT_TRUE(session.ok());
    RunEnd end;
    bool ended = false;
    QObject::connect(m_controller.get(), &RunController::finished, [&](const RunEnd& e) {
        end = e;
        ended = true;
    });
    m_controller->start({*session, std::make_shared<const Plan>(test::localPlan()), 2, {}, {}});
    ASSERT_TRUE(waitFor([&] { return ended; }, 60'000));
    EXPECT_EQ(end.outcome, RunOutcome::Failed);
    EXPECT_TRUE(end.reason.contains(QStringLiteral("/nonexistent/piper-worker")))
        << end.reason.toStdString();
    EXPECT_FALSE(m_controller->running());
}

TEST_F(RunTest, WhatComesLateLeavesTheFileThatTheUserOpenedMeanwhile) {
    const auto make = [&](const char* name, const char* run) {
        const std::filesystem::path path = m_directory.path() / name;
        Result<Workspace> file = Workspace::create(path);
        EXPECT_TRUE(file.ok());
        piper::Run stored;
        stored.name = run;
        EXPECT_TRUE(file->addRun(stored).ok() && file->close().ok());
        return QString::fromStdString(path.string());
    };
    const QString first = make("first.piper", "one"), second = make("second.piper", "two");
    runs().openWorkspace(first);
    ASSERT_TRUE(settled());
    const RunEnd ended{RunOutcome::Finished, first, QStringLiteral("one"), {}};
    Q_EMIT m_controller->fetching(ended, QStringLiteral("40 %"));
    // One of the same name in another file is another one.
    Q_EMIT m_controller->fetching({RunOutcome::Finished, second, QStringLiteral("one"), {}},
                                  QStringLiteral("5 %"));
    EXPECT_TRUE(runs().status().contains(QStringLiteral("The events of run ‘one’ come: 40 %.")));
    Q_EMIT m_controller->completed({RunOutcome::Finished, second, QStringLiteral("one"), {}});
    EXPECT_TRUE(runs().status().contains(QStringLiteral("40 %")));
    EXPECT_FALSE(runs().status().contains(QStringLiteral("5 %.")));
    runs().openWorkspace(second);  // and before it is read:
    Q_EMIT m_controller->completed(ended);
    ASSERT_TRUE(settled());
    EXPECT_EQ(runs().workspace(), second);
    EXPECT_FALSE(runs().status().contains(QStringLiteral("come:")));
    Q_EMIT m_workbench->jobs.fetched(first, QStringLiteral("one"));
    ASSERT_TRUE(settled());
    EXPECT_EQ(runs().workspace(), second);
    int read = 0;
    QObject::connect(&runs(), &RunsViewModel::historyChanged, [&] { ++read; });
    Q_EMIT m_controller->completed({RunOutcome::Finished, second, QStringLiteral("two"), {}});
    ASSERT_TRUE(settled());
    EXPECT_EQ(read, 1);

    // A file that cannot be shown leaves nothing for the next one.
    app::showWorkspace(*m_workbench, QStringLiteral("/nonexistent.piper"), {},
                       QStringLiteral("two"));
    ASSERT_TRUE(settled());
    runs().openWorkspace(second);
    ASSERT_TRUE(settled());
    EXPECT_TRUE(m_workbench->pair.second().empty());
}

/// The same behind OpenSSH's own server on the loopback.
class RemoteRunTest : public RunTest {
protected:
    void SetUp() override {
        if (const std::string why = piper::test::whyNoSshServer(); !why.empty())
            GTEST_SKIP() << why;
        m_ssh.makeKey();
        m_server = m_ssh.serverNamedHost();
        SessionConfig config;
        config.name = "box";
        config.host = "host";
        config.ssh_config = m_ssh.path("config").string();
        config.directory = m_ssh.path("there").string();
        ASSERT_TRUE(SessionStore(m_directory.path() / "sessions.json").add(config).ok());
        m_workbench->sessions.load();
        open(test::localPlan());
        m_window->showPage(PageId::Runs);
        ASSERT_TRUE(settled());
        m_workbench->sessions.select(QStringLiteral("box"));
        EXPECT_TRUE(runs().whyNot().contains(QStringLiteral("not connected")));
        QTest::mouseClick(child<QPushButton>(PageId::Runs, "run.connect"), Qt::LeftButton);
        ASSERT_TRUE(waitFor([&] { return m_workbench->sessions.current().session() != nullptr; }));
        ASSERT_TRUE(settled());
        ASSERT_EQ(runs().whyNot(), QString());
        QObject::connect(&runs(), &RunsViewModel::runEnded,
                         [this](const QString& run) { m_ended = run; });
    }
    JobsModel& jobs() { return m_workbench->jobs; }
    void click(const char* name) {
        QTest::mouseClick(child<QPushButton>(PageId::Runs, name), Qt::LeftButton);
    }

    piper::test::SshFiles m_ssh;
    std::unique_ptr<piper::test::SshServer> m_server;
    QString m_ended;
};

TEST_F(RemoteRunTest, WhatWasPreviewedIsLaunchedCollectedAndFetchedAgain) {
    EXPECT_EQ(jobs().dump(), QStringLiteral("No jobs.\n"));
    m_window->page(PageId::Runs)->findChild<QSpinBox*>()->setValue(4);
    click("run.preview");
    QDialog* dialog = nullptr;
    ASSERT_TRUE(waitFor(
        [&] {
            dialog = m_window->findChild<QDialog*>(QStringLiteral("preview"));
            return dialog != nullptr && dialog->isVisible();
        },
        120'000));
    const auto text = [&](const char* name) {
        return dialog->findChild<QPlainTextEdit*>(QString::fromLatin1(name))->toPlainText();
    };
    const std::string there = m_ssh.path("there").string();
    EXPECT_THAT(text("preview.command").toStdString(), HasSubstr(there + "/worker/"));
    const QString job =
        text("preview.command").section(QStringLiteral("--job "), 1).section(u' ', 0, 0);
    EXPECT_THAT(text("preview.script").toStdString(), HasSubstr(job.toStdString()));
    EXPECT_TRUE(text("preview.ranks").startsWith(QStringLiteral("rank 0: node 0")));
    EXPECT_FALSE(std::filesystem::exists(job.toStdString())) << "a preview starts nothing";
    QTest::mouseClick(dialog->findChild<QPushButton*>(QStringLiteral("preview.run")),
                      Qt::LeftButton);
    ASSERT_TRUE(waitFor([&] { return !m_ended.isEmpty(); }, 180'000))
        << runs().status().toStdString() << runs().log().toStdString();
    EXPECT_TRUE(std::filesystem::exists(job.toStdString())) << "what was shown is what ran";
    EXPECT_EQ(runs().progress().step, 4);
    EXPECT_EQ(runs().loss().empty(), false);
    EXPECT_EQ(runs().history().find(m_ended)->outcome, RunOutcome::Finished);
    ASSERT_TRUE(waitFor([&] { return jobs().rowCount() == 1; }));
    EXPECT_THAT(jobs().dump().toStdString(), HasSubstr("\tfinished\t4 / 4\t"));

    child<QTabWidget>(PageId::Runs, "run.tabs")->setCurrentIndex(1);
    child<QTableView>(PageId::Runs, "jobs")->selectRow(0);
    const int before = runs().history().rowCount();
    click("jobs.fetch");
    ASSERT_TRUE(waitFor([&] { return runs().history().rowCount() > before; }));
    EXPECT_THAT(jobs().status().toStdString(), HasSubstr("Fetched as run"));
}

TEST_F(RemoteRunTest, ADigestShowsFirstAndItsEventsFollow) {
    std::optional<RunEnd> completed;
    QObject::connect(m_controller.get(), &RunController::completed,
                     [&](const RunEnd& end) { completed = end; });
    QString coming;
    QObject::connect(m_controller.get(), &RunController::fetching,
                     [&](const RunEnd&, const QString& how_far) { coming = how_far; });
    runs().start(16);
    ASSERT_TRUE(waitFor([&] { return !m_ended.isEmpty(); }, 180'000))
        << runs().status().toStdString() << runs().log().toStdString();
    ASSERT_TRUE(waitFor([&] { return completed.has_value(); }));
    EXPECT_EQ(completed->reason, QString());
    EXPECT_EQ(completed->run, m_ended);
    EXPECT_EQ(coming, QStringLiteral("100 %"));
    const Result<piper::Run> run =
        Workspace::open(completed->workspace.toStdString())->readRun(completed->run.toStdString());
    ASSERT_TRUE(run.ok()) << run.error().text();
    EXPECT_EQ(run->numDigests(), 0);
    EXPECT_FALSE(run->ranks.front().events.empty());
    ASSERT_TRUE(settled());
    EXPECT_FALSE(m_workbench->pair.second().run->notes.contains("digest")) << "it is shown anew";
}

/// When rank 0 wrote each step into status.json of the only job there, looked for every
/// millisecond.
class StepTimes {
public:
    using Clock = std::filesystem::file_time_type::clock;

    explicit StepTimes(std::filesystem::path jobs)
        : m_thread([this, jobs = std::move(jobs)](const std::stop_token& stop) {
              while (!stop.stop_requested()) {
                  look(jobs);
                  std::this_thread::sleep_for(std::chrono::milliseconds(1));
              }
          }) {}
    [[nodiscard]] std::optional<Clock::time_point> of(int step) const {
        const std::lock_guard held(m_mutex);
        const auto found = m_written.find(step);
        return found == m_written.end() ? std::nullopt : std::optional(found->second);
    }

private:
    void look(const std::filesystem::path& jobs) {
        std::error_code none;
        for (const auto& job : std::filesystem::directory_iterator(jobs, none)) {
            const std::filesystem::path file = job.path() / "status.json";
            const auto before = std::filesystem::last_write_time(file, none);
            if (none) continue;
            const auto status = parseJobStatus(piper::test::readText(file), file.string());
            if (!status.ok() || std::filesystem::last_write_time(file, none) != before) continue;
            const std::lock_guard held(m_mutex);
            m_written.emplace(status->step, before);
        }
    }

    mutable std::mutex m_mutex;
    std::map<int, Clock::time_point> m_written;
    std::jthread m_thread;
};

TEST_F(RemoteRunTest, EachStepReachesTheWindowSoonAfterItWasWritten) {
    std::vector<double> delays_ms;
    int seen = 0;
    const StepTimes written(m_ssh.path("there") / "jobs");
    const auto take = [&] {
        const auto now = StepTimes::Clock::now();
        if (runs().progress().step <= seen) return;
        seen = runs().progress().step;
        if (const auto since = written.of(seen))
            delays_ms.push_back(std::chrono::duration<double, std::milli>(now - *since).count());
    };
    QObject context;  // what it captures goes before the window does
    QObject::connect(&runs(), &RunsViewModel::changed, &context, take);
    runs().start(200);
    ASSERT_TRUE(waitFor([&] { return !m_ended.isEmpty(); }, 180'000))
        << runs().status().toStdString() << runs().log().toStdString();
    EXPECT_EQ(seen, 200);
    ASSERT_FALSE(delays_ms.empty());
    std::sort(delays_ms.begin(), delays_ms.end());
    std::printf(
        "progress from the host's file to the window: median %.0f ms, longest %.0f ms, of "
        "%zu steps shown\n",
        delays_ms[delays_ms.size() / 2], delays_ms.back(), delays_ms.size());
    ASSERT_TRUE(settled());
}

TEST_F(RemoteRunTest, EventsOfARunComeWhileAnotherOneIsWatched) {
    std::vector<RunEnd> completed;
    QObject::connect(m_controller.get(), &RunController::completed,
                     [&](const RunEnd& end) { completed.push_back(end); });
    // In the moment in which the first one has finished and its events begin to come.
    bool again = false;
    QObject::connect(m_controller.get(), &RunController::finished, [&](const RunEnd&) {
        if (std::exchange(again, true)) return;
        m_controller->start({m_workbench->sessions.current().session(),
                             std::make_shared<const Plan>(test::localPlan()),
                             16,
                             {},
                             runs().targetWorkspace()});
    });
    runs().start(16);
    ASSERT_TRUE(waitFor([&] { return completed.size() == 2; }, 240'000))
        << runs().status().toStdString() << runs().log().toStdString();
    EXPECT_NE(completed[0].run, completed[1].run);
    for (const RunEnd& end : completed) {
        EXPECT_EQ(end.reason, QString());
        const Result<piper::Run> run =
            Workspace::open(end.workspace.toStdString())->readRun(end.run.toStdString());
        ASSERT_TRUE(run.ok()) << run.error().text();
        EXPECT_EQ(run->numDigests(), 0);
        EXPECT_FALSE(run->notes.contains("digest"));
    }
    ASSERT_TRUE(settled());
}

TEST_F(RemoteRunTest, AJobOfAnEarlierWindowIsAttachedAndEnded) {
    runs().start(100'000);
    ASSERT_TRUE(waitFor([&] { return runs().progress().step >= 1; }, 180'000))
        << runs().status().toStdString() << runs().log().toStdString();
    const int seen = runs().progress().step;
    runs().detach();
    jobs().refresh();
    ASSERT_TRUE(waitFor([&] { return jobs().going() == 1; }));
    child<QTabWidget>(PageId::Runs, "run.tabs")->setCurrentIndex(1);
    auto* table = child<QTableView>(PageId::Runs, "jobs");
    table->setFocus();
    QTest::keyClick(table, Qt::Key_Return);  // attaches
    ASSERT_TRUE(runs().running());
    ASSERT_TRUE(waitFor([&] { return runs().progress().step > seen; }));
    click("jobs.cancel");
    ASSERT_TRUE(waitFor([&] { return !m_ended.isEmpty(); }));
    EXPECT_EQ(runs().history().find(m_ended)->outcome, RunOutcome::Cancelled);
    ASSERT_TRUE(waitFor([&] { return jobs().going() == 0; }));
}

}  // namespace
}  // namespace piper::ui
