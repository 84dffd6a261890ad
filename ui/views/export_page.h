// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/workbench.h"

class QComboBox;
class QLabel;
class QPlainTextEdit;
class QPushButton;
class QTabBar;

namespace piper::ui {

class FileHighlighter;

/// The current plan as the files of a framework: preview, copy, save.
class ExportPage : public QWidget {
    Q_OBJECT
public:
    explicit ExportPage(Workbench& workbench, QWidget* parent = nullptr);
    void chooseTarget(ExportTarget target);
    /// Writes the report of the plan at hand; what came of it is said on the page.
    void saveReport(const QString& directory);

protected:
    void showEvent(QShowEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    QWidget* makeControls();
    void take();
    void showFile(int index);
    void save();
    void chooseReport();

    Workbench& m_workbench;
    QComboBox* m_target = nullptr;
    QPushButton* m_save = nullptr;
    QPushButton* m_copy = nullptr;
    QPushButton* m_report = nullptr;
    QLabel* m_saved = nullptr;
    QLabel* m_note = nullptr;
    QTabBar* m_files = nullptr;
    QPlainTextEdit* m_text = nullptr;
    FileHighlighter* m_highlighter = nullptr;
};

}  // namespace piper::ui
