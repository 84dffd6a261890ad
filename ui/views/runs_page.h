// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/workbench.h"

class QComboBox;
class QLabel;
class QPlainTextEdit;
class QProgressBar;
class QPushButton;
class QSpinBox;
class QTabWidget;
class QTableView;

namespace piper::ui {

class BarsPlot;
class LinePlot;

/// Launches the current plan in a session, shows how it goes, the jobs of the session and the
/// history of the workspace file.
class RunsPage : public QWidget {
    Q_OBJECT
public:
    explicit RunsPage(Workbench& workbench, QWidget* parent = nullptr);

Q_SIGNALS:
    /// Show that run beside its model.
    void runChosen(const QString& run);

private:
    QWidget* makeControls();
    QWidget* makeSessionChoice(QWidget* parent);
    QWidget* makeLive();
    QWidget* makeHistory();
    void take();
    void takeHistory();
    void takeSessions();
    void takeJobs();
    void showPreview(const RunPreview& preview);
    void showCurves();
    void chooseWorkspace();
    void chooseRow(const QModelIndex& index);
    QWidget* makeHistoryBar(QWidget* parent);
    /// Lets the user write in that column of the chosen run.
    void editLabel(int column);

    Workbench& m_workbench;
    QComboBox* m_session = nullptr;
    QPushButton* m_connect = nullptr;
    QSpinBox* m_steps = nullptr;
    QPushButton* m_run = nullptr;
    QPushButton* m_preview = nullptr;
    QPushButton* m_cancel = nullptr;
    QProgressBar* m_progress = nullptr;
    QLabel* m_why_not = nullptr;
    QPushButton* m_local = nullptr;
    QLabel* m_status = nullptr;
    QLabel* m_numbers = nullptr;
    LinePlot* m_loss = nullptr;
    BarsPlot* m_load = nullptr;
    BarsPlot* m_memory = nullptr;
    QPlainTextEdit* m_log = nullptr;
    qsizetype m_log_shown = 0;
    QLabel* m_workspace = nullptr;
    QTableView* m_history = nullptr;
    RunFilterModel* m_filter = nullptr;
    std::vector<QPushButton*> m_for_chosen;  ///< what is done with the chosen run
    QString m_chosen;                        ///< run of the history
    bool m_was_running = false;
    QTabWidget* m_tabs = nullptr;
};

}  // namespace piper::ui
