// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/roofline_panel.h"

#include <QHBoxLayout>
#include <QItemSelectionModel>
#include <QTableView>
#include <QVBoxLayout>

#include "ui/plots/roofline_plot.h"
#include "ui/views/widgets.h"

namespace piper::ui {

RooflinePlot* makeGemmRoofline(QWidget* parent) {
    return new RooflinePlot(QStringLiteral("GEMMs, TFLOP/s"),
                            {QStringLiteral("FLOP per byte"), {}, 1.0, 1e12}, parent);
}

RooflinePlot* makeLinkRoofline(QWidget* parent) {
    return new RooflinePlot(QStringLiteral("Links, GB/s"),
                            {QStringLiteral("MiB of a message"), {}, 0x1p20, 1e9}, parent);
}

void showGemms(RooflinePlot& plot, const RooflineModel& model) {
    plot.setRoof(model.roofline().peak.value, model.roofline().memory_bandwidth.value);
    plot.setPoints(model.gemmPoints());
}

RooflinePanel::RooflinePanel(RooflineModel& model, QWidget* parent)
    : QWidget(parent),
      m_model(model),
      m_gemms(makeGemmRoofline(this)),
      m_links(makeLinkRoofline(this)),
      m_table(makeTable(&model, this)) {
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 6, 0, 0);
    layout->setSpacing(6);
    auto* plots = new QHBoxLayout;
    plots->addWidget(m_gemms, 3);
    plots->addWidget(m_links, 2);
    layout->addLayout(plots, 3);
    auto* hint = makeLabel(QStringLiteral("Full points: measured or published times; hollow: "
                                          "assumed, or beyond what was measured. Lines and dashes: "
                                          "roofs."),
                           "faint", this);
    hint->setWordWrap(true);
    layout->addWidget(hint);
    m_table->setObjectName(QStringLiteral("roofline"));
    m_table->setAccessibleName(QStringLiteral("GEMMs and links under their roofs"));
    m_table->setTabKeyNavigation(false);
    layout->addWidget(m_table, 2);
    connect(&model, &QAbstractItemModel::modelReset, this, &RooflinePanel::take);
    connect(m_table->selectionModel(), &QItemSelectionModel::currentRowChanged, this,
            [this](const QModelIndex& current) { showRow(current.row()); });
    connect(m_gemms, &RooflinePlot::chosen, m_table, &QTableView::selectRow);
    connect(m_links, &RooflinePlot::chosen, this,
            [this](int point) { m_table->selectRow(m_model.numGemms() + point); });
    take();
}

void RooflinePanel::take() {
    showGemms(*m_gemms, m_model);
    m_links->setPoints(m_model.linkPoints());
    m_table->resizeColumnsToContents();
}

void RooflinePanel::showRow(int row) {
    const bool gemm = row < m_model.numGemms();
    m_gemms->setCurrent(gemm ? row : -1);
    m_links->setCurrent(gemm ? -1 : row - m_model.numGemms());
}

}  // namespace piper::ui
