// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/widgets.h"

#include <QGridLayout>
#include <QHeaderView>
#include <QShortcut>
#include <QTableView>
#include <QVBoxLayout>

namespace piper::ui {

QLabel* makeLabel(const QString& text, const char* role, QWidget* parent) {
    auto* label = new QLabel(text, parent);
    label->setProperty("role", QString::fromLatin1(role));
    return label;
}

QVBoxLayout* makePageLayout(QWidget* page, const QString& title) {
    auto* layout = new QVBoxLayout(page);
    layout->setContentsMargins(kPageMargin, kPageMargin, kPageMargin, kPageMargin);
    layout->setSpacing(kSpacing);
    layout->addWidget(makeLabel(title, "title", page));
    return layout;
}

QTableView* makeTable(QAbstractItemModel* model, QWidget* parent) {
    auto* table = new QTableView(parent);
    table->setModel(model);
    table->setSelectionBehavior(QAbstractItemView::SelectRows);
    table->setSelectionMode(QAbstractItemView::SingleSelection);
    table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    table->setAlternatingRowColors(true);
    table->setShowGrid(false);
    table->setWordWrap(false);
    table->verticalHeader()->hide();
    table->verticalHeader()->setDefaultSectionSize(24);
    table->verticalHeader()->setSectionResizeMode(QHeaderView::Fixed);
    table->horizontalHeader()->setHighlightSections(false);
    table->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    table->horizontalHeader()->setStretchLastSection(true);
    table->setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
    return table;
}

void onClickOrReturn(QTableView& table, std::function<void(const QModelIndex&)> act) {
    QObject::connect(&table, &QTableView::clicked, &table, act);
    for (const Qt::Key key : {Qt::Key_Return, Qt::Key_Enter}) {
        auto* shortcut = new QShortcut(QKeySequence(key), &table);
        shortcut->setContext(Qt::WidgetShortcut);
        QObject::connect(shortcut, &QShortcut::activated, &table, [&table, act] {
            if (table.currentIndex().isValid()) act(table.currentIndex());
        });
    }
}

MetricTile::MetricTile(QWidget* parent)
    : QFrame(parent),
      m_label(new TextLine(TextLine::Look::Faint, this)),
      m_evidence(new TextLine(TextLine::Look::Faint, this)),
      m_value(new TextLine(TextLine::Look::Value, this)),
      m_detail(new TextLine(TextLine::Look::Faint, this)) {
    setProperty("role", QStringLiteral("card"));
    m_evidence->setAlignment(Qt::AlignRight);
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(12, 8, 12, 8);
    layout->setSpacing(1);
    auto* head = new QHBoxLayout;
    head->addWidget(m_label, 2);
    head->addWidget(m_evidence, 3);
    layout->addLayout(head);
    layout->addWidget(m_value);
    layout->addWidget(m_detail);
}

void MetricTile::show(const Metric& metric) {
    setObjectName(QStringLiteral("metric.") + metric.id);
    m_label->setText(metric.label);
    m_value->setText(metric.value);
    m_detail->setText(metric.detail);
    m_evidence->setText(QString(metric.evidence)
                            .replace(QStringLiteral("extrapolated"), QStringLiteral("extrap.")));
    m_evidence->setVisible(!metric.evidence.isEmpty());
    QString tip = metric.definition;
    for (const QString& more : {metric.detail, metric.evidence})
        if (!more.isEmpty()) tip += u'\n' + more;
    setToolTip(tip);
}

void MetricTile::clear() {
    m_value->setText(QStringLiteral("–"));
    m_detail->setText({});
    m_evidence->setText({});
    setToolTip({});
}

FactCard::FactCard(const QString& title, QWidget* parent)
    : QFrame(parent),
      m_column(new QVBoxLayout(this)),
      m_head(new QHBoxLayout),
      m_title(makeLabel(title, "section", this)),
      m_grid(new QGridLayout) {
    setProperty("role", QStringLiteral("card"));
    m_column->setContentsMargins(12, 8, 12, 8);
    m_column->setSpacing(4);
    m_head->addWidget(m_title, 1);
    m_column->addLayout(m_head);
    m_grid->setHorizontalSpacing(14);
    m_grid->setVerticalSpacing(3);
    m_grid->setColumnStretch(1, 1);
    m_column->addLayout(m_grid);
}

void FactCard::setTitle(const QString& title) {
    m_title->setText(title);
}

void FactCard::addToTitle(QWidget* widget) {
    m_head->addWidget(widget);
}

void FactCard::setRows(const std::vector<CardRow>& rows) {
    while (m_lines.size() < rows.size()) {
        auto* name = makeLabel({}, "faint", this);
        auto* value = new TextLine(TextLine::Look::Plain, this);
        const int row = static_cast<int>(m_lines.size());
        m_grid->addWidget(name, row, 0);
        m_grid->addWidget(value, row, 1);
        m_lines.emplace_back(name, value);
    }
    for (std::size_t i = 0; i < m_lines.size(); ++i) {
        const auto& [name, value] = m_lines[i];
        const bool used = i < rows.size();
        name->setVisible(used);
        value->setVisible(used);
        if (!used) continue;
        name->setText(rows[i].label);
        name->setToolTip(rows[i].definition);
        value->setText(rows[i].value);
    }
}

}  // namespace piper::ui
