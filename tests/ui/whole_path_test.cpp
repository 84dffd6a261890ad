// SPDX-License-Identifier: GPL-3.0-or-later
// The user's whole path through the window, against a real sshd and a real Slurm. whole_path.py
// makes both and says where they are.
#include <gmock/gmock.h>

#include <QComboBox>
#include <QDialog>
#include <QFileDialog>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSlider>
#include <QSpinBox>
#include <QTabWidget>
#include <QTableView>
#include <QTest>
#include <QTimer>
#include <cmath>

#include "app/workbench/slider_mouse.h"
#include "tests/ui/example_plan.h"
#include "tests/ui/window_fixture.h"
#include "ui/models/plan_summary.h"
#include "ui/models/plans_filter_model.h"
#include "ui/timeline/timeline_canvas.h"
#include "ui/views/cluster_picture.h"
#include "ui/views/compare_page.h"
#include "ui/views/export_page.h"
#include "ui/views/knob_control.h"
#include "ui/views/plan_page.h"
#include "ui/views/timeline_page.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

using ::testing::HasSubstr;

constexpr int kSteps = 6;
constexpr int kLong = 300'000;  ///< ms: six ranks share the processors of one machine

class WholePath : public test::WindowTest {
public:
    void SetUp() override {
        m_ssh_config = qEnvironmentVariable("PIPER_LAB_SSH_CONFIG");
        if (m_ssh_config.isEmpty())
            GTEST_SKIP() << "needs the lab's Slurm: tests/ui/whole_path.py makes it";
    }
    void click(PageId page, const char* name) {
        QTest::mouseClick(child<QPushButton>(page, name), Qt::LeftButton);
    }
    /// What is typed into a spin box and confirmed.
    void type(Knob knob, int value) {
        QSpinBox* box = pageAs<PlanPage>(PageId::Plan)->knob(knob)->spinBox();
        box->setFocus();
        box->selectAll();
        QTest::keyClicks(box, QString::number(value));
        QTest::keyClick(box, Qt::Key_Return);
        ASSERT_EQ(m_workbench->plan.value(knob), value);
    }
    /// Chooses the directory in the dialog that the button opens.
    void saveInto(const char* button, const QString& directory) {
        ASSERT_TRUE(QDir().mkpath(directory));
        QTimer poll;
        QObject::connect(&poll, &QTimer::timeout, [&] {
            auto* dialog = qobject_cast<QFileDialog*>(QApplication::activeModalWidget());
            if (dialog == nullptr) return;
            poll.stop();
            dialog->setDirectory(directory);
            dialog->findChild<QLineEdit*>()->setText(directory);
            QTest::keyClick(dialog->findChild<QLineEdit*>(), Qt::Key_Return);
        });
        poll.start(50);
        click(PageId::Export, button);
    }
    SessionViewModel& cluster() { return m_workbench->sessions.current(); }
    RunsViewModel& runs() { return m_workbench->runs; }

    void addSession();
    void connectAndDiscover();
    void planForIt();
    void searchAndChoose();
    void launchAndWatch();
    void fetchAgain();
    void compare();
    void exportAll();

    QString m_ssh_config;
    QString m_run;
};

void WholePath::addSession() {
    m_window->showPage(PageId::Sessions);
    ASSERT_TRUE(settled());
    QTest::keySequence(m_window.get(), QKeySequence(QStringLiteral("Ctrl+N")));
    auto* form = m_window->findChild<QDialog*>(QStringLiteral("session_form"));
    ASSERT_NE(form, nullptr);
    const auto type = [&](const char* name, const QString& text) {
        QTest::keyClicks(form->findChild<QLineEdit*>(QString::fromLatin1(name)), text);
    };
    type("form.name", QStringLiteral("cluster"));
    type("form.host", QStringLiteral("node0"));
    form->findChild<QComboBox*>(QStringLiteral("form.launcher"))
        ->setCurrentText(QStringLiteral("sbatch"));
    type("form.partition", QStringLiteral("main"));
    type("form.time", QStringLiteral("10:00"));
    type("form.directory", QString::fromStdString((m_directory.path() / "there").string()));
    type("form.ssh_config", m_ssh_config);
    QTest::mouseClick(form->findChild<QPushButton*>(QStringLiteral("form.add")), Qt::LeftButton);
    ASSERT_TRUE(waitFor([&] { return cluster().name() == QStringLiteral("cluster"); }));
    ASSERT_TRUE(settled());
    QApplication::setActiveWindow(m_window.get());  // as a window manager does after a dialog
}

