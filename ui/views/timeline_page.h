// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/workbench.h"

class QLabel;
class QSpinBox;

namespace piper::ui {

class TimelineCanvas;

/// The modelled run above the measured one, with one zoom.
class TimelinePage : public QWidget {
    Q_OBJECT
public:
    explicit TimelinePage(Workbench& workbench, QWidget* parent = nullptr);
    [[nodiscard]] TimelineCanvas* canvas() const { return m_canvas; }

protected:
    void changeEvent(QEvent* event) override;

private:
    void take();
    void showPinned();

    Workbench& m_workbench;
    QLabel* m_line;
    QSpinBox* m_step;
    TimelineCanvas* m_canvas;
    QLabel* m_pinned;
};

}  // namespace piper::ui
