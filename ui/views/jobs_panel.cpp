// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/jobs_panel.h"

#include <QLabel>
#include <QPushButton>
#include <QTableView>
#include <QVBoxLayout>

#include "ui/views/widgets.h"

namespace piper::ui {

JobsPanel::JobsPanel(Workbench& workbench, QWidget* parent)
    : QWidget(parent),
      m_workbench(workbench),
      m_jobs(workbench.jobs),
      m_table(makeTable(&workbench.jobs, this)),
      m_status(makeLabel({}, "faint", this)),
      m_attach(addButton(QStringLiteral("&Attach"), "jobs.attach",
                         QStringLiteral("Watch it here; it is collected when it ends"))),
      m_end(addButton(QStringLiteral("&End job"), "jobs.cancel",
                      QStringLiteral("End every rank of it on every node"))),
      m_fetch(addButton(QStringLiteral("&Fetch"), "jobs.fetch",
                        QStringLiteral("Collect what it recorded so far into the workspace"))) {
    auto* refresh =
        addButton(QStringLiteral("Re&fresh"), "jobs.refresh", QStringLiteral("Ask the host again"));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 4, 0, 0);
    layout->setSpacing(4);
    auto* line = new QHBoxLayout;
    m_status->setObjectName(QStringLiteral("jobs.status"));
    m_status->setTextFormat(Qt::PlainText);
    m_status->setWordWrap(true);
    line->addWidget(m_status, 1);
    for (QPushButton* button : {m_attach, m_end, m_fetch, refresh}) line->addWidget(button);
    layout->addLayout(line);
    m_table->setObjectName(QStringLiteral("jobs"));
    m_table->setAccessibleName(QStringLiteral("Jobs of the session"));
    m_table->setToolTip(QStringLiteral("Return or a double click watches a job that goes on."));
    layout->addWidget(m_table);
    connect(m_table, &QTableView::activated, this, &JobsPanel::attach);
    connect(m_table->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
            [this](const QModelIndex& now) {
                if (now.isValid()) m_chosen = m_jobs.directory(now.row());
                take();
            });
    connect(m_attach, &QPushButton::clicked, this, &JobsPanel::attach);
    connect(m_end, &QPushButton::clicked, this, [this] { m_jobs.cancel(row()); });
    connect(m_fetch, &QPushButton::clicked, this,
            [this] { m_jobs.fetch(row(), m_workbench.runs.targetWorkspace()); });
    connect(refresh, &QPushButton::clicked, &m_jobs, &JobsModel::refresh);
    connect(&m_jobs, &JobsModel::changed, this, &JobsPanel::take);
    connect(&m_jobs, &JobsModel::fetched, &m_workbench.runs, &RunsViewModel::followFile);
    connect(&m_workbench.runs, &RunsViewModel::runEnded, &m_jobs, &JobsModel::refresh);
    take();
}

QPushButton* JobsPanel::addButton(const QString& label, const char* name, const QString& tip) {
    auto* button = new QPushButton(label, this);
    button->setObjectName(QString::fromLatin1(name));
    button->setToolTip(tip);
    return button;
}

int JobsPanel::row() const {
    return m_table->currentIndex().row();
}

void JobsPanel::attach() {
    if (row() >= 0 && m_jobs.isGoing(row())) m_workbench.runs.attach(m_jobs.directory(row()));
}

void JobsPanel::take() {
    // The list was read again: what was chosen stays so. A job that goes on is most likely what the
    // user looks for.
    for (int i = 0; row() < 0 && i < m_jobs.rowCount(); ++i)
        if (m_jobs.directory(i) == m_chosen) m_table->selectRow(i);
    if (row() < 0 && m_jobs.firstGoing() >= 0) m_table->selectRow(m_jobs.firstGoing());
    const bool chosen = row() >= 0 && row() < m_jobs.rowCount();
    const bool going = chosen && m_jobs.isGoing(row());
    m_attach->setEnabled(going);
    m_end->setEnabled(going);
    m_fetch->setEnabled(chosen);
    m_status->setText(m_jobs.status());
    m_table->resizeColumnsToContents();
}

}  // namespace piper::ui
