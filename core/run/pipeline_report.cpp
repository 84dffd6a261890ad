// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/json.h"
#include "core/base/units.h"
#include "core/run/pipeline_statistics.h"

namespace piper {
namespace {

double share(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

std::string timeText(std::int64_t ns) {
    return humanSeconds(seconds(static_cast<double>(ns) / 1e9));
}

RankWaits& operator+=(RankWaits& sum, const RankWaits& one) {
    sum.step_ns += one.step_ns;
    sum.compute_ns += one.compute_ns;
    for (std::size_t c = 0; c < kNumWaitCauses; ++c) sum.waits[c] += one.waits[c];
    for (std::size_t p = 0; p < kNumPhases; ++p) {
        sum.transfer_by_phase[p] += one.transfer_by_phase[p];
        sum.straggler_by_phase[p] += one.straggler_by_phase[p];
    }
    return sum;
}

Json phasesOf(const std::array<std::int64_t, kNumPhases>& ns) {
    Json out = Json::object();
    for (std::size_t p = 0; p < kNumPhases; ++p)
        if (ns[p] != 0) out[std::string(toText(static_cast<Phase>(p)))] = ns[p];
    return out;
}

/// The division of step time: every part with what it is a part of.
Json waitsJson(const RankWaits& w, std::int64_t ranks) {
    Json causes = Json::array();
    for (const EnumName<WaitCause>& cause : enumNames<WaitCause>()) {
        const std::int64_t ns = w.waits[static_cast<std::size_t>(cause.value)];
        Json row = {{"cause", cause.name}, {"ns", ns}, {"share", share(ns, w.step_ns)}};
        if (cause.value == WaitCause::Transfer) row["phases_ns"] = phasesOf(w.transfer_by_phase);
        if (cause.value == WaitCause::Straggler) row["phases_ns"] = phasesOf(w.straggler_by_phase);
        causes.push_back(std::move(row));
    }
    return {{"of_ns", w.step_ns},
            {"ranks", ranks},
            {"compute_ns", w.compute_ns},
            {"compute_share", share(w.compute_ns, w.step_ns)},
            {"causes", std::move(causes)}};
}

struct StageWaits {
    RankWaits waits;
    std::int64_t ranks = 0;
};

std::map<StageId, StageWaits> stagesOf(const Run& run, const PipelineStatistics& s) {
    std::map<StageId, StageWaits> out;
    for (std::size_t r = 0; r < s.ranks.size(); ++r) {
        if (s.ranks[r].step_ns == 0) continue;
        out[run.ranks[r].stage].waits += s.ranks[r];
        ++out[run.ranks[r].stage].ranks;
    }
    return out;
}

StageWaits wholeOf(const Run& run, const PipelineStatistics& s) {
    StageWaits whole;
    for (const auto& [stage, one] : stagesOf(run, s)) {
        whole.waits += one.waits;
        whole.ranks += one.ranks;
    }
    return whole;
}

Json layersJson(const PipelineStatistics& s, std::int64_t of_ns) {
    Json out = Json::array();
    for (const LayerTotal& t : s.layers)
        out.push_back({{"layer", t.layer.value},
                       {"phase", toText(t.phase)},
                       {"count", t.count},
                       {"sum_ns", t.sum_ns},
                       {"union_ns", t.union_ns},
                       {"exposed_ns", t.exposed_ns},
                       {"of_ns", of_ns},
                       {"ranks", t.ranks},
                       {"flops", t.flops},
                       {"bytes", t.bytes}});
    return out;
}

Json collectivesJson(const Run& run, const PipelineStatistics& s) {
    Json out = Json::array();
    for (const CollectiveTotal& t : s.collectives) {
        Json ranks = Json::array();
        for (std::size_t r = 0; r < t.last.size(); ++r)
            if (t.last[r] > 0 || t.caused_ns[r] > 0)
                ranks.push_back({{"rank", run.ranks[r].rank.value},
                                 {"last", t.last[r]},
                                 {"caused_wait_ns", t.caused_ns[r]}});
        out.push_back({{"phase", toText(t.phase)},
                       {"count", t.count},
                       {"members", t.members},
                       {"wait_ns", t.wait_ns},
                       {"of_ns", t.member_ns},
                       {"wait_share", share(t.wait_ns, t.member_ns)},
                       {"skew_mean_ns", t.count > 0 ? t.skew_sum_ns / t.count : 0},
                       {"skew_max_ns", t.skew_max_ns},
                       {"stragglers", std::move(ranks)}});
    }
    return out;
}

Json pathJson(const Run& run, const PipelineStatistics& s) {
    Json phases = Json::array(), ranks = Json::array();
    std::map<StageId, std::int64_t> stages;
    for (std::size_t p = 0; p < kNumPhases; ++p)
        if (const std::int64_t ns = s.path.phase_ns[p]; ns > 0)
            phases.push_back({{"phase", toText(static_cast<Phase>(p))},
                              {"ns", ns},
                              {"share", share(ns, s.path.ns)}});
    for (std::size_t r = 0; r < s.path.rank_ns.size(); ++r) {
        stages[run.ranks[r].stage] += s.path.rank_ns[r];
        ranks.push_back({{"rank", run.ranks[r].rank.value},
                         {"ns", s.path.rank_ns[r]},
                         {"share", share(s.path.rank_ns[r], s.path.ns)}});
    }
    Json by_stage = Json::array();
    for (const auto& [stage, ns] : stages)
        by_stage.push_back({{"stage", stage.value}, {"ns", ns}, {"share", share(ns, s.path.ns)}});
    return {{"of_ns", s.path.ns},
            {"steps", s.steps.size()},
            {"changes_of_rank", s.path.changes},
            {"phases", std::move(phases)},
            {"ranks", std::move(ranks)},
            {"stages", std::move(by_stage)}};
}

Json clockJson(const ClockFit& fit) {
    return {{"samples", fit.samples},
            {"offset_ns", fit.offset_ns},
            {"drift_ppm", fit.drift * 1e6},
            {"residual_rms_ns", fit.residual_rms_ns},
            {"residual_max_ns", fit.residual_max_ns},
            {"uncertainty_ns", fit.uncertainty_ns}};
}

void appendWaits(std::string& out, std::string_view title, const RankWaits& w) {
    out += fmt::format("  {:<12}{:>9.1f} %", title, 100.0 * share(w.compute_ns, w.step_ns));
    for (const std::int64_t ns : w.waits)
        out += fmt::format("{:>9.1f} %", 100.0 * share(ns, w.step_ns));
    out += "\n";
}

std::string waitsTable(const Run& run, const PipelineStatistics& s) {
    const StageWaits whole = wholeOf(run, s);
    std::string out =
        fmt::format("  where step time goes: {} of {} ranks in steps {} to {} ({} counted)\n",
                    timeText(whole.waits.step_ns), whole.ranks, s.steps.front(), s.steps.back(),
                    s.steps.size());
    out += fmt::format("  {:<12}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}\n", "", "compute",
                       "transfer", "straggler", "pp warmup", "pp steady", "pp cooldn", "host");
    appendWaits(out, "all", whole.waits);
    const auto stages = stagesOf(run, s);
    if (stages.size() > 1)
        for (const auto& [stage, one] : stages)
            appendWaits(out, fmt::format("stage {}", stage.value), one.waits);
    if (s.ranks.size() > 1 && s.ranks.size() <= 16)
        for (std::size_t r = 0; r < s.ranks.size(); ++r)
            if (s.ranks[r].step_ns > 0)
                appendWaits(out, fmt::format("rank {}", run.ranks[r].rank.value), s.ranks[r]);
    return out;
}

std::string collectivesTable(const Run& run, const PipelineStatistics& s) {
    std::string out;
    for (const CollectiveTotal& t : s.collectives) {
        const auto worst = std::max_element(t.caused_ns.begin(), t.caused_ns.end());
        const auto index = static_cast<std::size_t>(worst - t.caused_ns.begin());
        out += fmt::format(
            "  {}: {} collectives, members wait {} of {} ({:.1f} %) for the last; skew mean {}, "
            "max {}",
            toText(t.phase), t.count, timeText(t.wait_ns), timeText(t.member_ns),
            100.0 * share(t.wait_ns, t.member_ns), timeText(t.skew_sum_ns / t.count),
            timeText(t.skew_max_ns));
        if (*worst > 0)
            out += fmt::format("; most for rank {} ({}, last in {})", run.ranks[index].rank.value,
                               timeText(*worst), t.last[index]);
        out += "\n";
    }
    return out;
}

std::string pathTable(const PipelineStatistics& s) {
    if (s.path.ns == 0) return {};
    std::string out =
        fmt::format("  critical path, {} over {} steps, {} changes of rank:", timeText(s.path.ns),
                    s.steps.size(), s.path.changes);
    std::vector<std::size_t> order(kNumPhases);
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return s.path.phase_ns[a] > s.path.phase_ns[b];
    });
    for (const std::size_t p : order)
        if (s.path.phase_ns[p] > 0)
            out += fmt::format(" {} {:.1f} %", toText(static_cast<Phase>(p)),
                               100.0 * share(s.path.phase_ns[p], s.path.ns));
    return out + "\n";
}

}  // namespace

