// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractItemModel>
#include <QDateTime>
#include <QImage>
#include <QString>
#include <QStringList>
#include <functional>
#include <vector>

#include "core/export/export.h"
#include "core/predict/roofline.h"
#include "ui/models/workbench.h"

namespace piper::ui {

/// A picture of a report. Sections name it; the image is put in by the views.
struct ReportPicture {
    QString name;  ///< "memory": of its file, and of its place in the sections
    QString title;
    QImage image;  ///< its device pixel ratio says how large it is shown
};

struct ReportTable {
    QString title;
    QStringList head;
    std::vector<QStringList> rows;
    int numbers_from = 1;  ///< columns from here on stand right
};
/// What a table model shows, at most `most` rows.
[[nodiscard]] ReportTable tableOf(const QAbstractItemModel& model, const QString& title,
                                  int most = 1000);

struct ReportSection {
    QString title;
    QStringList paragraphs;
    QStringList pictures;  ///< names
    std::vector<ReportTable> tables;
};

/// Everything known of the plan at hand, for somebody who has neither it nor the program.
struct Report {
    QString title, subtitle;
    std::vector<ReportSection> sections;
    std::vector<ReportPicture> pictures;
    Roofline roofline;                ///< of the plan, for its pictures
    std::vector<ExportedFile> files;  ///< tables as CSV with plain numbers, and the plan itself
};

/// What a report is made of: the plan at hand with its prediction; the pinned plans, the search and
/// the compared runs where there are any.
struct ReportSource {
    QDateTime made;
    std::shared_ptr<const Plan> plan;
    Prediction prediction;
    PredictMode mode = PredictMode::ClosedForm;
    ReportTable pins;
    QString search_status;
    std::shared_ptr<const RankedPlans> plans;
    ReportTable rejections;
    ComparedRuns compared;
};
/// For the window's thread. Errors: RuleBroken while nothing is predicted.
[[nodiscard]] Result<ReportSource> reportSource(Workbench& workbench, const QDateTime& made);

/// Everything but the pictures. For the executor. Errors: those of roofline().
[[nodiscard]] Result<Report> planReport(const ReportSource& source);

/// The report as one page. `attributes`: those of a picture's <img> that say what it shows and how
/// large.
[[nodiscard]] QString reportHtml(const Report& report,
                                 const std::function<QString(const ReportPicture&)>& attributes);

/// report.html, report.pdf, a PNG for each picture and the files, in that directory.
/// Errors: Io names what could not be written.
[[nodiscard]] Status writeReport(const Report& report, const QString& directory);

}  // namespace piper::ui
