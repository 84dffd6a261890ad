// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>

#include "ui/models/command_palette_model.h"

class QLineEdit;
class QListView;

namespace piper::ui {

/// A line to type in and the actions it finds, over the window: arrows choose, Return does.
class CommandPalette : public QDialog {
    Q_OBJECT
public:
    CommandPalette(const ActionCatalogue& catalogue, QWidget* window);

    [[nodiscard]] QLineEdit* field() const { return m_field; }
    [[nodiscard]] QListView* list() const { return m_list; }

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;
    void showEvent(QShowEvent* event) override;

private:
    void filter(const QString& pattern);
    void runRow(int row);

    CommandPaletteModel m_model;
    QLineEdit* m_field;
    QListView* m_list;
};

}  // namespace piper::ui
