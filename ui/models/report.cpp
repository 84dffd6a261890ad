// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/report.h"

#include <QBuffer>
#include <QCoreApplication>
#include <QDir>
#include <QFileInfo>
#include <QLocale>
#include <QPageSize>
#include <QPdfWriter>
#include <QTextDocument>
#include <QUrl>

#include "ui/models/comparison_model.h"
#include "ui/models/file_io.h"
#include "ui/models/model_card.h"
#include "ui/models/phase_colours.h"
#include "ui/models/plan_summary.h"
#include "ui/models/report_tables.h"
#include "ui/models/roofline_model.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

constexpr int kShownPlans = 20;
constexpr int kPdfDpi = 1200;
constexpr double kCssDpi = 96.0;
constexpr double kPdfMargin = 56.0;  ///< CSS pixels

ReportTable cardTable(const QString& title, const std::vector<CardRow>& rows) {
    ReportTable out{title, {}, {}, 2};
    for (const CardRow& row : rows) out.rows.push_back({row.label, row.value});
    return out;
}

ReportSection summarySection(const ReportSource& source) {
    const Prediction& p = source.prediction;
    ReportSection out{QStringLiteral("In short"), {bottleneckText(p)}, {}, {}};
    ReportTable table{{},
                      {QStringLiteral("What"), QStringLiteral("Predicted"), QStringLiteral("Range"),
                       QStringLiteral("Rests on"), QStringLiteral("Meaning")},
                      {},
                      5};
    for (const Metric& m : planMetrics(*source.plan, p))
        table.rows.push_back({m.label, m.value, m.detail, m.evidence, m.definition});
    out.tables.push_back(std::move(table));
    out.paragraphs << (source.mode == PredictMode::Simulated
                           ? QStringLiteral("Times are those of the simulated schedule.")
                           : QStringLiteral("Times are those of the closed form."));
    for (const std::string& warning : p.warnings)
        out.paragraphs << QStringLiteral("Note: ") + text(warning);
    return out;
}

ReportSection planSection(const Plan& plan) {
    ReportSection out{QStringLiteral("Plan"), {layoutText(plan)}, {}, {}};
    std::vector<CardRow> rows;
    for (const KnobInfo& info : knobTable()) {
        const std::int64_t value = info.get(plan);
        if (value > 0)
            rows.push_back({QString::fromUtf8(info.label),
                            countText(value) + u' ' + QString::fromUtf8(info.unit),
                            {}});
    }
    for (const ChoiceInfo& info : choiceTable())
        for (const ChoiceOption& option : choiceOptions(plan, info.choice))
            if (option.current)
                rows.push_back({QString::fromUtf8(info.label), text(option.label), {}});
    rows.push_back({QStringLiteral("Rank order"), text(plan.rank_order), {}});
    rows.push_back({QStringLiteral("Precision"), text(toText(plan.precision)), {}});
    rows.push_back({QStringLiteral("Framework"), text(toText(plan.framework)), {}});
    out.tables = {
        cardTable(QStringLiteral("Settings"), rows),
        cardTable(QStringLiteral("Model: ") + text(plan.model.name), modelCard(plan.model)),
        cardTable(QStringLiteral("Cluster: ") + text(plan.cluster.name),
                  clusterCard(plan.cluster))};
    return out;
}

ReportSection memorySection(const Prediction& p) {
    ReportSection out{QStringLiteral("Memory of each stage"), {}, {QStringLiteral("memory")}, {}};
    ReportTable table{{}, {QStringLiteral("Term")}, {}};
    for (std::size_t s = 0; s < p.memory.stages.size(); ++s)
        table.head << QStringLiteral("stage %1").arg(s);
    for (std::size_t term = 0; term < kNumMemoryTerms; ++term) {
        QStringList row = {memoryTermLabel(static_cast<MemoryTerm>(term))};
        double sum = 0.0;
        for (const StageMemory& stage : p.memory.stages) {
            row << bytesText(stage.at_peak[term]);
            sum += stage.at_peak[term].value;
        }
        if (sum > 0.0) table.rows.push_back(row);
    }
    QStringList peak = {QStringLiteral("Peak")};
    for (const StageMemory& stage : p.memory.stages) peak << bytesText(stage.peak);
    table.rows.push_back(peak);
    // A wide table is in memory.csv; here it would not fit a page.
    constexpr qsizetype kMostStages = 8;
    if (table.head.size() <= kMostStages + 1)
        out.tables.push_back(std::move(table));
    else
        out.paragraphs << QStringLiteral("Every term of every stage: memory.csv.");
    out.paragraphs << QStringLiteral("The dashed line is the capacity of a device, %1.")
                          .arg(bytesText(p.memory.capacity));
    return out;
}

