// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/start_bench.h"

#include <QMainWindow>
#include <QProcess>
#include <QWindow>
#include <cstdio>

#include "core/base/sample.h"

namespace piper::app {
namespace {

constexpr int kTimeoutMs = 60'000;
const char* const kPainted = "painted";

/// Paints what is still to paint and answers what is in the queue, then says so.
Status sayPainted(QWidget& window) {
    window.repaint();
    bool answered = false;
    QMetaObject::invokeMethod(
        &window, [&] { answered = true; }, Qt::QueuedConnection);
    if (!spinUntil([&] { return answered; }, kTimeoutMs))
        return fail(ErrorCode::External, "the window answers no event");
    std::printf("%s\n", kPainted);
    std::fflush(stdout);
    return {};
}

bool isExposed(const QWidget& window) {
    return window.windowHandle() != nullptr && window.windowHandle()->isExposed();
}

Result<double> startMs(const QString& what) {
    QProcess process;
    process.setProcessChannelMode(QProcess::ForwardedErrorChannel);
    QElapsedTimer clock;
    clock.start();
    process.start(QCoreApplication::applicationFilePath(), {QStringLiteral("--bench"), what});
    while (!process.canReadLine() && process.state() != QProcess::NotRunning &&
           clock.elapsed() < kTimeoutMs)
        process.waitForReadyRead(kTimeoutMs);
    const double passed = milliseconds(clock);
    const bool painted = process.readLine().trimmed() == kPainted;
    process.waitForFinished(kTimeoutMs);
    if (painted) return passed;
    return fail(ErrorCode::External, "piper-workbench --bench {} painted nothing",
                what.toStdString());
}

}  // namespace

Status sayFirstPage(ui::MainWindow& window, const ui::Workbench& bench) {
    const bool shown =
        spinUntil([&] { return isExposed(window) && bench.plan.hasPlan(); }, kTimeoutMs);
    if (!shown) return fail(ErrorCode::External, "no page with a plan was shown");
    return sayPainted(window);
}

Status sayEmptyWindow() {
    QMainWindow window;
    window.resize(1600, 900);
    window.show();
    if (!spinUntil([&] { return isExposed(window); }, kTimeoutMs))
        return fail(ErrorCode::External, "no window was shown");
    return sayPainted(window);
}

Result<StartBench> benchStart(int pairs) {
    std::vector<double> own, empty, ratios;
    // The first pair warms the caches.
    for (int i = 0; i <= pairs; ++i) {
        PIPER_ASSIGN(const double workbench, startMs(QStringLiteral("first-page")));
        PIPER_ASSIGN(const double window, startMs(QStringLiteral("empty-window")));
        if (i == 0) continue;
        own.push_back(workbench);
        empty.push_back(window);
        ratios.push_back(workbench / window);
    }
    return StartBench{latencies(own), latencies(empty), median(ratios)};
}

std::string benchJson(const StartBench& bench) {
    const Json json = {{"format_version", 1},
                       {"bench", "start"},
                       {"workbench", latencyJson(bench.workbench, "starts")},
                       {"empty_window", latencyJson(bench.empty, "starts")},
                       {"ratio", bench.ratio}};
    return json.dump(2);
}

}  // namespace piper::app
