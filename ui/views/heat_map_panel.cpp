// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/heat_map_panel.h"

#include <QComboBox>
#include <QEvent>
#include <QHeaderView>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QTableView>
#include <QVBoxLayout>

#include "ui/models/phase_colours.h"
#include "ui/views/theme.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr int kCellHeight = 26, kCellWidth = 84;

class HeatDelegate : public QStyledItemDelegate {
public:
    using QStyledItemDelegate::QStyledItemDelegate;

    void paint(QPainter* painter, const QStyleOptionViewItem& option,
               const QModelIndex& index) const override {
        const bool dark = isDark(option.palette);
        const QVariant share = index.data(HeatMapModel::ShareRole);
        const QRect cell = option.rect.adjusted(0, 0, -1, -1);
        painter->save();
        painter->setPen(option.palette.color(QPalette::PlaceholderText));
        if (share.isValid()) {
            const QColor fill = heatColour(share.toDouble(), dark);
            painter->fillRect(cell, fill);
            painter->setPen(textOn(fill));
            if (share.toDouble() == 1.0) {
                QFont bold = option.font;
                bold.setBold(true);
                painter->setFont(bold);
            }
        }
        painter->drawText(cell, Qt::AlignCenter, index.data(Qt::DisplayRole).toString());
        if (option.state & QStyle::State_HasFocus) {
            painter->setPen(QPen(warningColour(dark), 2));
            painter->drawRect(cell.adjusted(1, 1, -1, -1));
        }
        painter->restore();
    }
};

}  // namespace

HeatMapPanel::HeatMapPanel(HeatMapModel& model, QWidget* parent)
    : QWidget(parent), m_model(model), m_table(makeTable(&model, this)) {
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 6, 0, 0);
    layout->setSpacing(6);
    auto* lists = new QHBoxLayout;
    layout->addLayout(lists);
    m_measure =
        addList("heat.measure", QStringLiteral("Best"), HeatMapModel::measures(), model.measure());
    m_down =
        addList("heat.down", QStringLiteral("of each"), HeatMapModel::dimensions(), model.down());
    m_across = addList("heat.across", QStringLiteral("and each"), HeatMapModel::dimensions(),
                       model.across());
    for (auto* list : {m_measure, m_down, m_across}) {
        auto* name = new QLabel(list->accessibleName(), this);
        name->setBuddy(list);
        lists->addWidget(name);
        lists->addWidget(list);
        connect(list, &QComboBox::activated, this, &HeatMapPanel::applyLists);
    }
    auto* hint = new TextLine(TextLine::Look::Faint, this);
    hint->setText(QStringLiteral(
        "A click or Return puts the sliders to a cell's plan; in an empty cell it asks why not."));
    lists->addWidget(hint, 1);
    m_table->setObjectName(QStringLiteral("heat"));
    m_table->setAccessibleName(QStringLiteral("Heat map"));
    m_table->setSelectionMode(QAbstractItemView::NoSelection);
    m_table->setAlternatingRowColors(false);
    m_table->setItemDelegate(new HeatDelegate(m_table));
    m_table->setTabKeyNavigation(false);
    m_table->verticalHeader()->show();
    m_table->verticalHeader()->setDefaultSectionSize(kCellHeight);
    m_table->horizontalHeader()->setDefaultAlignment(Qt::AlignCenter);
    m_table->horizontalHeader()->setStretchLastSection(false);
    layout->addWidget(m_table, 1);
    onClickOrReturn(*m_table, [this](const QModelIndex& index) { choose(index); });
    connect(&model, &QAbstractItemModel::modelReset, this, &HeatMapPanel::fit);
    m_table->viewport()->installEventFilter(this);
    fit();
}

bool HeatMapPanel::eventFilter(QObject* watched, QEvent* event) {
    if (watched == m_table->viewport() && event->type() == QEvent::Resize) fitColumns();
    return QWidget::eventFilter(watched, event);
}

QComboBox* HeatMapPanel::addList(const char* name, const QString& title,
                                 std::span<const HeatMapModel::Column> columns,
                                 HeatMapModel::Column current) {
    auto* list = new QComboBox(this);
    list->setObjectName(QString::fromLatin1(name));
    list->setAccessibleName(title);
    for (const HeatMapModel::Column column : columns)
        list->addItem(m_model.title(column), static_cast<int>(column));
    list->setCurrentIndex(list->findData(static_cast<int>(current)));
    return list;
}

/// The two dimensions differ: choosing one's for the other swaps them.
void HeatMapPanel::applyLists() {
    const auto chosen = [](const QComboBox* list) {
        return static_cast<HeatMapModel::Column>(list->currentData().toInt());
    };
    if (chosen(m_down) == chosen(m_across)) {
        QComboBox* other = sender() == m_down ? m_across : m_down;
        const auto before = sender() == m_down ? m_model.down() : m_model.across();
        other->setCurrentIndex(other->findData(static_cast<int>(before)));
    }
    m_model.setDimensions(chosen(m_down), chosen(m_across));
    m_model.setMeasure(chosen(m_measure));
}

void HeatMapPanel::fit() {
    m_table->horizontalHeader()->setMinimumSectionSize(kCellWidth);
    fitColumns();
    m_table->setCurrentIndex(m_model.best());
}

void HeatMapPanel::fitColumns() {
    const bool roomy = m_model.columnCount() * kCellWidth <= m_table->viewport()->width();
    m_table->horizontalHeader()->setSectionResizeMode(roomy ? QHeaderView::Stretch
                                                            : QHeaderView::ResizeToContents);
}

void HeatMapPanel::choose(const QModelIndex& index) {
    const int plan = index.data(HeatMapModel::PlanRole).toInt();
    if (plan >= 0)
        Q_EMIT planChosen(plan);
    else
        Q_EMIT whyNotAsked(m_model.asked(index));
}

}  // namespace piper::ui
