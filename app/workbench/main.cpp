// SPDX-License-Identifier: GPL-3.0-or-later
#include <QApplication>
#include <QIcon>
#include <QStandardPaths>
#include <QSurfaceFormat>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "app/command_line/command_line.h"
#include "app/common/parallel.h"
#include "app/files/files.h"
#include "app/workbench/arenas.h"
#include "app/workbench/options.h"
#include "app/workbench/own_runs.h"
#include "app/workbench/session_run_controller.h"
#include "app/workbench/settle.h"
#include "app/workbench/slider_bench.h"
#include "app/workbench/start_bench.h"
#include "app/workbench/store_library.h"
#include "app/workbench/table_bench.h"
#include "app/workbench/thread_executor.h"
#include "app/workbench/timeline_bench.h"
#include "ui/models/text_format.h"
#include "ui/views/explore_page.h"
#include "ui/views/main_window.h"
#include "ui/views/report_maker.h"

namespace {

using namespace piper;
using namespace piper::app;

constexpr int kBenchMoves = 500;
constexpr int kStarts = 20;
constexpr std::size_t kTablePlans = 100'000;
constexpr int kStartMs = 60'000;
constexpr std::chrono::milliseconds kGoodbye{1000};  ///< for hosts, once the window is closed

void say(const QString& message) {
    std::fprintf(stderr, "piper-workbench: %s\n", qPrintable(message));
}

int report(const Error& error) {
    say(ui::text(error.text()));
    return exitStatus(error.code);
}

/// Before the application exists: what Qt reads at its start.
void prepare(const Options& options) {
    if (options.scale > 0.0) qputenv("QT_SCALE_FACTOR", QByteArray::number(options.scale));
    QSurfaceFormat format;
    format.setVersion(3, 3);
    format.setProfile(QSurfaceFormat::CoreProfile);
    QSurfaceFormat::setDefaultFormat(format);
    QApplication::setApplicationName(QStringLiteral("piper-workbench"));
    QApplication::setDesktopFileName(QStringLiteral("piper-workbench"));
    QApplication::setApplicationVersion(QString::fromStdString(programVersion()));
}

QString defaultWorkspace() {
    return QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) +
           QStringLiteral("/runs.piper");
}

/// Beside the list of sessions.
QString preferencesFile() {
    return QString::fromStdString(sessionsFile().replace_filename("window.json").string());
}

/// What is remembered, with the command line above it. A file that cannot be read is no reason not
/// to start.
void loadPreferences(QApplication& application, const Options& options, ui::Workbench& bench) {
    if (const Status status = bench.preferences.load(); !status.ok()) report(status.error());
    bench.timeline_keys.load();
    const QString remembered = bench.preferences.value(QStringLiteral("theme"));
    ui::applyTheme(application,
                   options.theme.value_or(ui::themeOf(remembered).value_or(ui::Theme::System)));
}

/// What a window without arguments shows.
Result<Plan> bundledPlan() {
    PIPER_ASSIGN(const std::filesystem::path path, bundledExample("plans/mixtral-8x7b-h100.json"));
    return ui::readPlanFile(QString::fromStdString(path.string()));
}

/// The plan the window starts with: the given one, that of the opened runs, or the bundled one.
void startPlan(const Options& options, ui::Workbench& bench) {
    bench.executor.submit(QStringLiteral("open-plan"), ui::Executor::Lane::Interactive,
                          [&bench, path = options.plan](const ui::Executor::Context&) {
                              auto plan = std::make_shared<Result<Plan>>(
                                  path.isEmpty() ? bundledPlan() : ui::readPlanFile(path));
                              return [&bench, plan] {
                                  if (plan->ok())
                                      bench.plan.setPlan(**plan);
                                  else
                                      Q_EMIT bench.plan.importFailed(ui::errorText(plan->error()));
                              };
                          });
}

