// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/workbench.h"

class QLabel;
class QLineEdit;
class QSpinBox;
class QTableView;

namespace piper::ui {

class TextLine;
class TimelineCanvas;

/// The modelled run above the measured one, with one zoom; below, the sums of what is selected.
class TimelinePage : public QWidget {
    Q_OBJECT
public:
    explicit TimelinePage(Workbench& workbench, QWidget* parent = nullptr);
    [[nodiscard]] TimelineCanvas* canvas() const { return m_canvas; }
    [[nodiscard]] QLineEdit* searchField() const { return m_search; }
    [[nodiscard]] QTableView* totals() const { return m_totals; }
    [[nodiscard]] QLabel* damage() const { return m_damage; }

protected:
    void changeEvent(QEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void take();
    void showChosen();
    void showTotals();
    void showDamage();

    Workbench& m_workbench;
    TextLine* m_line;
    QLineEdit* m_search;
    QSpinBox* m_step;
    QLabel* m_damage;
    TimelineCanvas* m_canvas;
    TextLine* m_chosen;
    QTableView* m_totals;
};

}  // namespace piper::ui
