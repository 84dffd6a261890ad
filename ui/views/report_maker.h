// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <functional>
#include <memory>
#include <vector>

#include "ui/models/report.h"

namespace piper::ui {

/// Makes a report of what the window shows at its start: its numbers and files on the executor, its
/// pictures one a turn of the event loop, so that the window goes on. Deletes itself at the end.
class ReportMaker : public QObject {
    Q_OBJECT
public:
    ReportMaker(Workbench& workbench, QString directory, QObject* parent);
    /// finished() follows.
    void start();

Q_SIGNALS:
    /// What was written, or what is wrong.
    void finished(bool written, const QString& said);

private:
    /// Draws a picture's widget in the colours of paper.
    struct Step {
        QString name, title;
        QSize size;
        std::function<std::unique_ptr<QWidget>()> make;
    };
    void addSteps();
    void drawNext();
    void write();
    void end(bool written, const QString& said);

    Workbench& m_workbench;
    QString m_directory;
    std::shared_ptr<const ReportSource> m_source;
    Report m_report;
    std::vector<Step> m_steps;
    std::size_t m_next = 0;
};

}  // namespace piper::ui
