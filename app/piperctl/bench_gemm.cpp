// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "app/files/files.h"
#include "app/piperctl/bench.h"
#include "core/base/json.h"
#include "core/cost/device_rates.h"
#include "core/cost/published_rows.h"

namespace piper::app {
namespace {

struct Scored {
    std::string name;
    KernelScore score;
};

/// Rows of each group against what is predicted for them, and all of them together.
std::vector<Scored> scoreAll(const std::vector<PublishedGroup>& groups, std::size_t folds) {
    std::vector<Scored> out;
    for (const PublishedGroup& group : groups)
        out.push_back(
            {describe(group.key), folds == 0 ? scoreRows(group) : leaveOut(group, folds)});
    return out;
}

/// Nanoseconds of one look-up on a device: shapes not asked before, and repeated ones.
struct LookupTime {
    std::string device;
    double fresh = 0.0, repeated = 0.0;
};

LookupTime timeLookups(const DeviceSpec& device) {
    const MatrixRates rates = matrixRates(device, Precision::Bf16);
    std::int64_t asked = 0;
    const auto nanoseconds = [&](std::int64_t shapes) {
        constexpr std::int64_t kCalls = 100000;
        double sum = 0.0;
        const auto begin = std::chrono::steady_clock::now();
        for (std::int64_t i = 0; i < kCalls; ++i) {
            const std::int64_t s = shapes > 0 ? i % shapes : ++asked;
            const GemmWork work{1, 16 + s * 7919 % 16000, 512 + s * 104729 % 15000,
                                512 + s * 1299709 % 15000, 1};
            sum += gemmTime(rates, work, 4.0).seconds;
        }
        const auto end = std::chrono::steady_clock::now();
        PIPER_CHECK(std::isfinite(sum) && sum > 0.0);
        return std::chrono::duration<double, std::nano>(end - begin).count() / kCalls;
    };
    (void)nanoseconds(16);
    return {device.name, nanoseconds(0), nanoseconds(16)};
}

/// Looking a shape up twice must give one answer before it is timed.
Result<std::vector<LookupTime>> lookups() {
    std::vector<LookupTime> out;
    for (const char* name : {"H100 SXM", "A100 SXM 80GB", "B200 SXM"}) {
        PIPER_ASSIGN(const DeviceSpec device, findDevice(name));
        const MatrixRates rates = matrixRates(device, Precision::Bf16);
        const GemmWork work{1, 4096, 4096, 4096, 1};
        if (gemmTime(rates, work, 4.0).seconds != gemmTime(rates, work, 4.0).seconds)
            return fail(ErrorCode::External, "two answers for one shape on {}", name);
        out.push_back(timeLookups(device));
    }
    return out;
}

/// Median over all groups, each by its rows.
double overallMedian(const std::vector<Scored>& scored) {
    double sum = 0.0, rows = 0.0;
    for (const Scored& s : scored) {
        sum += s.score.median * static_cast<double>(s.score.rows);
        rows += static_cast<double>(s.score.rows);
    }
    return rows > 0.0 ? sum / rows : 0.0;
}

Json documentOf(const BenchOptions& options, const std::vector<Scored>& scored,
                const std::vector<PublishedRows::Skipped>& skipped,
                const std::vector<LookupTime>& times) {
    Json out = {{"format_version", 1},
                {"bench", "gemm"},
                {"published", options.published.empty() ? "compiled in" : options.published},
                {"leave_out", options.leave_out},
                {"mean_of_medians", overallMedian(scored)},
                {"groups", Json::array()},
                {"skipped", Json::array()},
                {"lookups", Json::array()}};
    for (const Scored& s : scored)
        out["groups"].push_back({{"name", s.name},
                                 {"rows", s.score.rows},
                                 {"median_abs_rel_err", s.score.median},
                                 {"p90_abs_rel_err", s.score.p90},
                                 {"worst_abs_rel_err", s.score.worst},
                                 {"bias", s.score.bias},
                                 {"within_range", s.score.inside},
                                 {"extrapolated", s.score.extrapolated}});
    for (const PublishedRows::Skipped& s : skipped)
        out["skipped"].push_back({{"row", s.line}, {"reason", s.reason}});
    for (const LookupTime& t : times)
        out["lookups"].push_back(
            {{"device", t.device}, {"new_shape_ns", t.fresh}, {"repeated_shape_ns", t.repeated}});
    return out;
}

void print(const BenchOptions& options, const std::vector<Scored>& scored, std::size_t skipped,
           const std::vector<LookupTime>& times) {
    if (options.leave_out > 0)
        fmt::print("One shape in {} left out, predicted from the others\n", options.leave_out);
    else
        fmt::print("Predicted from the tables compiled in\n");
    TextTable table({"rows of", "rows", "median", "p90", "worst", "bias", "in range"});
    const auto percent = [](double x) { return fmt::format("{:.1f} %", 100.0 * x); };
    for (const Scored& s : scored)
        table.add({s.name, fmt::format("{}", s.score.rows), percent(s.score.median),
                   percent(s.score.p90), percent(s.score.worst), percent(s.score.bias),
                   percent(s.score.inside)});
    fmt::print("{}mean of the medians, by rows: {}; rows skipped: {}\n", table.text(),
               percent(overallMedian(scored)), skipped);
    for (const LookupTime& t : times)
        fmt::print("{}: {:.0f} ns a new shape, {:.0f} ns a repeated one\n", t.device, t.fresh,
                   t.repeated);
}

}  // namespace

Outcome benchGemm(const BenchOptions& given, bool json) {
    BenchOptions options = given;
    if (options.leave_out < 0 || options.leave_out == 1 || options.leave_out > 1000)
        return fail(ErrorCode::InvalidInput,
                    "--leave-out {}: 0 (predict from the tables compiled in) or 2 to 1000 parts",
                    options.leave_out);
    PublishedRows rows;
    if (options.published.empty()) {
        // The compiled-in rows predicted from themselves say nothing.
        if (options.leave_out == 0) options.leave_out = 4;
        rows.groups = compiledRows();
    } else {
        PIPER_ASSIGN(const std::string text, readTextFile(options.published));
        PIPER_ASSIGN(rows, readPublishedRows(text, options.published));
    }
    const std::vector<Scored> scored =
        scoreAll(rows.groups, static_cast<std::size_t>(options.leave_out));
    PIPER_ASSIGN(const std::vector<LookupTime> times, lookups());
    if (json)
        printJson(documentOf(options, scored, rows.skipped, times));
    else
        print(options, scored, rows.skipped.size(), times);
    return 0;
}

}  // namespace piper::app
