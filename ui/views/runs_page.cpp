// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/runs_page.h"

#include <QComboBox>
#include <QFileDialog>
#include <QFontDatabase>
#include <QHeaderView>
#include <QLineEdit>
#include <QLocale>
#include <QPlainTextEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QScrollBar>
#include <QSpinBox>
#include <QSplitter>
#include <QTabWidget>
#include <QTableView>
#include <QVBoxLayout>
#include <cmath>
#include <utility>

#include "ui/models/text_format.h"
#include "ui/plots/bars_plot.h"
#include "ui/plots/line_plot.h"
#include "ui/views/jobs_panel.h"
#include "ui/views/launch_preview.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr int kSessionWidth = 150;
constexpr int kUseWidth = 360;  ///< least of load and memory: a plot without room draws nothing
constexpr int kDefaultSteps = 20;
constexpr int kMostSteps = 1'000'000;

}  // namespace

RunsPage::RunsPage(Workbench& workbench, QWidget* parent)
    : QWidget(parent), m_workbench(workbench) {
    auto* page = makePageLayout(this, QStringLiteral("Runs"));
    page->addWidget(makeControls());
    m_why_not = makeLabel({}, "faint", this);
    m_why_not->setObjectName(QStringLiteral("run.why_not"));
    m_why_not->setWordWrap(true);
    m_local = new QPushButton(QStringLiteral("Open the plan for this machine"), this);
    m_local->setObjectName(QStringLiteral("run.local_plan"));
    connect(m_local, &QPushButton::clicked, this,
            [this] { m_workbench.plan.openPlan(m_workbench.local_plan); });
    auto* reason = new QHBoxLayout;
    reason->addWidget(m_why_not, 1);
    reason->addWidget(m_local);
    page->addLayout(reason);

    page->addWidget(makeLive(), 1);
    m_tabs = new QTabWidget(this);
    m_tabs->setObjectName(QStringLiteral("run.tabs"));
    m_tabs->setDocumentMode(true);
    m_tabs->addTab(makeHistory(), QStringLiteral("&History"));
    m_tabs->addTab(new JobsPanel(workbench, this), QStringLiteral("&Jobs"));
    page->addWidget(m_tabs, 1);

    connect(&workbench.runs, &RunsViewModel::previewed, this, &RunsPage::showPreview);
    connect(&workbench.sessions, &SessionsViewModel::listChanged, this, &RunsPage::takeSessions);
    connect(&workbench.sessions, &SessionsViewModel::currentChanged, this, &RunsPage::takeSessions);
    connect(&workbench.sessions, &SessionsViewModel::changed, this, &RunsPage::takeSessions);
    connect(&workbench.jobs, &JobsModel::changed, this, &RunsPage::takeJobs);
    connect(&workbench.runs, &RunsViewModel::changed, this, &RunsPage::take);
    connect(&workbench.runs, &RunsViewModel::historyChanged, this, &RunsPage::takeHistory);
    connect(&workbench.runs, &RunsViewModel::stepsWanted, m_steps, [this](qint64 steps) {
        m_steps->setValue(static_cast<int>(std::min<qint64>(steps, kMostSteps)));
    });
    workbench.sessions.local().open();
    takeSessions();
    take();
    takeHistory();
    takeJobs();
}

/// Loss; expert load above memory; what the ranks say.
QWidget* RunsPage::makeLive() {
    auto* live = new QSplitter(Qt::Horizontal, this);
    m_loss = new LinePlot(QStringLiteral("Loss, mean over the global batch"),
                          QStringLiteral("step"), live);
    auto* use = new QWidget(live);
    use->setMinimumWidth(kUseWidth);
    auto* use_layout = new QVBoxLayout(use);
    use_layout->setContentsMargins(0, 0, 0, 0);
    use_layout->setSpacing(4);
    m_load = new BarsPlot(QStringLiteral("expert"), use);
    m_load->setObjectName(QStringLiteral("run.load"));
    m_memory = new BarsPlot(QStringLiteral("rank"), use);
    m_memory->setObjectName(QStringLiteral("run.memory"));
    use_layout->addWidget(m_load, 1);
    use_layout->addWidget(m_memory, 1);
    auto* log = new QWidget(live);
    auto* log_layout = new QVBoxLayout(log);
    log_layout->setContentsMargins(0, 0, 0, 0);
    log_layout->setSpacing(4);
    log_layout->addWidget(makeLabel(QStringLiteral("Log of all ranks"), "section", log));
    m_log = new QPlainTextEdit(log);
    m_log->setReadOnly(true);
    m_log->setMaximumBlockCount(5000);
    m_log->setPlaceholderText(QStringLiteral("Nothing was said yet."));
    m_log->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    log_layout->addWidget(m_log);
    for (const int part : {0, 1, 2}) live->setStretchFactor(part, 1);
    return live;
}

