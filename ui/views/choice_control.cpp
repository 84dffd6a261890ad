// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/choice_control.h"

#include <QAbstractItemView>
#include <QComboBox>
#include <QGridLayout>
#include <QLabel>
#include <QSignalBlocker>
#include <QStandardItemModel>

#include "ui/models/text_format.h"

namespace piper::ui {

ChoiceControl::ChoiceControl(PlanViewModel& plan, Choice choice, QGridLayout& grid, int row,
                             int column, QWidget* parent)
    : QObject(parent), m_plan(plan), m_choice(choice), m_box(new QComboBox(parent)) {
    const ChoiceInfo& info = choiceTable()[static_cast<std::size_t>(choice)];
    const QString title = QString::fromUtf8(info.label);
    auto* name = new QLabel(title, parent);
    name->setBuddy(m_box);
    name->setToolTip(QString::fromUtf8(info.definition));
    m_box->setObjectName(QStringLiteral("choice.") + QString::fromLatin1(info.key));
    m_box->setAccessibleName(title);
    m_box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    m_box->setMinimumContentsLength(12);
    grid.addWidget(name, row, column);
    grid.addWidget(m_box, row, column + 1);
    connect(m_box, &QComboBox::activated, this,
            [this](int option) { m_plan.setChoice(m_choice, option); });
    connect(&plan, &PlanViewModel::planChanged, this, &ChoiceControl::take);
    connect(&plan, &PlanViewModel::legalValuesChanged, this, &ChoiceControl::take);
    take();
}

void ChoiceControl::take() {
    if (!m_plan.hasPlan() || m_box->view()->isVisible()) return;
    const QSignalBlocker quiet(m_box);
    const std::vector<ChoiceOption>& options = m_plan.options(m_choice);
    if (static_cast<std::size_t>(m_box->count()) != options.size()) {
        m_box->clear();
        for (const ChoiceOption& option : options) m_box->addItem(text(option.label));
    }
    auto* items = qobject_cast<QStandardItemModel*>(m_box->model());
    for (int i = 0; i < m_box->count(); ++i) {
        const ChoiceOption& option = options[static_cast<std::size_t>(i)];
        m_box->setItemText(i, text(option.label));
        m_box->setItemData(i, text(option.reason), Qt::ToolTipRole);
        if (items != nullptr) items->item(i)->setEnabled(option.reason.empty() || option.current);
        if (option.current) m_box->setCurrentIndex(i);
    }
}

}  // namespace piper::ui
