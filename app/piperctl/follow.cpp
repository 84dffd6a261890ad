// SPDX-License-Identifier: Apache-2.0
#include "app/piperctl/follow.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "core/base/cast.h"
#include "core/base/json.h"

namespace piper::app {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void onInterrupt(int) {
    g_interrupted = 1;
}

void printProgress(const JobStatus& status) {
    std::string line =
        fmt::format("{}: step {}/{}  loss {:.4f}  {:.0f} tokens/s", toText(status.state),
                    status.step, status.steps, status.loss, status.tokens_per_second);
    if (!status.rank_peak_bytes.empty())
        line += fmt::format("  {:.0f} MiB",
                            asDouble(std::ranges::max(status.rank_peak_bytes)) / 0x1p20);
    if (!status.load.empty()) line += "  " + describe(status.load);
    printMessage(line);
}

}  // namespace

Result<JobStatus> follow(PlanRun& run) {
    std::signal(SIGINT, onInterrupt);
    std::int32_t last_step = -1;
    std::string queued;
    for (;;) {
        PIPER_ASSIGN(const JobStatus status, run.status());
        if (status.step != last_step && status.step > 0) {
            printProgress(status);
            last_step = status.step;
        }
        if (status.state == JobState::Queued && status.message != queued) {
            queued = status.message;
            printMessage("queued: " + queued);
        }
        if (isFinal(status.state)) return status;
        if (g_interrupted != 0) {
            printMessage("stopping every rank ...");
            PIPER_TRY(run.cancel());
            return run.status();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

int statusOf(const JobStatus& status) {
    if (status.state == JobState::Finished) return 0;
    return status.state == JobState::Cancelled ? 130 : 3;
}

Outcome collectInto(PlanRun& run, const JobStatus& status, const std::string& output,
                    const std::string& name, bool json, const CollectedPart& part) {
    const CollectOptions options{transferProgress("fetching"), {}, part.ranks};
    const Result<StoredRun> stored =
        part.digest ? run.collectDigest(output, name, options) : run.collect(output, name, options);
    if (!stored.ok()) {
        // A job that ended before its ranks recorded anything: why it did is what matters.
        if (stored.error().code != ErrorCode::NotFound || status.state == JobState::Finished ||
            !isFinal(status.state))
            return stored.error();
        printMessage(fmt::format("piperctl: {}: {}", toText(status.state), status.message));
        printMessage("piperctl: nothing to collect: " + stored.error().text());
        return statusOf(status);
    }
    const StoredRun& collected = *stored;
    if (json) {
        printJson({{"workspace", output},
                   {"measured", collected.measured},
                   {"predicted", collected.predicted},
                   {"predicted_routed", collected.predicted_routed},
                   {"outcome", toText(collected.outcome)},
                   {"reason", collected.reason},
                   {"steps", status.step},
                   {"loss", status.loss},
                   {"ranks_without_events", collected.digests},
                   {"job", run.directory()}});
    } else {
        fmt::print(
            "{}: run '{}' in {}{}\n", toText(collected.outcome), collected.measured, output,
            collected.predicted.empty() ? "" : ", its prediction as '" + collected.predicted + "'");
        if (collected.digests > 0)
            fmt::print(
                "most events of {} ranks are not there yet: fetch it again, with --rank N for "
                "one\n",
                collected.digests);
    }
    if (status.state != JobState::Finished)
        printMessage(fmt::format("piperctl: {}: {}", toText(status.state),
                                 collected.reason.empty() ? status.message : collected.reason));
    return statusOf(status);
}

TransferProgress transferProgress(std::string what) {
    if (::isatty(STDERR_FILENO) == 0) return {};
    return everyPercent([what = std::move(what)](std::int64_t percent) {
        std::fprintf(stderr, "\r%s %lld %%%s", what.c_str(), static_cast<long long>(percent),
                     percent == 100 ? "\n" : "");
    });
}

}  // namespace piper::app