/// Opens the file of the command line and shows its runs; the plan follows the measured run.
void startWorkspace(const Options& options, ui::Workbench& bench) {
    QObject::connect(
        &bench.pair, &ui::PairViewModel::changed, &bench.plan,
        [options, &bench] {
            if (!options.plan.isEmpty() || bench.pair.second().empty()) return;
            const Run& run = *bench.pair.second().run;
            const Result<Plan> plan = readPlanText(run.plan_json, "the plan of run " + run.name);
            if (plan.ok()) bench.plan.setPlan(*plan);
        },
        Qt::SingleShotConnection);
    showWorkspace(bench, options.workspace, options.run_a, options.run_b);
}

/// Why the command line cannot be served, once everything was read.
Status checkStart(const Options& options, const ui::Workbench& bench) {
    if (!bench.plan.hasPlan())
        return fail(ErrorCode::InvalidInput, "no plan could be opened{}",
                    options.plan.isEmpty() ? std::string() : " from " + options.plan.toStdString());
    const bool wanted = !options.run_a.isEmpty() || !options.run_b.isEmpty();
    if (wanted && options.workspace.isEmpty())
        return fail(ErrorCode::InvalidInput, "--runs needs a workspace file to take them from");
    if (wanted && (bench.pair.first().empty() || bench.pair.second().empty()))
        return fail(ErrorCode::NotFound, "{}", bench.pair.status().toStdString());
    if (!options.workspace.isEmpty() && bench.runs.workspace().isEmpty())
        return fail(ErrorCode::InvalidInput, "{} could not be opened",
                    options.workspace.toStdString());
    return {};
}

/// The commands of the command line, each once the one before it has settled.
Status doCommands(const Options& options, ui::MainWindow& window, const ui::Workbench& bench) {
    for (const QString& command : options.commands) {
        QAction* action =
            window.actions().find(command.section(u':', 0, 0), command.section(u':', 1).trimmed());
        if (action == nullptr)
            return fail(ErrorCode::InvalidInput,
                        "'{}' is no command of the window; Ctrl+K lists them, \"Section: Text\"",
                        command.toStdString());
        action->trigger();
        if (!settle(window, bench.executor, kStartMs))
            return fail(ErrorCode::External, "'{}' did not settle in {} s", command.toStdString(),
                        kStartMs / 1000);
    }
    return {};
}

Status writeReport(const QString& directory, ui::Workbench& bench) {
    auto* maker = new ui::ReportMaker(bench, directory, nullptr);
    std::optional<bool> written;
    QString said;
    QObject::connect(maker, &ui::ReportMaker::finished, [&](bool ok, const QString& words) {
        written = ok;
        said = words;
    });
    maker->start();
    if (!spinUntil([&] { return written.has_value(); }, kStartMs))
        return fail(ErrorCode::External, "the report was not written in {} s", kStartMs / 1000);
    if (!*written) return fail(ErrorCode::Io, "{}", said.toStdString());
    return {};
}

/// From the request to open the file on.
Status timeTimeline(const Options& options, ui::MainWindow& window, ui::Workbench& bench) {
    if (options.workspace.isEmpty())
        return fail(ErrorCode::InvalidInput,
                    "--bench timeline needs a workspace file with a run to show");
    window.showPage(ui::PageId::Timeline);
    if (!settle(window, bench.executor, kStartMs))
        return fail(ErrorCode::External, "the window did not settle in {} s", kStartMs / 1000);
    PIPER_ASSIGN(const TimelineBench result,
                 benchTimeline(window, bench, [&] { startWorkspace(options, bench); }));
    std::printf("%s\n", benchJson(result).c_str());
    return {};
}

Status oneShot(const Options& options, ui::MainWindow& window, ui::Workbench& bench) {
    if (!settle(window, bench.executor, kStartMs))
        return fail(ErrorCode::External, "the window did not settle in {} s", kStartMs / 1000);
    PIPER_TRY(checkStart(options, bench));
    if (options.bench == QStringLiteral("slider")) {
        PIPER_ASSIGN(const SliderBench result, benchSlider(window, bench, kBenchMoves));
        std::printf("%s\n", benchJson(result).c_str());
        return {};
    }
    if (options.bench == QStringLiteral("table")) {
        PIPER_ASSIGN(const TableBench result, benchTable(window, bench, kTablePlans));
        std::printf("%s\n", benchJson(result).c_str());
        return {};
    }
    if (auto* explore = window.currentPage() == ui::PageId::Explore
                            ? qobject_cast<ui::ExplorePage*>(window.page(ui::PageId::Explore))
                            : nullptr)
        explore->startSearch();
    PIPER_TRY(doCommands(options, window, bench));
    if (!options.report.isEmpty()) PIPER_TRY(writeReport(options.report, bench));
    if (options.screenshot.isEmpty()) return {};
    return writeScreenshot(window, bench.executor, options.screenshot);
}

