// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>

#include "ui/models/plan_view_model.h"

class QComboBox;
class QGridLayout;

namespace piper::ui {

/// A short list of the plan page: options that the rules refuse are grey and say why on hover.
class ChoiceControl : public QObject {
    Q_OBJECT
public:
    /// Takes `column` (its name) and the one after it of a row of the grid.
    ChoiceControl(PlanViewModel& plan, Choice choice, QGridLayout& grid, int row, int column,
                  QWidget* parent);

    [[nodiscard]] QComboBox* box() const { return m_box; }

private:
    void take();

    PlanViewModel& m_plan;
    Choice m_choice;
    QComboBox* m_box;
};

}  // namespace piper::ui
