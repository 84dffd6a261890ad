// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/window_actions.h"

#include <QAbstractButton>
#include <QMenu>
#include <QTabWidget>

#include "ui/timeline/timeline_canvas.h"
#include "ui/views/export_page.h"
#include "ui/views/main_window.h"
#include "ui/views/theme.h"

namespace piper::ui {
namespace {

using Entry = ActionCatalogue::Entry;

QList<QKeySequence> keys(const char* portable) {
    return *portable == '\0' ? QList<QKeySequence>()
                             : QList<QKeySequence>{QKeySequence(QString::fromLatin1(portable))};
}

/// Makes entries; holds what all of them need.
class Adder {
public:
    Adder(ActionCatalogue& catalogue, MainWindow& window, Workbench& workbench)
        : m_catalogue(catalogue), m_window(window), m_workbench(workbench) {}

    void addPages();
    void addPlan();
    void addExplore();
    void addSessionsAndRuns();
    void addTimeline();
    void addExport();
    void addWindow();

private:
    struct Button {
        PageId page;
        const char *name, *text;
        const char* keys = "";
        const char* page_keys = "";  ///< the page reads them itself
    };
    void add(const QString& section, const QString& text, const char* key,
             std::function<void()> run, std::function<bool()> possible = {}) {
        m_catalogue.add({section, text, keys(key), std::move(run), std::move(possible)});
    }
    /// Shows the page and clicks its button.
    void addButton(const Button& button);
    /// Shows the page and a tab of it.
    void addTab(PageId page, const char* tabs, int index, const char* text);
    /// Shows the page and gives its field the focus.
    void addField(const QString& section, PageId page, const QString& name, const QString& text,
                  const char* key = "");
    ActionCatalogue& m_catalogue;
    MainWindow& m_window;
    Workbench& m_workbench;
};

void Adder::addButton(const Button& button) {
    const auto find = [&window = m_window, page = button.page,
                       name = QString::fromLatin1(button.name)] {
        return window.page(page)->findChild<QAbstractButton*>(name);
    };
    Entry entry{pageTitle(button.page), QString::fromUtf8(button.text), keys(button.keys), {}};
    entry.run = [find, page = button.page, &window = m_window] {
        window.showPage(page);
        find()->click();
    };
    // A page that was not shown yet is not made to find out.
    entry.possible = [find, page = button.page, &window = m_window] {
        return !window.isMade(page) || (find()->isEnabled() && !find()->isHidden());
    };
    if (*button.page_keys != '\0')
        entry.keys_text = [shown = keys(button.page_keys).front()] {
            return shown.toString(QKeySequence::NativeText);
        };
    m_catalogue.add(std::move(entry));
}

void Adder::addTab(PageId page, const char* tabs, int index, const char* text) {
    const auto find = [page, tabs, &window = m_window] {
        return window.page(page)->findChild<QTabWidget*>(QString::fromLatin1(tabs));
    };
    add(
        pageTitle(page), QString::fromUtf8(text), "",
        [find, page, index, &window = m_window] {
            window.showPage(page);
            find()->setCurrentIndex(index);
            find()->currentWidget()->setFocus(Qt::ShortcutFocusReason);
        },
        [find, page, index, &window = m_window] {
            return !window.isMade(page) || find()->isTabVisible(index);
        });
}

void Adder::addField(const QString& section, PageId page, const QString& name, const QString& text,
                     const char* key) {
    add(section, text, key, [page, name, &window = m_window] {
        window.showPage(page);
        auto* field = window.page(page)->findChild<QWidget*>(name);
        field->setFocus(Qt::ShortcutFocusReason);
    });
}

void Adder::addPages() {
    for (int i = 0; i < kNumPages; ++i) {
        const auto page = static_cast<PageId>(i);
        m_catalogue.add({QStringLiteral("Go to"),
                         pageTitle(page),
                         {QKeySequence(QStringLiteral("Ctrl+%1").arg(i + 1))},
                         [page, &window = m_window] { window.showPage(page); }});
    }
}

void Adder::addPlan() {
    const QString section = QStringLiteral("Plan");
    PlanViewModel& plan = m_workbench.plan;
    add(
        section, QStringLiteral("Undo"), "Ctrl+Z", [&plan] { plan.undo(); },
        [&plan] { return plan.canUndo(); });
    add(
        section, QStringLiteral("Redo"), "Ctrl+Shift+Z", [&plan] { plan.redo(); },
        [&plan] { return plan.canRedo(); });
    addButton({PageId::Plan, "pin", "Pin this plan", "Ctrl+P"});
    addButton({PageId::Plan, "open_plan", "Open plan file…", "Ctrl+O"});
    addButton({PageId::Plan, "import_model", "Import config.json…", "Ctrl+I"});
    const char* const answers[] = {"Show memory and time", "Show the pinned plans",
                                   "Show ranks on nodes and in both grids",
                                   "Show the roofline of GEMMs and links"};
    for (int i = 0; i < 4; ++i) addTab(PageId::Plan, "answers", i, answers[i]);
    for (const KnobInfo& info : knobTable())
        addField(section, PageId::Plan, QStringLiteral("spin.") + QString::fromLatin1(info.key),
                 QStringLiteral("Set %1").arg(QString::fromUtf8(info.label)));
    for (const ChoiceInfo& info : choiceTable())
        addField(section, PageId::Plan, QStringLiteral("choice.") + QString::fromLatin1(info.key),
                 QStringLiteral("Choose %1").arg(QString::fromUtf8(info.label)));
}

void Adder::addExplore() {
    addButton({PageId::Explore, "search", "Search for the best plans", "Ctrl+E"});
    addButton({PageId::Explore, "search.cancel", "Cancel the search"});
    const char* const views[] = {"Show the Pareto plot and reasons", "Show the heat map",
                                 "Show capacity and sensitivity curves"};
    for (int i = 0; i < 3; ++i) addTab(PageId::Explore, "explore.tabs", i, views[i]);
    addButton({PageId::Explore, "curve.compute", "Compute the curve"});
    const QString section = QStringLiteral("Explore");
    addField(section, PageId::Explore, QStringLiteral("filter"), QStringLiteral("Filter the plans"),
             "Ctrl+F");
    addField(section, PageId::Explore, QStringLiteral("why_not"),
             QStringLiteral("Ask why not another plan"));
}

void Adder::addSessionsAndRuns() {
    addButton({PageId::Sessions, "sessions.add", "Add a session…", "", "Ctrl+N"});
    addButton({PageId::Sessions, "session.connect", "Connect or disconnect", "", "Ctrl+Return"});
    addButton({PageId::Sessions, "session.test", "Test the connection", "", "Ctrl+T"});
    addButton({PageId::Sessions, "session.discover", "Ask the host again", "", "F5"});
    addButton({PageId::Sessions, "session.use_cluster", "Plan for this cluster", "", "Ctrl+U"});
    addButton({PageId::Sessions, "session.forget", "Forget the session…", "", "Ctrl+Delete"});
    addButton({PageId::Runs, "run", "Run the plan", "Ctrl+R"});
    addButton({PageId::Runs, "run.preview", "Preview the launch…", "Ctrl+Shift+R"});
    addButton({PageId::Runs, "cancel", "Cancel the run"});
    addButton({PageId::Runs, "run.local_plan", "Open the plan for this machine"});
    addButton({PageId::Runs, "history.again", "Run the chosen run again…"});
    addButton({PageId::Runs, "history.tags", "Write tags on the chosen run"});
    addButton({PageId::Runs, "history.note", "Write a note on the chosen run"});
    addField(QStringLiteral("Runs"), PageId::Runs, QStringLiteral("history.filter"),
             QStringLiteral("Filter the runs"));
    addButton({PageId::Runs, "open_workspace", "Open workspace file…", "Ctrl+Shift+O"});
}

void Adder::addTimeline() {
    for (const TimelineCommandInfo& info : timelineCommands()) {
        QString what = QString::fromLatin1(info.text);
        what[0] = what[0].toUpper();
        const auto canvas = [&window = m_window] {
            return window.page(window.currentPage())->findChild<TimelineCanvas*>();
        };
        Entry entry{QStringLiteral("Timeline"), what, {}, {}};
        entry.run = [canvas, command = info.command] {
            canvas()->setFocus();
            canvas()->perform(command);
        };
        entry.possible = [canvas, command = info.command] {
            return canvas() != nullptr && canvas()->offers(command);
        };
        entry.keys_text = [&bound = m_workbench.timeline_keys, command = info.command] {
            return bound.keysText(command);
        };
        m_catalogue.add(std::move(entry));
    }
    add(QStringLiteral("Timeline"), QStringLiteral("Change keys…"), "",
        [&window = m_window] { window.editKeys(); });
}

void Adder::addExport() {
    const QString section = QStringLiteral("Export");
    for (const ExportTarget target : exportTargets())
        add(section, QStringLiteral("Show %1").arg(targetLabel(target)), "",
            [target, &window = m_window] {
                window.showPage(PageId::Export);
                qobject_cast<ExportPage*>(window.page(PageId::Export))->chooseTarget(target);
            });
    addButton({PageId::Export, "export.save", "Save the files…", "Ctrl+S"});
    addButton({PageId::Export, "export.copy", "Copy the file shown"});
    addButton({PageId::Export, "export.report", "Save a report…", "Ctrl+Shift+S"});
}

void Adder::addWindow() {
    const QString section = QStringLiteral("Window");
    add(section, QStringLiteral("System theme"), "",
        [&window = m_window] { window.chooseTheme(Theme::System); });
    add(section, QStringLiteral("Light theme"), "",
        [&window = m_window] { window.chooseTheme(Theme::Light); });
    add(section, QStringLiteral("Dark theme"), "",
        [&window = m_window] { window.chooseTheme(Theme::Dark); });
    m_catalogue.add(
        {section,
         QStringLiteral("All commands…"),
         {QKeySequence(QStringLiteral("Ctrl+K")), QKeySequence(QStringLiteral("Ctrl+Shift+P"))},
         [&window = m_window] { window.openPalette(); }});
    add(section, QStringLiteral("Tour in five steps"), "F1",
        [&tour = m_workbench.tour] { tour.start(); });
    add(section, QStringLiteral("Quit"), "Ctrl+Q", [&window = m_window] { window.close(); });
}

}  // namespace

void addWindowActions(ActionCatalogue& catalogue, MainWindow& window, Workbench& workbench) {
    Adder adder(catalogue, window, workbench);
    adder.addPages();
    adder.addPlan();
    adder.addExplore();
    adder.addSessionsAndRuns();
    adder.addTimeline();
    adder.addExport();
    adder.addWindow();
}

QMenu* makeWindowMenu(const ActionCatalogue& catalogue, QWidget* parent) {
    auto* menu = new QMenu(parent);
    for (const QString& section : catalogue.sections()) {
        QMenu* part = menu->addMenu(section);
        for (std::size_t i = 0; i < catalogue.size(); ++i)
            if (catalogue.entry(i).section == section) part->addAction(catalogue.action(i));
        QObject::connect(part, &QMenu::aboutToShow, part, [part, section, &catalogue] {
            for (std::size_t i = 0; i < catalogue.size(); ++i) {
                const ActionCatalogue::Entry& entry = catalogue.entry(i);
                if (entry.section != section) continue;
                QAction* action = catalogue.action(i);
                action->setEnabled(catalogue.possible(i));
                if (entry.keys_text) action->setText(entry.text + u'\t' + entry.keys_text());
            }
        });
        // Keys ask for themselves whether something is possible.
        QObject::connect(part, &QMenu::aboutToHide, part, [section, &catalogue] {
            for (std::size_t i = 0; i < catalogue.size(); ++i)
                if (catalogue.entry(i).section == section) catalogue.action(i)->setEnabled(true);
        });
    }
    return menu;
}

}  // namespace piper::ui