QWidget* RunsPage::makeControls() {
    auto* bar = new QWidget(this);
    auto* layout = new QHBoxLayout(bar);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(kSpacing);
    m_run = new QPushButton(QStringLiteral("&Run"), bar);
    m_run->setObjectName(QStringLiteral("run"));
    m_preview = new QPushButton(QStringLiteral("&Preview…"), bar);
    m_preview->setObjectName(QStringLiteral("run.preview"));
    m_preview->setToolTip(
        QStringLiteral("Command, script, rank map and warnings; nothing is started"));
    m_cancel = new QPushButton(QStringLiteral("&Cancel"), bar);
    m_cancel->setObjectName(QStringLiteral("cancel"));
    m_steps = new QSpinBox(bar);
    m_steps->setObjectName(QStringLiteral("run.steps"));
    m_steps->setRange(1, kMostSteps);
    m_steps->setValue(kDefaultSteps);
    m_steps->setAccessibleName(QStringLiteral("Steps to run"));
    m_steps->setSuffix(QStringLiteral(" steps"));
    m_steps->setAlignment(Qt::AlignRight);
    m_progress = new QProgressBar(bar);
    m_progress->setTextVisible(false);
    m_progress->setFixedSize(160, 10);
    m_status = new QLabel(bar);
    m_status->setObjectName(QStringLiteral("run.status"));
    m_status->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    m_numbers = makeLabel({}, "section", bar);
    m_numbers->setObjectName(QStringLiteral("run.numbers"));
    layout->addWidget(makeSessionChoice(bar));
    layout->addWidget(m_run);
    layout->addWidget(m_preview);
    layout->addWidget(m_steps);
    layout->addWidget(m_cancel);
    layout->addWidget(m_progress);
    layout->addWidget(m_status, 1);
    layout->addWidget(m_numbers);
    connect(m_run, &QPushButton::clicked, this,
            [this] { m_workbench.runs.start(m_steps->value()); });
    connect(m_preview, &QPushButton::clicked, this,
            [this] { m_workbench.runs.preview(m_steps->value()); });
    connect(m_cancel, &QPushButton::clicked, &m_workbench.runs, &RunsViewModel::cancel);
    return bar;
}

QWidget* RunsPage::makeSessionChoice(QWidget* parent) {
    auto* box = new QWidget(parent);
    auto* layout = new QHBoxLayout(box);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(4);
    m_session = new QComboBox(box);
    m_session->setObjectName(QStringLiteral("run.session"));
    m_session->setAccessibleName(QStringLiteral("Session to run in"));
    m_session->setToolTip(QStringLiteral("Where the plan runs; Sessions adds more"));
    m_session->setMinimumWidth(kSessionWidth);
    m_connect = new QPushButton(QStringLiteral("C&onnect"), box);
    m_connect->setObjectName(QStringLiteral("run.connect"));
    layout->addWidget(m_session);
    layout->addWidget(m_connect);
    connect(m_session, &QComboBox::activated, this, [this](int index) {
        m_workbench.sessions.select(m_session->itemData(index).toString());
    });
    connect(m_connect, &QPushButton::clicked, this,
            [this] { m_workbench.sessions.current().open(); });
    return box;
}

