// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/plots/plot_frame.h"

#include <QEvent>
#include <QFontMetrics>
#include <QHelpEvent>
#include <QLabel>
#include <QResizeEvent>
#include <QToolTip>
#include <QVBoxLayout>

#include <algorithm>

#include "ui/plots/qcustomplot_include.h"

namespace piper::ui {

PlotFrame::PlotFrame(const QString& title, QWidget* parent)
    : QWidget(parent), m_title(new QLabel(title, this)), m_plot(new QCustomPlot(this)) {
    auto* layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(4);
    layout->addWidget(m_title);
    layout->addWidget(m_plot, 1);
    m_title->setProperty("role", "section");
    m_title->setWordWrap(true);
    m_plot->setObjectName(QStringLiteral("plot"));
    m_plot->setMinimumHeight(90);
    m_plot->setAccessibleName(title);
    m_plot->setPlottingHint(QCP::phCacheLabels, true);
    // Painted together with the numbers beside it, not in a pass of its own.
    m_plot->setPlottingHint(QCP::phImmediateRefresh, false);
    m_plot->installEventFilter(this);
    PlotFrame::applyPalette();
}

void PlotFrame::setTitle(const QString& title) {
    m_title->setText(title);
    m_plot->setAccessibleName(title);
}

void PlotFrame::drawNow(double device_pixel_ratio) {
    m_plot->setBufferDevicePixelRatio(device_pixel_ratio);
    m_plot->replot(QCustomPlot::rpImmediateRefresh);
}

bool PlotFrame::dark() const {
    return palette().color(QPalette::Window).lightnessF() < 0.5F;
}

void PlotFrame::applyPalette() {
    const QColor text = palette().color(QPalette::WindowText);
    QColor faint = text;
    faint.setAlphaF(0.65F);
    QColor grid = text;
    grid.setAlphaF(0.12F);
    m_plot->setBackground(palette().color(QPalette::Base));
    for (QCPAxis* axis : {m_plot->xAxis, m_plot->yAxis, m_plot->xAxis2, m_plot->yAxis2}) {
        axis->setBasePen(QPen(grid));
        axis->setTickPen(QPen(grid));
        axis->setSubTickPen(Qt::NoPen);
        axis->setTickLabelColor(faint);
        axis->setLabelColor(faint);
        axis->setTickLabelFont(font());
        axis->setLabelFont(font());
        axis->grid()->setPen(QPen(grid));
        axis->grid()->setZeroLinePen(QPen(grid));
    }
    m_plot->legend->setTextColor(text);
    m_plot->legend->setFont(font());
    m_plot->legend->setBrush(Qt::NoBrush);
    m_plot->legend->setBorderPen(Qt::NoPen);
}

QString PlotFrame::hoverText(const QPoint&) const {
    return {};
}

void PlotFrame::changeEvent(QEvent* event) {
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) {
        applyPalette();
        m_plot->replot(QCustomPlot::rpQueuedReplot);
    }
}

/// So many numbers below the plot as stand beside each other without touching.
void PlotFrame::fitTicks(int width) {
    const int label = QFontMetrics(font()).horizontalAdvance(QStringLiteral("0000000"));
    // A good third of a bar chart is the names of its rows.
    m_plot->xAxis->ticker()->setTickCount(std::clamp(width * 3 / 5 / label, 2, 8));
}

bool PlotFrame::eventFilter(QObject* watched, QEvent* event) {
    if (watched == m_plot && event->type() == QEvent::Resize)
        fitTicks(static_cast<QResizeEvent*>(event)->size().width());
    if (watched == m_plot && event->type() == QEvent::ToolTip) {
        const auto* help = static_cast<QHelpEvent*>(event);
        const QString text = hoverText(help->pos());
        if (text.isEmpty())
            QToolTip::hideText();
        else
            QToolTip::showText(help->globalPos(), text, m_plot);
        return true;
    }
    return QWidget::eventFilter(watched, event);
}

}  // namespace piper::ui
