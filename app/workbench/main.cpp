// SPDX-License-Identifier: GPL-3.0-or-later
#include <QApplication>
#include <QIcon>
#include <QStandardPaths>
#include <QSurfaceFormat>
#include <cstdio>

#include "app/command_line/command_line.h"
#include "app/common/parallel.h"
#include "app/files/files.h"
#include "app/workbench/options.h"
#include "app/workbench/session_run_controller.h"
#include "app/workbench/settle.h"
#include "app/workbench/slider_bench.h"
#include "app/workbench/store_library.h"
#include "app/workbench/thread_executor.h"
#include "ui/models/text_format.h"
#include "ui/views/explore_page.h"
#include "ui/views/main_window.h"

namespace {

using namespace piper;
using namespace piper::app;

constexpr int kBenchMoves = 200;

int report(const Error& error) {
    std::fprintf(stderr, "piper-workbench: %s\n", error.text().c_str());
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
        &bench.runs, &ui::RunsViewModel::historyChanged, &bench.runs,
        [options, &bench] {
            QString b = options.run_b;
            for (const ui::RunSummary& run : bench.runs.history().runs())
                if (options.run_b.isEmpty() && run.kind == RunKind::Measured) b = run.name;
            bench.pair.select(bench.runs.workspace(), options.run_a, b);
        },
        Qt::SingleShotConnection);
    QObject::connect(
        &bench.pair, &ui::PairViewModel::changed, &bench.plan,
        [options, &bench] {
            if (!options.plan.isEmpty() || bench.pair.second().empty()) return;
            const Run& run = *bench.pair.second().run;
            const Result<Plan> plan = readPlanText(run.plan_json, "the plan of run " + run.name);
            if (plan.ok()) bench.plan.setPlan(*plan);
        },
        Qt::SingleShotConnection);
    bench.runs.openWorkspace(options.workspace);
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

Status oneShot(const Options& options, ui::MainWindow& window, ui::Workbench& bench) {
    constexpr int kStartMs = 60'000;
    if (!settle(window, bench.executor, kStartMs))
        return fail(ErrorCode::External, "the window did not settle in {} s", kStartMs / 1000);
    PIPER_TRY(checkStart(options, bench));
    if (!options.bench.isEmpty()) {
        PIPER_ASSIGN(const SliderBench result, benchSlider(window, bench, kBenchMoves));
        std::printf("%s\n", benchJson(result).c_str());
        return {};
    }
    if (auto* explore = window.currentPage() == ui::PageId::Explore
                            ? qobject_cast<ui::ExplorePage*>(window.page(ui::PageId::Explore))
                            : nullptr)
        explore->startSearch();
    return writeScreenshot(window, bench.executor, options.screenshot);
}

int runWindow(QApplication& application, const Options& options) {
    ui::applyTheme(application, options.theme);
    ThreadExecutor executor;
    const StoreLibrary library;
    SessionRunController controller(siblingProgram("piper-worker"));
    ui::Workbench bench(executor, library, controller, SessionStore(sessionsFile()));
    bench.runs.setDefaultWorkspace(defaultWorkspace());
    bench.search.setParallelFor(threadedFor());
    if (const auto file = bundledExample("plans/olmoe-tiny.json"); file.ok())
        bench.local_plan = QString::fromStdString(file->string());
    bench.sessions.load();

    ui::MainWindow window(bench);
    startPlan(options, bench);
    if (!options.workspace.isEmpty()) startWorkspace(options, bench);
    window.resize(options.size);
    window.showPage(options.page.value_or(ui::PageId::Plan));
    QObject::connect(&bench.plan, &ui::PlanViewModel::importFailed, [](const QString& message) {
        std::fprintf(stderr, "piper-workbench: %s\n", qPrintable(message));
    });
    QObject::connect(&bench.runs, &ui::RunsViewModel::failed, [](const QString& message) {
        std::fprintf(stderr, "piper-workbench: %s\n", qPrintable(message));
    });
    window.show();
    if (options.screenshot.isEmpty() && options.bench.isEmpty()) return QApplication::exec();
    const Status status = oneShot(options, window, bench);
    return status.ok() ? 0 : report(status.error());
}

}  // namespace

int main(int argc, char** argv) {
    const ParsedOptions parsed = parseOptions(argc, argv);
    if (parsed.exit_status) return *parsed.exit_status;
    prepare(parsed.options);
    QApplication application(argc, argv);
    QApplication::setWindowIcon(QIcon::fromTheme(QStringLiteral("piper-workbench")));
    return runWindow(application, parsed.options);
}
