// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/knob_control.h"

#include <QGridLayout>
#include <QLabel>
#include <QSignalBlocker>
#include <QSlider>
#include <algorithm>

#include "ui/views/widgets.h"

namespace piper::ui {

void LegalSpinBox::stepBy(int steps) {
    if (m_legal.empty()) {
        QSpinBox::stepBy(steps);
        return;
    }
    const std::int64_t now = value();
    auto at = std::lower_bound(m_legal.begin(), m_legal.end(), now);
    const bool exact = at != m_legal.end() && *at == now;
    // Between two legal values one step up is the next one.
    const std::ptrdiff_t move = steps > 0 && !exact ? steps - 1 : steps;
    const std::ptrdiff_t index = std::clamp<std::ptrdiff_t>(
        (at - m_legal.begin()) + move, 0, static_cast<std::ptrdiff_t>(m_legal.size()) - 1);
    setValue(static_cast<int>(m_legal[static_cast<std::size_t>(index)]));
}

KnobControl::KnobControl(PlanViewModel& plan, Knob knob, QGridLayout& grid, QWidget* parent)
    : QObject(parent),
      m_plan(plan),
      m_knob(knob),
      m_slider(new QSlider(Qt::Horizontal, parent)),
      m_spin(new LegalSpinBox(parent)),
      m_note(makeLabel({}, "faint", parent)) {
    const KnobInfo& info = knobInfo(knob);
    const QString key = QString::fromLatin1(info.key);
    const QString title = QString::fromUtf8(info.label);
    auto* name = new QLabel(title, parent);
    name->setBuddy(m_spin);
    name->setToolTip(QString::fromUtf8(info.definition));
    m_slider->setObjectName(QStringLiteral("slider.") + key);
    m_slider->setAccessibleName(title);
    m_slider->setMinimumWidth(150);
    m_slider->setPageStep(1);
    m_spin->setObjectName(QStringLiteral("spin.") + key);
    m_spin->setAccessibleName(title);
    m_spin->setRange(0, 10'000'000);
    m_spin->setKeyboardTracking(false);
    m_spin->setAlignment(Qt::AlignRight);
    m_spin->setGroupSeparatorShown(true);
    m_spin->setFixedWidth(96);
    m_note->setObjectName(QStringLiteral("note.") + key);
    m_note->setWordWrap(true);
    m_note->hide();

    const int row = grid.rowCount();
    grid.addWidget(name, row, 0);
    grid.addWidget(m_slider, row, 1);
    grid.addWidget(m_spin, row, 2);
    grid.addWidget(makeLabel(QString::fromUtf8(info.unit), "faint", parent), row, 3);
    grid.addWidget(m_note, row + 1, 1, 1, 3);

    connect(m_slider, &QSlider::valueChanged, this, &KnobControl::slide);
    connect(m_slider, &QSlider::sliderReleased, &plan, &PlanViewModel::endDrag);
    connect(m_spin, &QSpinBox::valueChanged, this, [this](int v) { m_plan.setKnob(m_knob, v); });
    connect(&plan, &PlanViewModel::planChanged, this, &KnobControl::takePlan);
    connect(&plan, &PlanViewModel::legalValuesChanged, this, &KnobControl::takeLegalValues);
    connect(&plan, &PlanViewModel::rejected, this, &KnobControl::explain);
    takeLegalValues();
    takePlan();
}

void KnobControl::takeLegalValues() {
    // Under the finger the scale stays as it is.
    if (m_slider->isSliderDown()) return;
    m_legal = m_plan.legal(m_knob);
    m_spin->setLegal(m_legal);
    takePlan();
}

void KnobControl::takePlan() {
    const std::int64_t value = m_plan.value(m_knob);
    const QSignalBlocker quiet_slider(m_slider), quiet_spin(m_spin);
    m_slider->setEnabled(m_legal.size() > 1);
    m_slider->setRange(0, std::max(0, static_cast<int>(m_legal.size()) - 1));
    if (!m_slider->isSliderDown() && !m_legal.empty()) {
        const std::int64_t near = nearestLegal(m_legal, value);
        m_slider->setValue(
            static_cast<int>(std::find(m_legal.begin(), m_legal.end(), near) - m_legal.begin()));
    }
    m_spin->setEnabled(value > 0);
    m_spin->setValue(static_cast<int>(value));
    m_note->hide();
}

void KnobControl::slide(int index) {
    if (index < 0 || static_cast<std::size_t>(index) >= m_legal.size()) return;
    m_plan.setKnob(m_knob, m_legal[static_cast<std::size_t>(index)], m_slider->isSliderDown());
}

QString KnobControl::neighbours(qint64 value) const {
    const auto above = std::upper_bound(m_legal.begin(), m_legal.end(), value);
    QString out;
    if (above != m_legal.begin()) out += QString::number(*(above - 1));
    if (above != m_legal.end())
        out += (out.isEmpty() ? QString() : QStringLiteral(", ")) + QString::number(*above);
    return out.isEmpty() ? out : QStringLiteral(" Legal near it: ") + out + u'.';
}

void KnobControl::explain(Knob knob, qint64 value, const QString& reason) {
    if (knob != m_knob) return;
    takePlan();
    m_note->setText(reason + u'.' + neighbours(value));
    m_note->show();
}

}  // namespace piper::ui