void addPipelineStatistics(const Run& run, const PipelineStatistics& s, Json& out) {
    const StageWaits whole = wholeOf(run, s);
    out["window"] = {{"first_step", s.steps.empty() ? Json() : Json(s.steps.front())},
                     {"last_step", s.steps.empty() ? Json() : Json(s.steps.back())},
                     {"steps", s.steps.size()},
                     {"ranks", whole.ranks},
                     {"step_ns", whole.waits.step_ns}};
    out["waits"] = waitsJson(whole.waits, whole.ranks);
    out["stages"] = Json::array();
    for (const auto& [stage, one] : stagesOf(run, s)) {
        Json row = {{"stage", stage.value}};
        row.update(waitsJson(one.waits, one.ranks));
        out["stages"].push_back(std::move(row));
    }
    out["layers"] = layersJson(s, whole.waits.step_ns);
    out["collectives"] = collectivesJson(run, s);
    out["messages"] = s.messages;
    out["unmatched_receives"] = s.unmatched_receives;
    out["critical_path"] = pathJson(run, s);
    for (std::size_t r = 0; r < s.ranks.size(); ++r) {
        Json& row = out["per_rank"][r];
        row["waits"] = waitsJson(s.ranks[r], 1);
        row["clock"] = clockJson(s.clocks[r]);
    }
}

std::string pipelineTable(const Run& run, const PipelineStatistics& s) {
    if (s.steps.empty() || wholeOf(run, s).waits.step_ns == 0) return {};
    return waitsTable(run, s) + collectivesTable(run, s) + pathTable(s);
}

}  // namespace piper