void WholePath::connectAndDiscover() {
    click(PageId::Sessions, "session.connect");
    ASSERT_TRUE(waitFor([&] { return cluster().cluster() || cluster().fault(); }, kLong))
        << cluster().dump().toStdString();
    const std::string found = cluster().dump().toStdString();
    EXPECT_THAT(found, HasSubstr("cluster [connected] node0 · ranks by sbatch"));
    EXPECT_THAT(found, HasSubstr("main"));
    ASSERT_TRUE(cluster().cluster().has_value()) << found;
    EXPECT_EQ(cluster().cluster()->nodes, 3);
    EXPECT_EQ(cluster().cluster()->devices_per_node, 2);
    EXPECT_THAT(child<ClusterPicture>(PageId::Sessions, "session.picture")
                    ->accessibleDescription()
                    .toStdString(),
                HasSubstr("3 × "));
    click(PageId::Sessions, "session.use_cluster");
    ASSERT_EQ(m_window->currentPage(), PageId::Plan);
    ASSERT_TRUE(settled());
}

/// Six ranks want a batch that six divides; half the experts by a movement of the mouse.
void WholePath::planForIt() {
    type(Knob::GlobalBatch, 24);
    type(Knob::SeqLen, 64);
    ASSERT_TRUE(settled());
    auto* page = pageAs<PlanPage>(PageId::Plan);
    QSlider* slider = page->knob(Knob::NumExperts)->slider();
    const std::int64_t experts = m_workbench->plan.value(Knob::NumExperts);
    const int from = slider->value();
    ASSERT_GT(from, 0);
    app::slideMouse(*slider, QEvent::MouseButtonPress, from);
    app::slideMouse(*slider, QEvent::MouseMove, from - 1);
    EXPECT_EQ(page->tile(0)->value(),
              planMetrics(m_workbench->plan.plan(), *m_workbench->plan.prediction()).front().value)
        << "in the same event";
    app::slideMouse(*slider, QEvent::MouseButtonRelease, from - 1);
    EXPECT_LT(m_workbench->plan.value(Knob::NumExperts), experts);
    EXPECT_TRUE(waitFor([&] { return m_workbench->plan.mode() == PredictMode::Simulated; }));
}

void WholePath::searchAndChoose() {
    const std::int64_t experts = m_workbench->plan.value(Knob::NumExperts);
    QTest::keySequence(m_window.get(), QKeySequence(QStringLiteral("Ctrl+E")));
    ASSERT_EQ(m_window->currentPage(), PageId::Explore);
    ASSERT_TRUE(waitFor([&] { return !m_workbench->search.running(); }, kLong));
    auto* filter = child<QLineEdit>(PageId::Explore, "filter");
    QTest::keyClicks(filter, QStringLiteral("zero<=1 cp=1 dp>1 ep>1"));
    auto* table = child<QTableView>(PageId::Explore, "plans");
    const auto* shown = qobject_cast<PlansFilterModel*>(table->model());
    ASSERT_GT(shown->rowCount(), 0) << m_workbench->search.status().toStdString();
    // The best one that our worker runs.
    int row = 0;
    while (row < shown->rowCount() &&
           !m_controller
                ->whyNot(m_workbench->search.plans().planAt(shown->planRow(row)).plan,
                         cluster().config())
                .isEmpty())
        ++row;
    ASSERT_LT(row, shown->rowCount()) << "none that the worker runs";
    table->scrollTo(shown->index(row, 0));
    table->setFocus();
    table->setCurrentIndex(shown->index(row, 0));
    QTest::keyClick(table, Qt::Key_Return);
    ASSERT_EQ(m_window->currentPage(), PageId::Plan);
    EXPECT_EQ(m_workbench->plan.plan().layout.world(), 6);
    EXPECT_EQ(m_workbench->plan.value(Knob::NumExperts), experts);
    ASSERT_TRUE(settled());
}