ReportSection timeSection(const Prediction& p) {
    ReportSection out{QStringLiteral("Time of each phase"),
                      {QStringLiteral("Means over the stages. Exposed: communication that no "
                                      "compute hides.")},
                      {QStringLiteral("phases")},
                      {}};
    ReportTable table{{},
                      {QStringLiteral("Phase"), QStringLiteral("Time"), QStringLiteral("Exposed"),
                       QStringLiteral("Of the step")},
                      {}};
    for (const PhaseShare& s : phaseShares(p))
        table.rows.push_back({phaseLabel(s.phase), secondsText(s.time), secondsText(s.exposed),
                              percentText(s.share_of_step)});
    out.tables.push_back(std::move(table));
    return out;
}

ReportSection rooflineSection(const Roofline& found) {
    RooflineModel model;
    model.setRoofline(found);
    ReportSection out{
        QStringLiteral("Roofline of GEMMs and links"),
        {QStringLiteral("Full points rest on measured or published times, hollow ones on a model "
                        "or lie beyond what was measured. Lines and dashes are roofs.")},
        {QStringLiteral("roofline_gemms"), QStringLiteral("roofline_links")},
        {}};
    out.tables.push_back(tableOf(model, {}));
    out.tables.back().numbers_from = RooflineModel::ColumnCount;
    return out;
}

ReportSection ranksSection() {
    return {QStringLiteral("Ranks on nodes and in both grids"),
            {QStringLiteral("Colour: stage. The marked ranks are the expert parallel group of the "
                            "first one. Every rank: ranks.csv.")},
            {QStringLiteral("ranks")},
            {}};
}

ReportTable pinsTable(const PinnedPlansModel& pins) {
    if (pins.numPins() == 0) return {};
    ReportTable table = tableOf(pins, {});
    table.head.prepend(QStringLiteral("What"));
    for (std::size_t row = 0; row < table.rows.size(); ++row)
        table.rows[row].prepend(
            pins.headerData(static_cast<int>(row), Qt::Vertical, Qt::DisplayRole).toString());
    return table;
}

ReportSection searchSection(const ReportSource& source) {
    RankedPlansModel model;
    model.setPlans(source.plans);
    ReportSection out{
        QStringLiteral("The search"),
        {source.search_status},
        {QStringLiteral("pareto")},
        {tableOf(model, QStringLiteral("The best %1").arg(std::min(kShownPlans, model.rowCount())),
                 kShownPlans),
         source.rejections}};
    out.tables.back().numbers_from = RejectionsModel::ColumnCount;
    // What does not fit the page is in plans.csv.
    ReportTable& best = out.tables.front();
    const auto keep = [](QStringList& cells) { cells = cells.mid(0, RankedPlans::Recompute); };
    keep(best.head);
    for (QStringList& row : best.rows) keep(row);
    return out;
}

ReportSection compareSection(const ComparedRuns& runs) {
    ComparisonModel model;
    model.setRuns(runs);
    ReportSection out{QStringLiteral("Against a run"),
                      {attributionText(runs.comparison->attribution)},
                      {QStringLiteral("compare")},
                      {tableOf(model, {})}};
    out.tables.front().numbers_from = ComparisonModel::A;
    return out;
}

ReportSection filesSection(const Report& report) {
    QStringList names;
    for (const ExportedFile& file : report.files) names << text(file.name);
    return {
        QStringLiteral("Again, and with other numbers"),
        {QStringLiteral("Files beside this report: %1. Their numbers are plain, with the unit "
                        "in the header.")
             .arg(names.join(QStringLiteral(", "))),
         QStringLiteral("piperctl predict plan.json prints these numbers again; piper-workbench "
                        "--plan plan.json opens the plan under its sliders."),
         QStringLiteral("What a number rests on: measured (on this cluster), published (by "
                        "others, on such devices), vendor peak (data sheet), assumed; "
                        "extrapolated lies outside what was measured.")},
        {},
        {}};
}

