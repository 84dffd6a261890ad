// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/report_maker.h"

#include <QPainter>
#include <QPointer>
#include <QTimer>
#include <QVBoxLayout>

#include "ui/models/text_format.h"
#include "ui/plots/plans_plot.h"
#include "ui/plots/roofline_plot.h"
#include "ui/plots/stacked_memory_plot.h"
#include "ui/views/compare_plots.h"
#include "ui/views/rank_map_view.h"
#include "ui/views/roofline_panel.h"
#include "ui/views/theme.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr double kRatio = 2.0;  ///< pixels of a picture per pixel of the page
constexpr int kWidth = 880;
const QString kTopic = QStringLiteral("save-report");

QImage pictureOf(QWidget& widget, QSize size) {
    widget.setPalette(lightPalette());
    widget.setAttribute(Qt::WA_DontShowOnScreen);
    widget.resize(size);
    widget.show();         // lays out and polishes
    size = widget.size();  // what does not fit asks for more
    for (PlotFrame* plot : widget.findChildren<PlotFrame*>()) plot->drawNow(kRatio);
    if (auto* plot = qobject_cast<PlotFrame*>(&widget)) plot->drawNow(kRatio);
    QImage out(size * kRatio, QImage::Format_RGB32);
    out.setDevicePixelRatio(kRatio);
    out.fill(lightPalette().color(QPalette::Base));
    QPainter painter(&out);
    widget.render(&painter, {}, {}, QWidget::DrawChildren);
    return out;
}

std::unique_ptr<QWidget> memoryPicture(const Prediction& p) {
    auto out = std::make_unique<QWidget>();
    auto* layout = new QVBoxLayout(out.get());
    layout->setContentsMargins(0, 0, 0, 0);
    auto* plot = new StackedMemoryPlot(out.get());
    plot->setMemory(p.memory);
    auto* legend = new ColourLegend(out.get());
    legend->setEntries(memoryLegend(p.memory));
    layout->addWidget(plot, 1);
    layout->addWidget(legend);
    return out;
}

}  // namespace

ReportMaker::ReportMaker(Workbench& workbench, QString directory, QObject* parent)
    : QObject(parent), m_workbench(workbench), m_directory(std::move(directory)) {}

void ReportMaker::start() {
    Result<ReportSource> source = reportSource(m_workbench, QDateTime::currentDateTime());
    if (!source.ok()) {
        const QString said = errorText(source.error());
        QTimer::singleShot(0, this, [this, said] { end(false, said); });
        return;
    }
    m_source = std::make_shared<const ReportSource>(std::move(source).value());
    m_workbench.executor.submit(
        kTopic, Executor::Lane::Long,
        [source = m_source, self = QPointer(this)](const Executor::Context&) {
            const auto report = std::make_shared<Result<Report>>(planReport(*source));
            return [report, self] {
                if (self == nullptr) return;
                if (!report->ok()) return self->end(false, errorText(report->error()));
                self->m_report = std::move(*report).value();
                self->addSteps();
                self->drawNext();
            };
        });
}

void ReportMaker::addSteps() {
    const std::shared_ptr<const ReportSource> source = m_source;
    const Prediction& prediction = source->prediction;
    const auto stages = static_cast<int>(prediction.memory.stages.size());
    m_steps.push_back({QStringLiteral("memory"), QStringLiteral("Memory of each stage"),
                       QSize(kWidth, std::min(600, 130 + 44 * stages)),
                       [source] { return memoryPicture(source->prediction); }});
    m_steps.push_back({QStringLiteral("phases"), QStringLiteral("Time of each phase"),
                       QSize(kWidth, 22 * static_cast<int>(phaseShares(prediction).size())),
                       [source] {
                           auto view = std::make_unique<PhaseShareView>();
                           view->setShares(phaseShares(source->prediction));
                           return view;
                       }});
    const auto model = std::make_shared<RooflineModel>();
    model->setRoofline(m_report.roofline);
    m_steps.push_back({QStringLiteral("roofline_gemms"), QStringLiteral("Roofline of the GEMMs"),
                       QSize(kWidth, 360), [model] {
                           std::unique_ptr<RooflinePlot> plot(makeGemmRoofline(nullptr));
                           showGemms(*plot, *model);
                           return plot;
                       }});
    m_steps.push_back({QStringLiteral("roofline_links"), QStringLiteral("Roofline of the links"),
                       QSize(kWidth, 320), [model] {
                           std::unique_ptr<RooflinePlot> plot(makeLinkRoofline(nullptr));
                           plot->setPoints(model->linkPoints());
                           return plot;
                       }});
    m_steps.push_back({QStringLiteral("ranks"), QStringLiteral("Ranks on nodes and in both grids"),
                       QSize(kWidth, 420), [source] {
                           auto view = std::make_unique<RankMapView>();
                           view->setMap(RankMap(*source->plan));
                           return view;
                       }});
    if (source->plans->size() > 0)
        m_steps.push_back({QStringLiteral("pareto"), QStringLiteral("MFU over peak memory"),
                           QSize(kWidth, 380), [source] {
                               auto plot = std::make_unique<PlansPlot>(nullptr);
                               plot->setPlans(source->plans);
                               return plot;
                           }});
    if (source->compared.comparison != nullptr)
        m_steps.push_back(
            {QStringLiteral("compare"), QStringLiteral("Two runs"), QSize(kWidth, 620), [source] {
                 auto plots = std::make_unique<ComparePlots>();
                 plots->setRuns(source->compared);
                 return plots;
             }});
}

void ReportMaker::drawNext() {
    if (m_next == m_steps.size()) {
        write();
        return;
    }
    const Step& step = m_steps[m_next++];
    const std::unique_ptr<QWidget> widget = step.make();
    m_report.pictures.push_back({step.name, step.title, pictureOf(*widget, step.size)});
    QTimer::singleShot(0, this, &ReportMaker::drawNext);
}

void ReportMaker::write() {
    m_workbench.executor.submit(
        kTopic, Executor::Lane::Long,
        [report = std::make_shared<Report>(std::move(m_report)), directory = m_directory,
         self = QPointer(this)](const Executor::Context&) -> Executor::OnWindow {
            const Status status = writeReport(*report, directory);
            const QString said = status.ok()
                                     ? QStringLiteral(
                                           "Report saved in %1: report.html, report.pdf, %2 "
                                           "pictures, %3 files")
                                           .arg(directory)
                                           .arg(report->pictures.size())
                                           .arg(report->files.size())
                                     : errorText(status.error());
            return [written = status.ok(), said, self] {
                if (self != nullptr) self->end(written, said);
            };
        });
}

void ReportMaker::end(bool written, const QString& said) {
    Q_EMIT finished(written, said);
    deleteLater();
}

}  // namespace piper::ui