void RunsPage::takeSessions() {
    const SessionsViewModel& sessions = m_workbench.sessions;
    const QSignalBlocker quiet(m_session);
    m_session->clear();
    for (const auto& session : sessions.all()) {
        m_session->addItem(session->title(), session->name());
        if (session.get() == &sessions.current())
            m_session->setCurrentIndex(m_session->count() - 1);
    }
    const SessionViewModel& current = sessions.current();
    m_connect->setVisible(current.session() == nullptr);
    m_connect->setEnabled(!current.busy());
    m_connect->setText(current.busy() ? current.stateText() : QStringLiteral("C&onnect"));
}

void RunsPage::takeJobs() {
    const int going = m_workbench.jobs.going();
    m_tabs->setTabText(
        1, going > 0 ? QStringLiteral("&Jobs (%1 go on)").arg(going) : QStringLiteral("&Jobs"));
}

void RunsPage::showPreview(const RunPreview& preview) {
    auto* dialog = new LaunchPreviewDialog(preview, this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    connect(dialog, &QDialog::accepted, this,
            [this, request = preview.request] { m_workbench.runs.start(request); });
    dialog->open();
}

QWidget* RunsPage::makeHistory() {
    auto* box = new QWidget(this);
    auto* layout = new QVBoxLayout(box);
    layout->setContentsMargins(0, 4, 0, 0);
    layout->setSpacing(4);
    m_filter = new RunFilterModel(m_workbench.runs.history(), this);
    layout->addWidget(makeHistoryBar(box));
    m_history = makeTable(m_filter, box);
    m_history->setObjectName(QStringLiteral("history"));
    m_history->setAccessibleName(QStringLiteral("Runs of the workspace file"));
    m_history->setEditTriggers(QAbstractItemView::EditKeyPressed);
    layout->addWidget(m_history);
    m_history->horizontalHeader()->setStretchLastSection(false);
    m_history->horizontalHeader()->setSectionResizeMode(RunHistoryModel::Layout,
                                                        QHeaderView::Stretch);
    m_history->setToolTip(
        QStringLiteral("A double click shows the run beside its model; F2 writes tags and notes."));
    connect(m_history, &QTableView::doubleClicked, this, &RunsPage::chooseRow);
    connect(m_history->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
            [this](const QModelIndex& now) {
                if (const RunSummary* run = m_filter->run(now)) m_chosen = run->name;
                showCurves();
            });
    return box;
}

QWidget* RunsPage::makeHistoryBar(QWidget* parent) {
    auto* bar = new QWidget(parent);
    auto* layout = new QHBoxLayout(bar);
    layout->setContentsMargins(0, 0, 0, 0);
    m_workspace = makeLabel({}, "faint", bar);
    m_workspace->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    layout->addWidget(m_workspace, 1);
    auto* filter = new QLineEdit(bar);
    filter->setObjectName(QStringLiteral("history.filter"));
    filter->setPlaceholderText(QStringLiteral("Filter: words, #tag"));
    filter->setAccessibleName(QStringLiteral("Filter the runs"));
    filter->setClearButtonEnabled(true);
    filter->setMaximumWidth(220);
    connect(filter, &QLineEdit::textChanged, m_filter, &RunFilterModel::setText);
    layout->addWidget(filter);
    const auto add = [&](const char* name, const QString& label, const QString& tip) {
        auto* button = new QPushButton(label, bar);
        button->setObjectName(QString::fromLatin1(name));
        button->setToolTip(tip);
        layout->addWidget(button);
        return button;
    };
    auto* again = add("history.again", QStringLiteral("Run a&gain…"),
                      QStringLiteral("What its plan, launcher and session would launch"));
    auto* tags = add("history.tags", QStringLiteral("&Tags…"),
                     QStringLiteral("Words to find the run by, a comma between them"));
    auto* note = add("history.note", QStringLiteral("&Note…"), QStringLiteral("Any text"));
    auto* open = add("open_workspace", QStringLiteral("Open workspace…"), {});
    connect(again, &QPushButton::clicked, this, [this] { m_workbench.runs.again(m_chosen); });
    connect(tags, &QPushButton::clicked, this, [this] { editLabel(RunHistoryModel::Tags); });
    connect(note, &QPushButton::clicked, this, [this] { editLabel(RunHistoryModel::Note); });
    connect(open, &QPushButton::clicked, this, &RunsPage::chooseWorkspace);
    m_for_chosen = {again, tags, note};
    return bar;
}

void RunsPage::editLabel(int column) {
    const QModelIndex cell = m_filter->indexOf(m_chosen, column);
    if (!cell.isValid()) return;
    m_history->setFocus();
    m_history->setCurrentIndex(cell);
    m_history->edit(cell);
}

void RunsPage::chooseWorkspace() {
    const QString path =
        QFileDialog::getOpenFileName(this, QStringLiteral("Open a workspace"), {},
                                     QStringLiteral("Workspace files (*.piper);;All files (*)"));
    if (!path.isEmpty()) m_workbench.runs.openWorkspace(path);
}

void RunsPage::chooseRow(const QModelIndex& index) {
    if (const RunSummary* run = m_filter->run(index)) Q_EMIT runChosen(run->name);
}

void RunsPage::take() {
    const RunsViewModel& runs = m_workbench.runs;
    const bool running = runs.running();
    const QString why_not = running ? QString() : runs.whyNot();
    m_run->setEnabled(!running && why_not.isEmpty());
    m_preview->setEnabled(!running && why_not.isEmpty());
    m_cancel->setEnabled(running);
    m_why_not->setVisible(!why_not.isEmpty());
    m_local->setVisible(!why_not.isEmpty() && !m_workbench.local_plan.isEmpty());
    m_why_not->setText(QStringLiteral("This plan cannot be launched here: ") + why_not);
    m_status->setText(runs.status());
    const RunProgress& p = runs.progress();
    m_progress->setRange(0, std::max(1, p.steps));
    m_progress->setValue(p.step);
    m_progress->setVisible(running);
    m_numbers->setText(
        p.step > 0 && std::isfinite(p.loss)
            ? QStringLiteral("loss %1 · %2 tokens/s")
                  .arg(QLocale().toString(p.loss, 'f', 4), countText(p.tokens_per_second))
            : QString());
    if (std::exchange(m_was_running, running) != running) {
        m_history->setCurrentIndex({});  // the live run shows, until another one is chosen
        m_chosen.clear();
    }
    showCurves();
    if (runs.log().size() != m_log_shown) {
        m_log->setPlainText(runs.log());
        m_log->verticalScrollBar()->setValue(m_log->verticalScrollBar()->maximum());
        m_log_shown = runs.log().size();
    }
}

void RunsPage::showCurves() {
    const RunsViewModel& runs = m_workbench.runs;
    const bool shown = m_history->currentIndex().isValid();
    for (QPushButton* button : m_for_chosen)
        button->setEnabled(shown && (!runs.running() || button != m_for_chosen.front()));
    const RunCurves curves = runs.curves(shown ? m_chosen : QString());
    m_loss->setTitle(curves.of.isEmpty() ? QStringLiteral("Loss, mean over the global batch")
                                         : QStringLiteral("Loss of run ‘%1’").arg(curves.of));
    m_loss->setPoints(curves.loss, curves.steps);
    const bool used = !curves.load.empty() || !curves.rank_peak_bytes.empty();
    m_load->parentWidget()->setVisible(used);
    m_load->setVisible(!curves.load.empty());
    m_load->setTitle(curves.loadTitle());
    m_load->setBars(curves.load.tokens, BarsPlot::Unit::Count);
    m_memory->setVisible(!curves.rank_peak_bytes.empty());
    m_memory->setTitle(curves.memoryTitle());
    m_memory->setBars(curves.rank_peak_bytes, BarsPlot::Unit::Bytes);
}

void RunsPage::takeHistory() {
    const QString& path = m_workbench.runs.workspace();
    m_workspace->setText(path.isEmpty() ? QStringLiteral("no workspace file is open") : path);
    m_history->resizeColumnsToContents();
    m_history->setCurrentIndex(m_filter->indexOf(m_chosen));
    showCurves();
}

}  // namespace piper::ui