QString htmlTable(const ReportTable& table) {
    QString out;
    if (!table.title.isEmpty())
        out += QStringLiteral("<h3>%1</h3>").arg(table.title.toHtmlEscaped());
    out += QStringLiteral("<table cellspacing=\"0\" cellpadding=\"4\">");
    const auto row = [&](const QStringList& cells, const char* tag) {
        out += QStringLiteral("<tr>");
        for (qsizetype i = 0; i < cells.size(); ++i)
            out +=
                QStringLiteral("<%1 align=\"%2\">%3</%1>")
                    .arg(QString::fromLatin1(tag),
                         i >= table.numbers_from ? QStringLiteral("right") : QStringLiteral("left"),
                         cells[i].toHtmlEscaped());
        out += QStringLiteral("</tr>\n");
    };
    if (!table.head.isEmpty()) row(table.head, "th");
    for (const QStringList& cells : table.rows) row(cells, "td");
    return out + QStringLiteral("</table>\n");
}

const QString kStyle = QStringLiteral(
    "body{font-family:'DejaVu Sans',sans-serif;font-size:13px;color:#1f2429;max-width:1080px;"
    "margin:24px auto;line-height:1.4}"
    "h1{font-size:22px;margin-bottom:2px}h2{font-size:17px;margin-top:28px}h3{font-size:14px}"
    "p.faint{color:#66707b}table{border-collapse:collapse}"
    "th{background:#f3f5f7;text-align:left}td,th{border-bottom:1px solid #d3d9df;padding:3px 8px;"
    "vertical-align:top}img{max-width:100%}");

/// Type is smaller on paper, where tables must fit a page.
const QString kPaperStyle = QStringLiteral(
    "body{font-size:9px}h1{font-size:18px}h2{font-size:14px}h3{font-size:11px}"
    "td,th{font-size:8px}");

QByteArray pngOf(const QImage& image) {
    QByteArray bytes;
    QBuffer buffer(&bytes);
    buffer.open(QIODevice::WriteOnly);
    image.save(&buffer, "PNG");
    return bytes;
}

/// Shown as large as it was drawn, at most as wide as a page.
QSize shownSize(const QImage& image, double most_wide) {
    const QSizeF size = image.deviceIndependentSize();
    return (size * std::min(1.0, most_wide / size.width())).toSize();
}

Status writePdf(const Report& report, const QString& path) {
    QPdfWriter writer(path);
    writer.setResolution(kPdfDpi);
    writer.setPageSize(QPageSize(QPageSize::A4));
    writer.setPageMargins(QMarginsF(0, 0, 0, 0));
    writer.setTitle(report.title);
    writer.setCreator(QCoreApplication::applicationName());
    QTextDocument document;
    const QSizeF page = QPageSize(QPageSize::A4).size(QPageSize::Inch) * kCssDpi;
    document.setPageSize(page);
    document.setDocumentMargin(kPdfMargin);
    for (const ReportPicture& picture : report.pictures)
        document.addResource(QTextDocument::ImageResource,
                             QUrl(QStringLiteral("picture:") + picture.name), picture.image);
    document.setDefaultStyleSheet(kStyle + kPaperStyle);
    const double wide = page.width() - 2 * kPdfMargin;
    document.setHtml(reportHtml(report, [wide](const ReportPicture& picture) {
        const QSize size = shownSize(picture.image, wide);
        return QStringLiteral("src=\"picture:%1\" width=\"%2\" height=\"%3\"")
            .arg(picture.name)
            .arg(size.width())
            .arg(size.height());
    }));
    document.print(&writer);
    if (QFileInfo(path).size() == 0)
        return fail(ErrorCode::Io, "cannot write {}", path.toStdString());
    return {};
}

}  // namespace

ReportTable tableOf(const QAbstractItemModel& model, const QString& title, int most) {
    ReportTable out{title, {}, {}};
    for (int column = 0; column < model.columnCount(); ++column)
        out.head << model.headerData(column, Qt::Horizontal, Qt::DisplayRole).toString();
    for (int row = 0; row < std::min(most, model.rowCount()); ++row) {
        QStringList cells;
        for (int column = 0; column < model.columnCount(); ++column)
            cells << model.index(row, column).data(Qt::DisplayRole).toString();
        out.rows.push_back(std::move(cells));
    }
    return out;
}

