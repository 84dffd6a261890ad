// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/options.h"

#include <QRegularExpression>
#include <algorithm>
#include <vector>

#include "app/command_line/command_line.h"

namespace piper::app {
namespace {

std::vector<std::string> themeNames() {
    std::vector<std::string> names;
    for (const ui::Theme theme : {ui::Theme::System, ui::Theme::Light, ui::Theme::Dark})
        names.push_back(ui::themeName(theme).toStdString());
    return names;
}

std::vector<std::string> pageNames() {
    std::vector<std::string> names;
    for (int i = 0; i < ui::kNumPages; ++i)
        names.push_back(ui::pageName(static_cast<ui::PageId>(i)).toStdString());
    return names;
}

QSize readSize(const std::string& text) {
    static const QRegularExpression pattern(QStringLiteral("^(\\d{2,5})x(\\d{2,5})$"));
    const QRegularExpressionMatch match = pattern.match(QString::fromStdString(text));
    const QSize size(match.captured(1).toInt(), match.captured(2).toInt());
    if (match.hasMatch() && size.width() >= 320 && size.height() >= 240 && size.width() <= 16384 &&
        size.height() <= 16384)
        return size;
    throw CLI::ValidationError("--size",
                               "'" + text + "' is not WIDTHxHEIGHT from 320x240 to 16384x16384");
}

double readScale(const std::string& text) {
    bool ok = false;
    const double scale = QString::fromStdString(text).toDouble(&ok);
    if (ok && scale >= 0.5 && scale <= 4.0) return scale;
    throw CLI::ValidationError("--scale", "'" + text + "' is not a number from 0.5 to 4");
}

void readRuns(const std::string& text, Options& out) {
    const QStringList names = QString::fromLocal8Bit(text.c_str()).split(u',');
    if (names.size() > 2)
        throw CLI::ValidationError(
            "--runs", fmt::format("one or two names are taken, {} are given", names.size()));
    out.run_a = names.size() == 2 ? names[0] : QString();
    out.run_b = names.back();
}

CLI::Option* addText(CLI::App& app, const char* name, QString& target, const char* description) {
    return app.add_option_function<std::string>(
        name, [&target](const std::string& text) { target = QString::fromLocal8Bit(text.c_str()); },
        description);
}

void addOptions(CLI::App& app, Options& out) {
    addText(app, "file", out.workspace, "Workspace file to open (*.piper)");
    app.add_option_function<std::string>(
           "--page",
           [&out](const std::string& word) {
               const std::vector<std::string> names = pageNames();
               out.page = static_cast<ui::PageId>(std::ranges::find(names, word) - names.begin());
           },
           "Page to show")
        ->check(oneOf(pageNames()));
    app.add_option_function<std::string>(
        "--runs", [&out](const std::string& text) { readRuns(text, out); },
        "Runs A,B of the file to show; one name shows it beside its model");
    addText(app, "--plan", out.plan, "Plan file to start with");
    addText(app, "--screenshot", out.screenshot, "Write that page to a PNG file and exit");
    addText(app, "--report", out.report,
            "Write the report of the plan into a directory (PDF, HTML, PNG, CSV) and exit");
    app.add_option_function<std::vector<std::string>>(
           "--do",
           [&out](const std::vector<std::string>& commands) {
               for (const std::string& command : commands)
                   out.commands << QString::fromStdString(command);
           },
           "Command of the window to do once the page is there, \"Plan: Pin this plan\"; may be "
           "repeated")
        ->allow_extra_args(false);
    app.add_option_function<std::string>(
        "--size", [&out](const std::string& text) { out.size = readSize(text); },
        "WIDTHxHEIGHT of the window; default: 1600x900");
    app.add_option_function<std::string>(
           "--scale", [&out](const std::string& text) { out.scale = readScale(text); },
           "Scale of everything, 0.5 to 4; default: the screen's")
        ->type_name("FLOAT");
    app.add_option_function<std::string>(
           "--theme",
           [&out](const std::string& word) {
               out.theme = ui::themeOf(QString::fromStdString(word));
           },
           "Colours; default: as last chosen in the window, at first system")
        ->check(oneOf(themeNames()));
    addText(
        app, "--bench", out.bench,
        "Measure own latencies; start: against an empty window, first-page and empty-window are "
        "what it starts")
        ->check(oneOf({"slider", "start", "table", "timeline", "first-page", "empty-window"}));
    app.add_flag("--json", out.json, "Print the measurement as one JSON document");
}

}  // namespace

ParsedOptions parseOptions(int argc, const char* const* argv) {
    ParsedOptions parsed;
    CLI::App app("Plans, predicts, runs and compares Mixture-of-Experts training in a window",
                 "piper-workbench");
    addOptions(app, parsed.options);
    completeCommandLine(app);
    parsed.exit_status = readCommandLine(app, argc, argv);
    return parsed;
}

}  // namespace piper::app
