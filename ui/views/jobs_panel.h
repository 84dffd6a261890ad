// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/workbench.h"

class QLabel;
class QPushButton;
class QTableView;

namespace piper::ui {

/// The jobs of the chosen session: watched again, ended, fetched.
class JobsPanel : public QWidget {
    Q_OBJECT
public:
    explicit JobsPanel(Workbench& workbench, QWidget* parent = nullptr);

private:
    QPushButton* addButton(const QString& label, const char* name, const QString& tip);
    void attach();
    void take();
    [[nodiscard]] int row() const;

    Workbench& m_workbench;
    JobsModel& m_jobs;
    QTableView* m_table;
    QLabel* m_status;
    QPushButton* m_attach;
    QPushButton* m_end;
    QPushButton* m_fetch;
    QString m_chosen;  ///< directory of the job that was chosen last
};

}  // namespace piper::ui
