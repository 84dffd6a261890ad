// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/curves_panel.h"

#include <QComboBox>
#include <QHeaderView>
#include <QProgressBar>
#include <QPushButton>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include "ui/plots/curve_plot.h"
#include "ui/views/widgets.h"

namespace piper::ui {

CurvesPanel::CurvesPanel(Workbench& workbench, QWidget* parent)
    : QWidget(parent),
      m_workbench(workbench),
      m_plot(new CurvePlot(this)),
      m_points(makeTable(&workbench.curves, this)),
      m_sentence(makeLabel({}, "plain", this)) {
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 6, 0, 0);
    layout->setSpacing(6);
    layout->addWidget(makeControls());
    auto* split = new QSplitter(Qt::Horizontal, this);
    split->addWidget(m_plot);
    split->addWidget(m_points);
    split->setStretchFactor(0, 1);
    split->setStretchFactor(1, 1);
    layout->addWidget(split, 1);
    m_points->setObjectName(QStringLiteral("curve.points"));
    m_points->setAccessibleName(QStringLiteral("Points of the curve"));
    m_points->setTabKeyNavigation(false);
    m_sentence->setObjectName(QStringLiteral("curve.sentence"));
    m_sentence->setWordWrap(true);
    layout->addWidget(m_sentence);
    connect(&workbench.curves, &CurvesViewModel::changed, this, &CurvesPanel::take);
    connect(&workbench.plan, &PlanViewModel::planChanged, this, &CurvesPanel::take);
    connect(m_plot, &CurvePlot::chosen, this, &CurvesPanel::choose);
    onClickOrReturn(*m_points, [this](const QModelIndex& index) { choose(index.row()); });
    connect(&workbench.curves, &QAbstractItemModel::modelReset, this, [this] {
        m_plot->setCurve(m_workbench.curves.curve());
        m_points->resizeColumnsToContents();
        m_sentence->setText(m_workbench.curves.curve().sentence);
    });
    m_plot->setCurve(workbench.curves.curve());
    take();
}

QWidget* CurvesPanel::makeControls() {
    auto* bar = new QWidget(this);
    auto* layout = new QHBoxLayout(bar);
    layout->setContentsMargins(0, 0, 0, 0);
    m_kind = new QComboBox(bar);
    m_kind->setObjectName(QStringLiteral("curve.kind"));
    m_kind->setAccessibleName(QStringLiteral("What the curve is over"));
    for (const CurveInfo& info : curveTable())
        m_kind->addItem(QString::fromLatin1(info.label), static_cast<int>(info.kind));
    m_kind->setCurrentIndex(static_cast<int>(CurveKind::Link));
    auto* name = new QLabel(QStringLiteral("Curve over"), bar);
    name->setBuddy(m_kind);
    m_compute = new QPushButton(QStringLiteral("Compute"), bar);
    m_compute->setObjectName(QStringLiteral("curve.compute"));
    m_compute->setToolTip(
        QStringLiteral("The best plan for this model and cluster at each of a few values"));
    m_cancel = new QPushButton(QStringLiteral("Cancel"), bar);
    m_cancel->setObjectName(QStringLiteral("curve.cancel"));
    m_progress = new QProgressBar(bar);
    m_progress->setRange(0, 1000);
    m_progress->setTextVisible(false);
    m_progress->setFixedSize(160, 10);
    m_status = makeLabel({}, "faint", bar);
    m_status->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
    layout->addWidget(name);
    layout->addWidget(m_kind);
    layout->addWidget(m_compute);
    layout->addWidget(m_cancel);
    layout->addWidget(m_progress);
    layout->addWidget(m_status, 1);
    connect(m_compute, &QPushButton::clicked, this, [this] {
        m_workbench.curves.start(static_cast<CurveKind>(m_kind->currentData().toInt()),
                                 m_workbench.plan.plan());
    });
    connect(m_cancel, &QPushButton::clicked, &m_workbench.curves, &CurvesViewModel::cancel);
    return bar;
}

void CurvesPanel::take() {
    const CurvesViewModel& curves = m_workbench.curves;
    m_compute->setEnabled(!curves.running() && m_workbench.plan.hasPlan());
    m_cancel->setEnabled(curves.running());
    m_progress->setVisible(curves.running());
    m_progress->setValue(static_cast<int>(curves.fraction() * 1000));
    m_status->setText(curves.status());
}

void CurvesPanel::choose(int point) {
    const Curve& curve = m_workbench.curves.curve();
    if (point < 0 || static_cast<std::size_t>(point) >= curve.points.size()) return;
    m_plot->setCurrent(point);
    m_points->selectRow(point);
    const auto& plan = curve.points[static_cast<std::size_t>(point)].plan;
    if (plan == nullptr) return;  // its row says what stops there being one
    m_workbench.plan.setPlan(*plan);
    Q_EMIT planTaken();
}

}  // namespace piper::ui