void WholePath::launchAndWatch() {
    m_window->showPage(PageId::Runs);
    ASSERT_TRUE(settled());
    ASSERT_EQ(runs().whyNot(), QString());
    EXPECT_EQ(child<QComboBox>(PageId::Runs, "run.session")->currentText(),
              QStringLiteral("cluster"));
    m_window->page(PageId::Runs)->findChild<QSpinBox*>()->setValue(kSteps);
    QObject::connect(&runs(), &RunsViewModel::runEnded,
                     [this](const QString& run) { m_run = run; });
    std::vector<int> steps;
    const QObject listening;
    QObject::connect(&runs(), &RunsViewModel::changed, &listening, [this, &steps] {
        if (runs().running() && (steps.empty() || steps.back() != runs().progress().step))
            steps.push_back(runs().progress().step);
    });
    click(PageId::Runs, "run");
    ASSERT_TRUE(waitFor([&] { return !m_run.isEmpty() || !runs().running(); }, kLong));
    ASSERT_TRUE(waitFor([&] { return !m_run.isEmpty(); }))
        << runs().status().toStdString() << runs().log().toStdString();
    EXPECT_GT(steps.size(), 2U) << "progress is live";
    EXPECT_EQ(runs().progress().step, kSteps);
    EXPECT_TRUE(std::isfinite(runs().progress().loss));
    EXPECT_FALSE(runs().loss().empty());
    const RunSummary* measured = runs().history().find(m_run);
    ASSERT_NE(measured, nullptr);
    EXPECT_EQ(measured->outcome, RunOutcome::Finished);
    EXPECT_EQ(measured->ranks, 6);
    EXPECT_EQ(measured->steps, kSteps);
}

void WholePath::fetchAgain() {
    ASSERT_TRUE(waitFor([&] { return m_workbench->jobs.rowCount() == 1; }));
    child<QTabWidget>(PageId::Runs, "run.tabs")->setCurrentIndex(1);
    child<QTableView>(PageId::Runs, "jobs")->selectRow(0);
    const int before = runs().history().rowCount();
    click(PageId::Runs, "jobs.fetch");
    ASSERT_TRUE(waitFor([&] { return runs().history().rowCount() > before; }, kLong))
        << m_workbench->jobs.status().toStdString();
}

void WholePath::compare() {
    m_window->showPage(PageId::Timeline);
    ASSERT_TRUE(settled());
    const auto& panes = pageAs<TimelinePage>(PageId::Timeline)->canvas()->panes();
    ASSERT_EQ(panes.size(), 2U);
    EXPECT_TRUE(panes[0].title.startsWith(QStringLiteral("modelled")));
    EXPECT_TRUE(panes[1].title.startsWith(QStringLiteral("measured")));
    m_window->showPage(PageId::Compare);
    ASSERT_TRUE(settled());
    const Comparison* comparison = m_workbench->pair.comparison();
    ASSERT_NE(comparison, nullptr) << m_workbench->pair.status().toStdString();
    EXPECT_GT(comparison->attribution.step_a_seconds, 0.0);
    EXPECT_GT(comparison->attribution.step_b_seconds, 0.0);
    const ComparedRuns compared = m_workbench->pair.compared();
    for (const ComparisonRow& flops :
         topicRows(*compared.comparison, CompareTopic::Flops, compared.num_ranks))
        EXPECT_NEAR(flops.b / flops.a, 1.0, 0.05) << flops.key;
    auto* table = pageAs<ComparePage>(PageId::Compare)->findChild<QTableView*>();
    EXPECT_GT(table->model()->rowCount(), 10);
}

void WholePath::exportAll() {
    m_window->showPage(PageId::Export);
    pageAs<ExportPage>(PageId::Export)->chooseTarget(ExportTarget::Slurm);
    ASSERT_TRUE(settled());
    const auto into = m_directory.path() / "exported";
    auto* said = child<QLabel>(PageId::Export, "export.saved");
    saveInto("export.save", QString::fromStdString(into.string()));
    ASSERT_TRUE(waitFor([&] { return said->text().startsWith(QStringLiteral("Saved ")); }))
        << said->text().toStdString();
    for (const ExportedFile& file : m_workbench->exporting.result().files)
        EXPECT_EQ(piper::test::readText(into / file.name), file.content) << file.name;
    saveInto("export.report", QString::fromStdString((into / "report").string()));
    ASSERT_TRUE(
        waitFor([&] { return said->text().contains(QStringLiteral("report.html")); }, kLong))
        << said->text().toStdString();
    const std::string html = piper::test::readText(into / "report" / "report.html");
    EXPECT_THAT(html, HasSubstr("Against a run"));
    EXPECT_THAT(html, HasSubstr("The search"));
}

TEST_F(WholePath, FromTheAddressOfAClusterToAReport) {
    open(test::localPlan());
    addSession();
    for (const auto step : {&WholePath::connectAndDiscover, &WholePath::planForIt,
                            &WholePath::searchAndChoose, &WholePath::launchAndWatch,
                            &WholePath::fetchAgain, &WholePath::compare, &WholePath::exportAll}) {
        if (HasFailure()) return;
        (this->*step)();
    }
}

}  // namespace
}  // namespace piper::ui
