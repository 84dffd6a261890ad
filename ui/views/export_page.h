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

/// The current plan as the files of a framework: preview, copy, save.
class ExportPage : public QWidget {
    Q_OBJECT
public:
    explicit ExportPage(Workbench& workbench, QWidget* parent = nullptr);

protected:
    void showEvent(QShowEvent* event) override;

private:
    QWidget* makeControls();
    void take();
    void showFile(int index);
    void save();

    Workbench& m_workbench;
    QComboBox* m_target = nullptr;
    QPushButton* m_save = nullptr;
    QPushButton* m_copy = nullptr;
    QLabel* m_saved = nullptr;
    QLabel* m_note = nullptr;
    QTabBar* m_files = nullptr;
    QPlainTextEdit* m_text = nullptr;
};

}  // namespace piper::ui
