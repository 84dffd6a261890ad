// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QSpinBox>
#include <vector>

#include "ui/models/plan_view_model.h"

class QGridLayout;
class QLabel;
class QSlider;

namespace piper::ui {

/// A spin box whose arrows go from legal value to legal value; any number can be typed.
class LegalSpinBox : public QSpinBox {
    Q_OBJECT
public:
    using QSpinBox::QSpinBox;
    void setLegal(std::vector<std::int64_t> legal) { m_legal = std::move(legal); }
    void stepBy(int steps) override;

protected:
    [[nodiscard]] StepEnabled stepEnabled() const override {
        return StepUpEnabled | StepDownEnabled;
    }

private:
    std::vector<std::int64_t> m_legal;
};

/// One knob of the plan: name, slider over its legal values, spin box, and a line that says why a
/// typed value is not legal. Places itself into two rows of a grid.
class KnobControl : public QObject {
    Q_OBJECT
public:
    KnobControl(PlanViewModel& plan, Knob knob, QGridLayout& grid, QWidget* parent);

    [[nodiscard]] QSlider* slider() const { return m_slider; }
    [[nodiscard]] LegalSpinBox* spinBox() const { return m_spin; }
    [[nodiscard]] QLabel* note() const { return m_note; }

private:
    void takeLegalValues();
    void takePlan();
    void slide(int index);
    void explain(Knob knob, qint64 value, const QString& reason);
    [[nodiscard]] QString neighbours(qint64 value) const;

    PlanViewModel& m_plan;
    Knob m_knob;
    std::vector<std::int64_t> m_legal;
    QSlider* m_slider;
    LegalSpinBox* m_spin;
    QLabel* m_note;
};

}  // namespace piper::ui
