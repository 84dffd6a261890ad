// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/timeline_bench.h"

#include <sys/resource.h>

#include <array>

#include "ui/timeline/timeline_canvas.h"
#include "ui/views/timeline_page.h"

namespace piper::app {
namespace {

using Command = ui::TimelineCommand;

constexpr int kOpenTimeoutMs = 60'000;
constexpr int kFrameTimeoutMs = 10'000;
constexpr int kRounds = 12;
/// From the whole run into it, along it, and out again.
constexpr std::array kPath = {
    Command::ZoomIn, Command::ZoomIn,  Command::ZoomIn,  Command::Later,   Command::Later,
    Command::ZoomIn, Command::Earlier, Command::ZoomIn,  Command::ZoomIn,  Command::Later,
    Command::ZoomIn, Command::ZoomOut, Command::Earlier, Command::ZoomOut, Command::ZoomOut,
    Command::Later,  Command::ZoomOut, Command::ZoomIn,  Command::ZoomIn,  Command::Later};

double peakMib() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

}  // namespace

Result<TimelineBench> benchTimeline(ui::MainWindow& window, ui::Workbench& workbench,
                                    const std::function<void()>& open) {
    auto* page = qobject_cast<ui::TimelinePage*>(window.page(ui::PageId::Timeline));
    ui::TimelineCanvas& canvas = *page->canvas();
    int read_at = -1;  // frames painted when the last picture came
    const QObject listening;
    QObject::connect(&canvas.model(), &ui::TimelineViewModel::pictureChanged, &listening,
                     [&] { read_at = canvas.framesPainted(); });
    const auto quiet = [&] {
        return workbench.executor.idle() && canvas.blocksDrawn() > 0 &&
               canvas.framesPainted() > read_at;
    };
    QElapsedTimer clock;
    clock.start();
    open();
    if (!spinUntil([&] { return !workbench.pair.second().empty() && quiet(); }, kOpenTimeoutMs))
        return fail(ErrorCode::External, "no run was shown in {} s: {}", kOpenTimeoutMs / 1000,
                    workbench.pair.status().toStdString());
    TimelineBench out;
    out.open_ms = milliseconds(clock);
    out.events = workbench.pair.second().numEvents();
    std::vector<double> frames, pictures, build;
    for (int round = 0; round < kRounds; ++round)
        for (const Command command : kPath) {
            const int painted = canvas.framesPainted();
            clock.restart();
            canvas.perform(command);
            if (!spinUntil([&] { return canvas.framesPainted() > painted; }, kFrameTimeoutMs))
                return fail(ErrorCode::External, "a frame was not painted in {} ms",
                            kFrameTimeoutMs);
            frames.push_back(milliseconds(clock));
            build.push_back(canvas.lastBuildMs());
            if (!spinUntil(quiet, kFrameTimeoutMs))
                return fail(ErrorCode::External, "a picture was not read in {} ms",
                            kFrameTimeoutMs);
            pictures.push_back(milliseconds(clock));
        }
    out.frames = latencies(std::move(frames));
    out.pictures = latencies(std::move(pictures));
    out.build = latencies(std::move(build));
    out.peak_mib = peakMib();
    out.width = window.width();
    out.height = window.height();
    return out;
}

std::string benchJson(const TimelineBench& bench) {
    const Json json = {{"format_version", 1},
                       {"bench", "timeline"},
                       {"width", bench.width},
                       {"height", bench.height},
                       {"events", bench.events},
                       {"open_ms", bench.open_ms},
                       {"frame", latencyJson(bench.frames, "frames")},
                       {"picture", latencyJson(bench.pictures, "frames")},
                       {"build", latencyJson(bench.build, "frames")},
                       {"peak_resident_mib", bench.peak_mib}};
    return json.dump(2);
}

}  // namespace piper::app