Result<ReportSource> reportSource(Workbench& workbench, const QDateTime& made) {
    const PlanViewModel& plan = workbench.plan;
    if (!plan.hasPlan() || plan.prediction() == nullptr)
        return fail(ErrorCode::RuleBroken, "there is no prediction to report: {}",
                    !plan.hasPlan()             ? std::string("no plan is open")
                    : plan.violations().empty() ? plan.fault().toStdString()
                                                : plan.violations().front().message);
    ReportSource out;
    out.made = made;
    out.plan = plan.sharedPlan();
    out.prediction = *plan.prediction();
    out.mode = plan.mode();
    out.pins = pinsTable(workbench.pinned);
    SearchViewModel& search = workbench.search;
    out.search_status = search.status();
    out.plans = search.plans().sharedPlans();
    out.rejections = tableOf(search.rejections(), QStringLiteral("Why others lost"));
    out.compared = workbench.pair.compared();
    return out;
}

Result<Report> planReport(const ReportSource& source) {
    PIPER_ASSIGN(Roofline found, roofline(*source.plan));
    const Prediction& p = source.prediction;
    Report out;
    out.title = QStringLiteral("%1 on %2")
                    .arg(text(source.plan->model.name), text(source.plan->cluster.name));
    out.subtitle =
        QStringLiteral("Plan report of %1, Piper Workbench %2")
            .arg(source.made.toString(Qt::ISODate), QCoreApplication::applicationVersion());
    out.files = reportFiles(source, found);
    out.sections = {summarySection(source), planSection(*source.plan), memorySection(p),
                    timeSection(p),         rooflineSection(found),    ranksSection()};
    if (!source.pins.rows.empty())
        out.sections.push_back({QStringLiteral("Plans beside it"), {}, {}, {source.pins}});
    if (source.plans->size() > 0) out.sections.push_back(searchSection(source));
    if (source.compared.comparison != nullptr)
        out.sections.push_back(compareSection(source.compared));
    out.sections.push_back(filesSection(out));
    out.roofline = std::move(found);
    return out;
}

QString reportHtml(const Report& report,
                   const std::function<QString(const ReportPicture&)>& attributes) {
    QString out = QStringLiteral(
                      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                      "<title>%1</title><style>%2</style></head><body>\n<h1>%1</h1>"
                      "<p class=\"faint\">%3</p>\n")
                      .arg(report.title.toHtmlEscaped(), kStyle, report.subtitle.toHtmlEscaped());
    for (const ReportSection& section : report.sections) {
        out += QStringLiteral("<h2>%1</h2>\n").arg(section.title.toHtmlEscaped());
        for (const QString& paragraph : section.paragraphs)
            out += QStringLiteral("<p>%1</p>\n").arg(paragraph.toHtmlEscaped());
        for (const QString& name : section.pictures)
            for (const ReportPicture& picture : report.pictures)
                if (picture.name == name)
                    out += QStringLiteral("<p><img %1 alt=\"%2\"></p>\n")
                               .arg(attributes(picture), picture.title.toHtmlEscaped());
        for (const ReportTable& table : section.tables) out += htmlTable(table);
    }
    return out + QStringLiteral("</body></html>\n");
}

Status writeReport(const Report& report, const QString& directory) {
    const QDir into(directory);
    if (!QDir().mkpath(directory))
        return fail(ErrorCode::Io, "cannot make the directory {}", directory.toStdString());
    for (const ReportPicture& picture : report.pictures)
        PIPER_TRY(writeFile(into.filePath(picture.name + QStringLiteral(".png")),
                            pngOf(picture.image).toStdString()));
    for (const ExportedFile& file : report.files)
        PIPER_TRY(writeFile(into.filePath(text(file.name)), file.content));
    const QString html = reportHtml(report, [](const ReportPicture& picture) {
        const QSize size = shownSize(picture.image, 1080.0);
        return QStringLiteral("src=\"data:image/png;base64,%1\" width=\"%2\"")
            .arg(QString::fromLatin1(pngOf(picture.image).toBase64()))
            .arg(size.width());
    });
    PIPER_TRY(writeFile(into.filePath(QStringLiteral("report.html")), html.toStdString()));
    return writePdf(report, into.filePath(QStringLiteral("report.pdf")));
}

}  // namespace piper::ui
