// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/widgets.h"

#include <QGridLayout>
#include <QHeaderView>
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

MetricTile::MetricTile(QWidget* parent)
    : QFrame(parent),
      m_label(makeLabel({}, "faint", this)),
      m_value(makeLabel({}, "value", this)),
      m_evidence(makeLabel({}, "faint", this)),
      m_detail(makeLabel({}, "faint", this)) {
    setProperty("role", QStringLiteral("card"));
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(12, 8, 12, 8);
    layout->setSpacing(1);
    auto* head = new QHBoxLayout;
    head->addWidget(m_label);
    head->addWidget(m_evidence, 1);
    m_evidence->setAlignment(Qt::AlignRight);
    layout->addLayout(head);
    layout->addWidget(m_value);
    layout->addWidget(m_detail);
    for (QLabel* label : {m_label, m_value, m_evidence, m_detail})
        label->setTextFormat(Qt::PlainText);
    // Numbers change under the finger: no change of text may move the layout.
    for (QLabel* label : {m_value, m_evidence, m_detail})
        label->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
}

void MetricTile::show(const Metric& metric) {
    setObjectName(QStringLiteral("metric.") + metric.id);
    m_label->setText(metric.label);
    m_value->setText(metric.value);
    m_full_detail = metric.detail;
    m_full_evidence =
        QString(metric.evidence).replace(QStringLiteral("extrapolated"), QStringLiteral("extrap."));
    elide();
    QString tip = metric.definition;
    for (const QString& more : {metric.detail, metric.evidence})
        if (!more.isEmpty()) tip += u'\n' + more;
    setToolTip(tip);
    setAccessibleName(metric.label + QStringLiteral(": ") + metric.value);
}

void MetricTile::clear(const QString& label) {
    if (!label.isEmpty()) m_label->setText(label);
    m_value->setText(QStringLiteral("–"));
    m_full_detail.clear();
    m_full_evidence.clear();
    elide();
    setToolTip({});
}

void MetricTile::elide() {
    m_detail->setText(
        m_detail->fontMetrics().elidedText(m_full_detail, Qt::ElideRight, m_detail->width()));
    m_evidence->setText(
        m_evidence->fontMetrics().elidedText(m_full_evidence, Qt::ElideRight, m_evidence->width()));
}

void MetricTile::resizeEvent(QResizeEvent* event) {
    QFrame::resizeEvent(event);
    elide();
}

FactCard::FactCard(const QString& title, QWidget* parent)
    : QFrame(parent),
      m_column(new QVBoxLayout(this)),
      m_title(makeLabel(title, "section", this)),
      m_grid(new QGridLayout) {
    setProperty("role", QStringLiteral("card"));
    m_column->setContentsMargins(12, 10, 12, 10);
    m_column->setSpacing(6);
    m_title->setWordWrap(true);
    m_column->addWidget(m_title);
    m_grid->setHorizontalSpacing(14);
    m_grid->setVerticalSpacing(3);
    m_grid->setColumnStretch(1, 1);
    m_column->addLayout(m_grid);
}

void FactCard::setTitle(const QString& title) {
    m_title->setText(title);
}

void FactCard::setRows(const std::vector<CardRow>& rows) {
    while (m_labels.size() < 2 * rows.size()) {
        const bool name = m_labels.size() % 2 == 0;
        auto* label = makeLabel({}, name ? "faint" : "fact", this);
        label->setWordWrap(!name);
        label->setAlignment(Qt::AlignTop | Qt::AlignLeft);
        if (!name) label->setTextInteractionFlags(Qt::TextSelectableByMouse);
        m_grid->addWidget(label, static_cast<int>(m_labels.size() / 2), name ? 0 : 1);
        m_labels.push_back(label);
    }
    for (std::size_t i = 0; i < m_labels.size(); ++i) {
        const bool used = i / 2 < rows.size();
        m_labels[i]->setVisible(used);
        if (!used) continue;
        const CardRow& row = rows[i / 2];
        m_labels[i]->setText(i % 2 == 0 ? row.label : row.value);
        m_labels[i]->setToolTip(row.definition);
    }
}

}  // namespace piper::ui
