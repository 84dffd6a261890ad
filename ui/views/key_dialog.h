// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>

#include "ui/models/timeline_keys.h"

class QLabel;
class QLineEdit;
class QTableView;

namespace piper::ui {

/// The keys of the timeline: choose a row, press the key it is to have.
class KeyDialog : public QDialog {
    Q_OBJECT
public:
    KeyDialog(TimelineKeys& keys, QWidget* parent);

    [[nodiscard]] QTableView* table() const { return m_table; }
    [[nodiscard]] QLineEdit* field() const { return m_field; }

protected:
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    [[nodiscard]] TimelineCommand current() const;
    void say(const QString& message);

    TimelineKeys& m_keys;
    TimelineKeysModel m_model;
    QTableView* m_table;
    QLineEdit* m_field;  ///< where the key is pressed
    QLabel* m_note;
};

}  // namespace piper::ui
