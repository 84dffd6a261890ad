// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/base/units.h"
#include "core/run/report.h"

namespace piper {
namespace {

using Format = std::string (*)(double);

std::string timeText(double s) {
    return humanSeconds(Seconds(s));
}
std::string flopsText(double f) {
    return humanFlops(Flops(f));
}
std::string bytesText(double b) {
    return humanBytes(Bytes(b));
}

std::string percent(const ComparisonRow& row) {
    if (row.a == 0.0) return row.b == 0.0 ? "0.0 %" : "only in B";
    if (row.b == 0.0) return "only in A";
    return fmt::format("{:+.1f} %", 100.0 * row.relative());
}

std::string line(const ComparisonRow& row, Format format) {
    return fmt::format("  {:<24}{:>14}{:>14}{:>14}\n", row.key, format(row.a), format(row.b),
                       percent(row));
}

void section(std::string& out, std::string_view title, const std::vector<ComparisonRow>& rows,
             Format format) {
    if (rows.empty()) return;
    out += fmt::format("{}\n", title);
    for (const ComparisonRow& row : rows) out += line(row, format);
}

ComparisonRow total(std::string key, const std::vector<ComparisonRow>& rows) {
    ComparisonRow out{std::move(key), 0.0, 0.0, 0, 0};
    for (const ComparisonRow& row : rows) {
        out.a += row.a;
        out.b += row.b;
    }
    return out;
}

double largest(const std::vector<std::int64_t>& values) {
    return values.empty() ? 0.0
                          : static_cast<double>(*std::max_element(values.begin(), values.end()));
}

/// "modelled" and "measured", or the names where both are of a kind.
std::string heading(const Run& own, const Run& other) {
    const std::string text = own.kind == other.kind ? own.name : std::string(toText(own.kind));
    return text.size() > 13 ? text.substr(0, 12) + "~" : text;
}

std::string attributionText(const Attribution& why) {
    if (why.difference() == 0.0) return {};
    const auto part = [](std::string_view name, double s) {
        return fmt::format("  {:<24}{:>14}\n", name,
                           fmt::format("{}{}", s < 0 ? "-" : "+", timeText(std::abs(s))));
    };
    return "where the difference of the mean step comes from (slowest rank)\n" +
           part("compute", why.compute_seconds) +
           part("exposed communication", why.exposed_communication_seconds) +
           part("idle", why.bubble_seconds) + part("rest", why.rest_seconds) +
           part("sum", why.difference());
}

}  // namespace

std::string comparisonTable(const Run& a, const Run& b, const Comparison& c) {
    std::string out =
        fmt::format("A: {} ({}, {} ranks, {} steps)\nB: {} ({}, {} ranks, {} steps)\n", a.name,
                    toText(a.kind), a.ranks.size(), c.statistics_a.steps, b.name, toText(b.kind),
                    b.ranks.size(), c.statistics_b.steps);
    out +=
        fmt::format("  {:<24}{:>14}{:>14}{:>14}\n", "", heading(a, b), heading(b, a), "difference");
    const auto ns = [](std::int64_t v) { return static_cast<double>(v) / 1e9; };
    out += line({"step (median)", ns(c.statistics_a.step_ns_median),
                 ns(c.statistics_b.step_ns_median), 0, 0},
                timeText);
    out += line({"step (mean)", c.attribution.step_a_seconds, c.attribution.step_b_seconds, 0, 0},
                timeText);
    section(out, "time per step, mean over ranks", c.phase_seconds, timeText);
    section(out, "FLOPs per step, all ranks", c.phase_flops, flopsText);
    if (c.phase_flops.size() > 1) out += line(total("sum", c.phase_flops), flopsText);
    section(out, "bytes sent per step, all ranks", c.phase_bytes, bytesText);
    if (c.phase_bytes.size() > 1) out += line(total("sum", c.phase_bytes), bytesText);
    section(out, "memory, largest over ranks", c.memory_bytes, bytesText);
    if (!c.memory_bytes.empty())
        out += line({"peak of the sum", largest(c.statistics_a.rank_peak_bytes),
                     largest(c.statistics_b.rank_peak_bytes), 0, 0},
                    bytesText);
    out += attributionText(c.attribution);
    for (const std::string& warning : c.warnings) out += fmt::format("warning: {}\n", warning);
    return out;
}

std::string statisticsTable(const Run& run, const RunStatistics& s) {
    std::string out = fmt::format("{} ({}, {}): {} ranks, {} events, {} whole steps\n", run.name,
                                  toText(run.kind), toText(run.outcome), run.ranks.size(),
                                  s.events_total, s.steps);
    if (!run.outcome_reason.empty()) out += fmt::format("  {}\n", run.outcome_reason);
    if (s.steps == 0) return out;
    const auto text = [](std::int64_t ns) { return timeText(static_cast<double>(ns) / 1e9); };
    out += fmt::format("  step: median {}, min {}, max {}\n", text(s.step_ns_median),
                       text(s.step_ns_min), text(s.step_ns_max));
    out += fmt::format("  {:<12}{:>10}{:>12}{:>12}{:>12}{:>14}{:>12}\n", "phase", "count", "sum",
                       "union", "exposed", "FLOPs", "bytes");
    for (std::size_t p = 0; p < kNumPhases; ++p) {
        const PhaseTotal& t = s.phases[p];
        if (t.count == 0) continue;
        out += fmt::format("  {:<12}{:>10}{:>12}{:>12}{:>12}{:>14}{:>12}\n",
                           toText(static_cast<Phase>(p)), t.count, text(t.sum_ns), text(t.union_ns),
                           text(t.exposed_ns), flopsText(t.flops), bytesText(t.bytes));
    }
    if (const double peak = largest(s.rank_peak_bytes); peak > 0)
        out += fmt::format("  memory: peak of a rank {}\n", bytesText(peak));
    return out;
}

}  // namespace piper