int showWindow(QApplication& application, const Options& options, const StoreLibrary& library,
               ThreadExecutor& executor, SessionRunController& controller) {
    ui::Workbench bench(executor, library, controller, SessionStore(sessionsFile()),
                        preferencesFile());
    loadPreferences(application, options, bench);
    bench.runs.setDefaultWorkspace(defaultWorkspace());
    bench.search.setParallelFor(threadedFor());
    bench.curves.setParallelFor(threadedFor());
    if (const auto file = bundledExample("plans/olmoe-tiny.json"); file.ok())
        bench.local_plan = QString::fromStdString(file->string());
    bench.sessions.load();

    ui::MainWindow window(bench);
    startPlan(options, bench);
    const bool times_timeline = options.bench == QStringLiteral("timeline");
    if (!options.workspace.isEmpty() && !times_timeline) startWorkspace(options, bench);
    window.resize(options.size);
    window.showPage(options.page.value_or(ui::PageId::Plan));
    QObject::connect(&bench.plan, &ui::PlanViewModel::importFailed, say);
    QObject::connect(&bench.runs, &ui::RunsViewModel::failed, say);
    window.show();
    const bool first_page = options.bench == QStringLiteral("first-page");
    if (options.screenshot.isEmpty() && (options.bench.isEmpty() || first_page) &&
        options.report.isEmpty()) {
        const auto example = bundledExample("runs/olmoe-tiny.piper");
        if (options.workspace.isEmpty())
            openOwnRuns(bench, example.ok() ? std::optional(*example) : std::nullopt);
        if (!bench.tour.seen() && options.workspace.isEmpty() && options.plan.isEmpty())
            bench.tour.start();
        if (first_page) {
            const Status said = sayFirstPage(window, bench);
            return said.ok() ? 0 : report(said.error());
        }
        return QApplication::exec();
    }
    const Status status =
        times_timeline ? timeTimeline(options, window, bench) : oneShot(options, window, bench);
    return status.ok() ? 0 : report(status.error());
}

/// What needs no window of the workbench.
std::optional<Status> startsAlone(const Options& options) {
    if (options.bench == QStringLiteral("empty-window")) return sayEmptyWindow();
    if (options.bench != QStringLiteral("start")) return {};
    const Result<StartBench> bench = benchStart(kStarts);
    if (!bench.ok()) return Status(bench.error());
    std::printf("%s\n", benchJson(*bench).c_str());
    return Status();
}

int runWindow(QApplication& application, const Options& options) {
    if (const std::optional<Status> status = startsAlone(options))
        return status->ok() ? 0 : report(status->error());
    const StoreLibrary library;
    ThreadExecutor executor;
    SessionRunController controller(siblingProgram("piper-worker"));
    const int status = showWindow(application, options, library, executor, controller);
    // A host that does not answer is not waited for: its threads end with the process, and until
    // then what they use must be there.
    const auto deadline = std::chrono::steady_clock::now() + kGoodbye;  // one for both
    executor.requestStop();
    const bool controller_ended = controller.endBy(deadline);
    const bool executor_ended = executor.endBy(deadline);  // files are written in any case
    if (controller_ended && executor_ended) return status;
    std::fflush(nullptr);
    std::_Exit(status);
}

}  // namespace

int main(int argc, char** argv) {
    limitArenas();
    const ParsedOptions parsed = parseOptions(argc, argv);
    if (parsed.exit_status) return *parsed.exit_status;
    prepare(parsed.options);
    QApplication application(argc, argv);
    QApplication::setWindowIcon(QIcon::fromTheme(QStringLiteral("piper-workbench")));
    return runWindow(application, parsed.options);
}
