// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/options.h"

#include <QCommandLineParser>
#include <QRegularExpression>
#include <vector>

#include "core/base/enum_text.h"

namespace piper::app {
namespace {

void describe(QCommandLineParser& parser) {
    parser.setApplicationDescription(
        QStringLiteral("Plan, run and understand Mixture-of-Experts training."));
    parser.addPositionalArgument(QStringLiteral("file"),
                                 QStringLiteral("Workspace file to open (*.piper)."),
                                 QStringLiteral("[FILE.piper]"));
    parser.addOptions({
        {QStringLiteral("page"),
         QStringLiteral("Page to show: sessions, plan, explore, schedule, runs, timeline, compare "
                        "or export."),
         QStringLiteral("NAME")},
        {QStringLiteral("runs"),
         QStringLiteral("Runs of the file to show; one name shows it beside its model."),
         QStringLiteral("A,B")},
        {QStringLiteral("plan"), QStringLiteral("Plan file to start with."),
         QStringLiteral("PLAN.json")},
        {QStringLiteral("screenshot"), QStringLiteral("Write that page to a PNG file and exit."),
         QStringLiteral("PNG")},
        {QStringLiteral("size"), QStringLiteral("Size of the window, 1600x900 by default."),
         QStringLiteral("WxH")},
        {QStringLiteral("scale"), QStringLiteral("Scale of everything, 0.5 to 4."),
         QStringLiteral("S")},
        {QStringLiteral("theme"), QStringLiteral("light, dark or system."), QStringLiteral("NAME")},
        {QStringLiteral("bench"), QStringLiteral("Measure own latencies: slider."),
         QStringLiteral("WHAT")},
        {QStringLiteral("json"), QStringLiteral("Print the measurement as one JSON document.")},
        {{QStringLiteral("h"), QStringLiteral("help")}, QStringLiteral("Show this help.")},
        {QStringLiteral("version"), QStringLiteral("Show the version.")},
    });
}

Result<std::size_t> oneOf(const QString& value, std::string_view what,
                          const std::vector<std::string>& names) {
    std::vector<std::string_view> views(names.begin(), names.end());
    const std::string given = value.toStdString();
    for (std::size_t i = 0; i < names.size(); ++i)
        if (names[i] == given) return i;
    Error error = fail(ErrorCode::InvalidInput, "unknown {} '{}'; nearest known: '{}'", what, given,
                       nearestWord(given, views));
    error.hint = fmt::format("legal values: {}", joinWords(views));
    return error;
}

Status readSize(const QString& text, QSize& size) {
    static const QRegularExpression pattern(QStringLiteral("^(\\d{2,5})x(\\d{2,5})$"));
    const QRegularExpressionMatch match = pattern.match(text);
    size = QSize(match.captured(1).toInt(), match.captured(2).toInt());
    if (match.hasMatch() && size.width() >= 320 && size.height() >= 240 && size.width() <= 16384 &&
        size.height() <= 16384)
        return {};
    return fail(ErrorCode::InvalidInput,
                "--size '{}' is not WIDTHxHEIGHT from 320x240 to 16384x16384", text.toStdString());
}

Status readScale(const QString& text, double& scale) {
    bool ok = false;
    scale = text.toDouble(&ok);
    if (ok && scale >= 0.5 && scale <= 4.0) return {};
    return fail(ErrorCode::InvalidInput, "--scale '{}' is not a number from 0.5 to 4",
                text.toStdString());
}

Status readChoices(const QCommandLineParser& parser, Options& out) {
    const auto value = [&](const char* name) { return parser.value(QString::fromLatin1(name)); };
    if (const QString page = value("page"); !page.isEmpty()) {
        std::vector<std::string> names;
        for (int i = 0; i < ui::kNumPages; ++i)
            names.push_back(ui::pageName(static_cast<ui::PageId>(i)).toStdString());
        PIPER_ASSIGN(const std::size_t index, oneOf(page, "page", names));
        out.page = static_cast<ui::PageId>(index);
    }
    if (const QString theme = value("theme"); !theme.isEmpty()) {
        PIPER_ASSIGN(const std::size_t index, oneOf(theme, "theme", {"system", "light", "dark"}));
        out.theme = static_cast<ui::Theme>(index);
    }
    if (const QString bench = value("bench"); !bench.isEmpty()) {
        PIPER_TRY([&]() -> Status {
            PIPER_ASSIGN(const std::size_t index, oneOf(bench, "benchmark", {"slider"}));
            static_cast<void>(index);
            return {};
        }());
        out.bench = bench;
    }
    if (const QString size = value("size"); !size.isEmpty()) PIPER_TRY(readSize(size, out.size));
    if (const QString scale = value("scale"); !scale.isEmpty())
        PIPER_TRY(readScale(scale, out.scale));
    return {};
}

}  // namespace

QString helpText() {
    QCommandLineParser parser;
    describe(parser);
    return parser.helpText();
}

Result<Options> parseOptions(const QStringList& arguments) {
    QCommandLineParser parser;
    describe(parser);
    Options out;
    if (!parser.parse(arguments))
        return fail(ErrorCode::InvalidInput, "{}", parser.errorText().toStdString());
    out.help = parser.isSet(QStringLiteral("help"));
    out.version = parser.isSet(QStringLiteral("version"));
    if (out.help || out.version) return out;
    if (parser.positionalArguments().size() > 1)
        return fail(ErrorCode::InvalidInput, "one file can be opened, {} are given",
                    parser.positionalArguments().size());
    out.workspace = parser.positionalArguments().value(0);
    out.plan = parser.value(QStringLiteral("plan"));
    out.screenshot = parser.value(QStringLiteral("screenshot"));
    out.json = parser.isSet(QStringLiteral("json"));
    PIPER_TRY(readChoices(parser, out));
    if (const QString runs = parser.value(QStringLiteral("runs")); !runs.isEmpty()) {
        const QStringList names = runs.split(u',');
        if (names.size() > 2)
            return fail(ErrorCode::InvalidInput, "--runs takes one or two names, {} are given",
                        names.size());
        out.run_a = names.size() == 2 ? names[0] : QString();
        out.run_b = names.back();
    }
    return out;
}

}  // namespace piper::app
