// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/workbench.h"

class QComboBox;

namespace piper::ui {

class TextLine;
class TimelineCanvas;

/// The modelled schedule of the current plan, one row of lanes a stage, and that of another
/// schedule under it if wanted.
class SchedulePage : public QWidget {
    Q_OBJECT
public:
    explicit SchedulePage(Workbench& workbench, QWidget* parent = nullptr);
    [[nodiscard]] TimelineCanvas* canvas() const { return m_canvas; }

protected:
    void showEvent(QShowEvent* event) override;
    void changeEvent(QEvent* event) override;

private:
    void take();
    void sayPlan();

    Workbench& m_workbench;
    TextLine* m_line;
    QComboBox* m_beside;
    TimelineCanvas* m_canvas;
};

}  // namespace piper::ui
