// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "core/base/json.h"
#include "core/run/report.h"

namespace piper {
namespace {

double seconds(std::int64_t ns) {
    return static_cast<double>(ns) / 1e9;
}

Json phaseRows(const std::array<PhaseTotal, kNumPhases>& phases) {
    Json rows = Json::array();
    for (std::size_t p = 0; p < kNumPhases; ++p) {
        const PhaseTotal& t = phases[p];
        if (t.count == 0) continue;
        rows.push_back({{"phase", toText(static_cast<Phase>(p))},
                        {"count", t.count},
                        {"sum_ns", t.sum_ns},
                        {"union_ns", t.union_ns},
                        {"exposed_ns", t.exposed_ns},
                        {"flops", t.flops},
                        {"bytes", t.bytes}});
    }
    return rows;
}

Json terms(const std::array<std::int64_t, kNumMemoryTerms>& bytes) {
    Json out = Json::object();
    for (std::size_t t = 0; t < kNumMemoryTerms; ++t)
        if (bytes[t] != 0) out[std::string(toText(static_cast<MemoryTerm>(t)))] = bytes[t];
    return out;
}

Json rankRow(const RankTimeline& rank, const RunStatistics& s, std::size_t r) {
    Json row = {{"rank", rank.rank.value},
                {"stage", rank.stage.value},
                {"host", rank.host},
                {"offset_ns", rank.offset_ns},
                {"events", rank.numEvents()},
                {"busy_union_ns", s.rank_busy_ns[r]},
                {"phases", phaseRows(s.rank_phases[r])}};
    if (!rank.memory.empty())
        row["memory"] = {{"peak_bytes", s.rank_peak_bytes[r]},
                         {"at_peak_bytes", terms(s.rank_at_peak[r])},
                         {"peak_by_term_bytes", terms(s.rank_peak_by_term[r])}};
    row["counters"] = rank.counters;
    return row;
}

/// A ratio that has no finite value is null.
Json ratio(const ComparisonRow& row) {
    return row.a == 0.0 && row.b != 0.0 ? Json() : Json(row.relative());
}

/// "stage 3" and "rank 3" are numbers in a document.
Json keyOf(std::string_view name, const ComparisonRow& row) {
    const std::string prefix = std::string(name) + " ";
    if (!row.key.starts_with(prefix)) return row.key;
    return std::stoi(row.key.substr(prefix.size()));
}

Json plainRow(std::string_view name, const ComparisonRow& row, std::string_view unit) {
    return {{std::string(name), keyOf(name, row)},
            {fmt::format("a_{}", unit), row.a},
            {fmt::format("b_{}", unit), row.b},
            {fmt::format("difference_{}", unit), row.difference()},
            {"relative", ratio(row)}};
}

Json rowsOf(std::string_view name, const std::vector<ComparisonRow>& rows, std::string_view unit) {
    Json out = Json::array();
    for (const ComparisonRow& row : rows) out.push_back(plainRow(name, row, unit));
    return out;
}

const ComparisonRow* find(const std::vector<ComparisonRow>& rows, std::string_view key) {
    for (const ComparisonRow& row : rows)
        if (row.key == key) return &row;
    return nullptr;
}

double sumPerStep(const RunStatistics& s, std::string_view key) {
    const Result<Phase> phase = parseEnum<Phase>(key, "phase");
    if (!phase.ok() || s.steps == 0) return 0.0;
    return seconds(s.phases[static_cast<std::size_t>(*phase)].sum_ns) /
           static_cast<double>(s.steps);
}

Json comparedPhases(const Comparison& c) {
    Json out = Json::array();
    for (const ComparisonRow& row : c.phase_seconds) {
        Json entry = plainRow("phase", row, "seconds");
        for (const auto& [side, statistics, count] :
             {std::tuple{"a", &c.statistics_a, row.count_a},
              std::tuple{"b", &c.statistics_b, row.count_b}}) {
            const double sum = sumPerStep(*statistics, row.key);
            entry[fmt::format("{}_count", side)] = count;
            entry[fmt::format("{}_sum_seconds", side)] = sum;
            entry[fmt::format("{}_mean_seconds", side)] =
                count > 0 ? sum / static_cast<double>(count) : 0.0;
        }
        if (const ComparisonRow* flops = find(c.phase_flops, row.key)) {
            entry["a_flops"] = flops->a;
            entry["b_flops"] = flops->b;
        }
        if (const ComparisonRow* bytes = find(c.phase_bytes, row.key)) {
            entry["a_bytes"] = bytes->a;
            entry["b_bytes"] = bytes->b;
        }
        out.push_back(std::move(entry));
    }
    return out;
}

Json comparedRanks(const Comparison& c) {
    Json out = rowsOf("rank", c.ranks, "seconds");
    for (std::size_t i = 0; i < c.ranks.size(); ++i) {
        out[i]["a_events"] = c.ranks[i].count_a;
        out[i]["b_events"] = c.ranks[i].count_b;
        out[i]["a_peak_bytes"] = c.rank_peak_bytes[i].a;
        out[i]["b_peak_bytes"] = c.rank_peak_bytes[i].b;
    }
    return out;
}

Json side(const Run& run, const RunStatistics& s) {
    return {{"name", run.name},
            {"kind", toText(run.kind)},
            {"outcome", toText(run.outcome)},
            {"ranks", run.ranks.size()},
            {"steps", s.steps},
            {"step_seconds", seconds(s.step_ns_median)}};
}

}  // namespace

Json attributionJson(const Attribution& why) {
    return {{"step_a_seconds", why.step_a_seconds},
            {"step_b_seconds", why.step_b_seconds},
            {"difference_seconds", why.difference()},
            {"compute_seconds", why.compute_seconds},
            {"exposed_communication_seconds", why.exposed_communication_seconds},
            {"bubble_seconds", why.bubble_seconds},
            {"rest_seconds", why.rest_seconds}};
}

Json statisticsJson(const Run& run, const RunStatistics& s) {
    Json out = {{"name", run.name},
                {"kind", toText(run.kind)},
                {"outcome", toText(run.outcome)},
                {"outcome_reason", run.outcome_reason},
                {"started_at", run.started_at},
                {"events_total", s.events_total},
                {"ranks", run.ranks.size()},
                {"steps", s.steps},
                {"step_seconds", seconds(s.step_ns_median)},
                {"step_min_seconds", seconds(s.step_ns_min)},
                {"step_max_seconds", seconds(s.step_ns_max)},
                {"step_mean_seconds", s.breakdown.step_ns / 1e9},
                {"busy_union_ns",
                 std::accumulate(s.rank_busy_ns.begin(), s.rank_busy_ns.end(), std::int64_t{0})},
                {"idle_in_span_ns", s.phases[static_cast<std::size_t>(Phase::Idle)].union_ns},
                {"step_flops", s.flops_per_step},
                {"step_communication_bytes", s.bytes_per_step},
                {"phases", phaseRows(s.phases)}};
    Json ranks = Json::array();
    for (std::size_t r = 0; r < run.ranks.size(); ++r) ranks.push_back(rankRow(run.ranks[r], s, r));
    out["per_rank"] = std::move(ranks);
    out["notes"] = run.notes;
    return out;
}

Json comparisonJson(const Run& a, const Run& b, const Comparison& c) {
    return {{"format_version", 1},
            {"a", side(a, c.statistics_a)},
            {"b", side(b, c.statistics_b)},
            {"phases", comparedPhases(c)},
            {"memory", rowsOf("term", c.memory_bytes, "bytes")},
            {"stages", rowsOf("stage", c.stages, "seconds")},
            {"ranks", comparedRanks(c)},
            {"only_in_a", c.only_in_a},
            {"only_in_b", c.only_in_b},
            {"warnings", c.warnings},
            {"attribution", attributionJson(c.attribution)}};
}

}  // namespace piper
