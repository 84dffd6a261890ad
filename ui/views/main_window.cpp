// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/main_window.h"

#include <QApplication>
#include <QCloseEvent>
#include <QComboBox>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QListWidget>
#include <QMenu>
#include <QMessageBox>
#include <QPushButton>
#include <QScrollArea>
#include <QStackedWidget>
#include <QStatusBar>
#include <QVBoxLayout>

#include "ui/views/command_palette.h"
#include "ui/views/compare_page.h"
#include "ui/views/explore_page.h"
#include "ui/views/export_page.h"
#include "ui/views/key_dialog.h"
#include "ui/views/plan_page.h"
#include "ui/views/prompt_dialog.h"
#include "ui/views/runs_page.h"
#include "ui/views/schedule_page.h"
#include "ui/views/sessions_page.h"
#include "ui/views/timeline_page.h"
#include "ui/views/tour_bar.h"
#include "ui/views/window_actions.h"

namespace piper::ui {
namespace {

constexpr int kNavigationWidth = 136;
constexpr int kNavigationRow = 34;
constexpr int kMessageMs = 15'000;

bool showsRuns(PageId page) {
    return page == PageId::Timeline || page == PageId::Compare;
}

}  // namespace

MainWindow::MainWindow(Workbench& workbench, QWidget* parent)
    : QMainWindow(parent),
      ask_on_close([this] { return askUser(); }),
      m_workbench(workbench),
      m_navigation(new QListWidget(this)),
      m_stack(new QStackedWidget(this)) {
    setWindowTitle(QStringLiteral("Piper Workbench"));
    makeActions();
    makeNavigation();
    auto* body = new QWidget(this);
    auto* layout = new QHBoxLayout(body);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addWidget(makeSide());
    auto* pages = new QVBoxLayout;
    pages->setSpacing(0);
    pages->addWidget(m_stack, 1);
    pages->addWidget(makeTour(body));
    layout->addLayout(pages, 1);
    setCentralWidget(body);
    for (int i = 0; i < kNumPages; ++i) m_stack->addWidget(new QWidget(m_stack));
    connectModels();
    new PromptPresenter(workbench.sessions.prompts(), *this);
    resize(1600, 900);
    showPage(PageId::Plan);
}

QWidget* MainWindow::makeSide() {
    auto* side = new QWidget(this);
    side->setFixedWidth(kNavigationWidth);
    auto* layout = new QVBoxLayout(side);
    layout->setContentsMargins(0, 0, 0, 8);
    layout->setSpacing(4);
    layout->addWidget(m_navigation, 1);
    auto* menu = new QPushButton(QStringLiteral("Menu"), side);
    menu->setObjectName(QStringLiteral("menu"));
    menu->setToolTip(QStringLiteral("Everything the window does (F10); Ctrl+K to type it"));
    menu->setShortcut(QKeySequence(Qt::Key_F10));
    menu->setMenu(makeWindowMenu(m_actions, menu));
    m_theme = new QComboBox(side);
    m_theme->setObjectName(QStringLiteral("theme"));
    m_theme->setAccessibleName(QStringLiteral("Theme"));
    m_theme->addItems({QStringLiteral("System theme"), QStringLiteral("Light theme"),
                       QStringLiteral("Dark theme")});
    m_theme->setCurrentIndex(static_cast<int>(currentTheme()));
    connect(m_theme, &QComboBox::activated, this,
            [this](int index) { chooseTheme(static_cast<Theme>(index)); });
    auto* column = new QVBoxLayout;
    column->setContentsMargins(8, 0, 8, 0);
    column->addWidget(menu);
    column->addWidget(m_theme);
    layout->addLayout(column);
    return side;
}

void MainWindow::makeNavigation() {
    m_navigation->setObjectName(QStringLiteral("navigation"));
    m_navigation->setAccessibleName(QStringLiteral("Pages"));
    m_navigation->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    for (int i = 0; i < kNumPages; ++i) {
        auto* item = new QListWidgetItem(pageTitle(static_cast<PageId>(i)), m_navigation);
        item->setSizeHint(QSize(0, kNavigationRow));
        item->setToolTip(QStringLiteral("%1 (Ctrl+%2)").arg(item->text()).arg(i + 1));
    }
    drawIcons();
    connect(m_navigation, &QListWidget::currentRowChanged, this,
            [this](int row) { showPage(static_cast<PageId>(row)); });
}

void MainWindow::makeActions() {
    addWindowActions(m_actions, *this, m_workbench);
    std::vector<std::pair<QKeySequence, QString>> reserved;
    for (std::size_t i = 0; i < m_actions.size(); ++i) {
        addAction(m_actions.action(i));
        for (const QKeySequence& key : m_actions.entry(i).keys)
            reserved.emplace_back(key, m_actions.entry(i).text);
    }
    m_workbench.timeline_keys.setReserved(std::move(reserved));
    // A line of text would take Ctrl+K, to delete what is behind the cursor.
    qApp->installEventFilter(this);
}

QWidget* MainWindow::makeTour(QWidget* parent) {
    Tour& tour = m_workbench.tour;
    auto* bar = new TourBar(tour, parent);
    connect(&tour, &Tour::changed, this, [this, &tour] {
        if (!tour.running()) return;
        for (int i = 0; i < kNumPages; ++i)
            if (pageName(static_cast<PageId>(i)) == QLatin1String(tour.step().page))
                showPage(static_cast<PageId>(i));
    });
    connect(bar, &TourBar::actionWanted, this, [this](const QString& section, const QString& text) {
        if (QAction* action = m_actions.find(section, text)) action->trigger();
    });
    return bar;
}

bool MainWindow::eventFilter(QObject* watched, QEvent* event) {
    const bool palette = event->type() == QEvent::ShortcutOverride &&
                         static_cast<QKeyEvent*>(event)->keyCombination() ==
                             QKeyCombination(Qt::ControlModifier, Qt::Key_K);
    if (!palette) return QMainWindow::eventFilter(watched, event);
    event->ignore();
    return true;
}

void MainWindow::openPalette() {
    auto* palette = new CommandPalette(m_actions, this);
    palette->setAttribute(Qt::WA_DeleteOnClose);
    palette->open();
}

void MainWindow::editKeys() {
    auto* dialog = new KeyDialog(m_workbench.timeline_keys, this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    dialog->open();
}

void MainWindow::chooseTheme(Theme theme) {
    applyTheme(*qApp, theme);
    m_theme->setCurrentIndex(static_cast<int>(theme));
    m_workbench.preferences.set(QStringLiteral("theme"), themeName(theme));
}

void MainWindow::drawIcons() {
    const QColor colour = palette().color(QPalette::WindowText);
    for (int i = 0; i < m_navigation->count(); ++i)
        m_navigation->item(i)->setIcon(
            pageIcon(static_cast<PageId>(i), colour, devicePixelRatioF()));
}

void MainWindow::connectModels() {
    const auto say = [this](const QString& message) {
        statusBar()->showMessage(message, kMessageMs);
    };
    connect(&m_workbench.runs, &RunsViewModel::failed, this, say);
    connect(&m_workbench.runs, &RunsViewModel::runEnded, this, &MainWindow::runEnded);
    connect(&m_workbench.runs, &RunsViewModel::historyChanged, this,
            [this] { m_workbench.pair.followFile(m_workbench.runs.workspace()); });
    connect(&m_workbench.plan, &PlanViewModel::importFailed, this, say);
    connect(&m_workbench.preferences, &Preferences::failed, this, say);
    connect(&m_workbench.plan, &PlanViewModel::planChanged, this, [this] {
        if (showsRuns(currentPage())) m_workbench.pair.followPlan();
    });
}

QWidget* MainWindow::makeSessionsPage() {
    auto* sessions = new SessionsPage(m_workbench);
    connect(sessions, &SessionsPage::clusterTaken, this, [this] { showPage(PageId::Plan); });
    return sessions;
}

QWidget* MainWindow::makePage(PageId id) {
    switch (id) {
        case PageId::Sessions:
            return makeSessionsPage();
        case PageId::Plan:
            return new PlanPage(m_workbench);
        case PageId::Explore: {
            auto* explore = new ExplorePage(m_workbench);
            connect(explore, &ExplorePage::planChosen, this, [this] { showPage(PageId::Plan); });
            return explore;
        }
        case PageId::Schedule:
            return new SchedulePage(m_workbench);
        case PageId::Runs: {
            auto* runs = new RunsPage(m_workbench);
            connect(runs, &RunsPage::runChosen, this, [this](const QString& run) {
                m_workbench.pair.select(m_workbench.runs.workspace(), {}, run);
                showPage(PageId::Timeline);
            });
            return runs;
        }
        case PageId::Timeline:
            return new TimelinePage(m_workbench);
        case PageId::Compare:
            return new ComparePage(m_workbench);
        case PageId::Export:
            return new ExportPage(m_workbench);
    }
    return nullptr;
}

QWidget* MainWindow::page(PageId id) {
    const auto index = static_cast<std::size_t>(id);
    if (m_pages[index] == nullptr) {
        m_pages[index] = makePage(id);
        QWidget* placeholder = m_stack->widget(static_cast<int>(index));
        // A small screen scrolls instead of making the window larger than itself.
        auto* scroll = new QScrollArea(m_stack);
        scroll->setFrameShape(QFrame::NoFrame);
        scroll->setWidgetResizable(true);
        scroll->setWidget(m_pages[index]);
        m_stack->insertWidget(static_cast<int>(index), scroll);
        m_stack->removeWidget(placeholder);
        delete placeholder;
    }
    return m_pages[index];
}

void MainWindow::showPage(PageId id) {
    if (showsRuns(id)) m_workbench.pair.followPlan();
    static_cast<void>(page(id));
    m_stack->setCurrentIndex(static_cast<int>(id));
    m_navigation->setCurrentRow(static_cast<int>(id));
}

PageId MainWindow::currentPage() const {
    return static_cast<PageId>(m_stack->currentIndex());
}

void MainWindow::runEnded(const QString& run) {
    statusBar()->showMessage(m_workbench.runs.status(), kMessageMs);
    if (!run.isEmpty()) m_workbench.pair.select(m_workbench.runs.workspace(), {}, run);
    if (m_close_when_ended) close();
}

MainWindow::OnClose MainWindow::askUser() {
    QMessageBox box(QMessageBox::Question, QStringLiteral("A run goes on"),
                    QStringLiteral("A run goes on. Everything recorded so far is kept either way."),
                    QMessageBox::NoButton, this);
    auto* keep = box.addButton(QStringLiteral("Keep it running"), QMessageBox::AcceptRole);
    auto* stop = box.addButton(QStringLiteral("Stop the run"), QMessageBox::DestructiveRole);
    box.addButton(QStringLiteral("Stay here"), QMessageBox::RejectRole);
    box.exec();
    if (box.clickedButton() == keep) return OnClose::KeepRunning;
    return box.clickedButton() == stop ? OnClose::StopRun : OnClose::StayOpen;
}

void MainWindow::acceptClose(QCloseEvent& event) {
    m_workbench.sessions.prompts().refuseAll();  // nobody is there to answer any more
    event.accept();
}

void MainWindow::closeEvent(QCloseEvent* event) {
    if (!m_workbench.runs.running()) {
        acceptClose(*event);
        return;
    }
    switch (ask_on_close()) {
        case OnClose::KeepRunning:
            m_workbench.runs.detach();
            acceptClose(*event);
            return;
        case OnClose::StopRun:
            // The window closes by itself once the ranks have ended and their files are collected.
            m_close_when_ended = true;
            m_workbench.runs.cancel();
            event->ignore();
            return;
        case OnClose::StayOpen:
            event->ignore();
            return;
    }
}

void MainWindow::changeEvent(QEvent* event) {
    QMainWindow::changeEvent(event);
    if (event->type() == QEvent::PaletteChange && m_navigation != nullptr) drawIcons();
}

}  // namespace piper::ui
