// SPDX-License-Identifier: Apache-2.0
#include "core/search/sensitivity.h"

#include <algorithm>
#include <cmath>

#include "core/base/json.h"
#include "core/plan/placement.h"
#include "core/search/cluster_change.h"
#include "core/search/enumerate.h"

namespace piper {

template <>
std::span<const EnumName<SensitivityKnob>> enumNames<SensitivityKnob>() {
    static constexpr EnumName<SensitivityKnob> kNames[] = {
        {SensitivityKnob::Link, "link"},
        {SensitivityKnob::Memory, "memory"},
        {SensitivityKnob::RoutingSkew, "routing_skew"},
        {SensitivityKnob::GlobalBatch, "global_batch"},
    };
    return kNames;
}

namespace {

Status checkValues(const SensitivityQuestion& question) {
    if (question.values.empty())
        return fail(ErrorCode::InvalidInput, "{}: no values to try", toText(question.knob));
    const bool exponent = question.knob == SensitivityKnob::RoutingSkew;
    for (const double value : question.values)
        if (!std::isfinite(value) || value < 0.0 || (value == 0.0 && !exponent))
            return fail(ErrorCode::InvalidInput, "{} {}: must be {}", toText(question.knob), value,
                        exponent ? "0 or more" : "above 0");
    return {};
}

/// The plan under one value, and what that value is in words.
struct Setting {
    Plan base;
    std::string text;
};

Error noNetwork(const ClusterSpec& cluster) {
    Error error = fail(ErrorCode::InvalidInput, "{} has no link that joins nodes", cluster.name);
    std::string names;
    for (const LinkLevel& level : cluster.levels) names += (names.empty() ? "" : ", ") + level.name;
    error.hint = names.empty() ? "give the cluster link levels"
                               : fmt::format("name the level to vary (--level): {}", names);
    return error;
}

Result<Setting> linkSetting(Setting out, const std::string& level, double factor) {
    ClusterSpec& cluster = out.base.cluster;
    if (level.empty()) {
        if (!joinsNodes(cluster)) return noNetwork(cluster);
        cluster = withLinks(std::move(cluster), true, factor);
        const LinkLevel& outer = cluster.levels.back();  // joins nodes if any level does
        out.text = fmt::format("{} {}", outer.name, humanBytesPerSecond(outer.bandwidth));
        return out;
    }
    PIPER_ASSIGN(cluster, withLink(std::move(cluster), level, factor));
    out.text = fmt::format(
        "{} {}", level,
        humanBytesPerSecond(std::ranges::find(cluster.levels, level, &LinkLevel::name)->bandwidth));
    return out;
}

Result<Setting> settingOf(const Plan& base, const SensitivityQuestion& question, double value) {
    Setting out{base, ""};
    switch (question.knob) {
        case SensitivityKnob::Link:
            return linkSetting(std::move(out), question.level, value);
        case SensitivityKnob::Memory:
            out.base.cluster = withMemory(std::move(out.base.cluster), value);
            out.text = fmt::format("memory {}", humanBytes(out.base.cluster.device.memory));
            return out;
        case SensitivityKnob::RoutingSkew:
            out.base.routing_load = {};
            if (value > 0.0) {
                out.base.routing_load.kind = RoutingLoadKind::Zipf;
                out.base.routing_load.zipf_exponent = value;
            }
            out.text = fmt::format("zipf exponent {:g}", value);
            return out;
        case SensitivityKnob::GlobalBatch:
            break;
    }
    out.base.global_batch_size = std::llround(static_cast<double>(base.global_batch_size) * value);
    out.text = fmt::format("global batch {}", out.base.global_batch_size);
    if (out.base.global_batch_size < 1)
        return fail(ErrorCode::InvalidInput, "a batch of {} sequences times {:g} has none",
                    base.global_batch_size, value);
    return out;
}

/// The layout and options of one plan under another setting's cluster, load and batch.
std::optional<Seconds> stepUnder(const Plan& held, const Plan& setting) {
    Plan plan = held;
    plan.cluster = setting.cluster;
    plan.routing_load = setting.routing_load;
    plan.global_batch_size = setting.global_batch_size;
    const Result<Prediction> prediction =
        predict(plan, PredictMode::Simulated, PredictDetail::StepOnly);
    if (!prediction.ok() || prediction->memory.verdict == FitVerdict::DoesNotFit)
        return std::nullopt;
    return prediction->step;
}

double exchangeShare(const Prediction& p) {
    return (p.exposed[static_cast<std::size_t>(Phase::Dispatch)] +
            p.exposed[static_cast<std::size_t>(Phase::Combine)]) /
           p.step;
}

std::int64_t nodesOfExperts(const Plan& plan) {
    return spreadOver(plan.cluster, groupAxes(plan.layout, plan.rank_order, "ep")).nodes;
}

/// The point whose value changes the base least.
std::size_t baseIndex(const SensitivityCurve& curve) {
    const double none = curve.question.knob == SensitivityKnob::RoutingSkew ? 0.0 : 1.0;
    const auto distance = [none](const SensitivityPoint& p) { return std::abs(p.value - none); };
    return static_cast<std::size_t>(std::ranges::min_element(curve.points, {}, distance) -
                                    curve.points.begin());
}

}  // namespace

std::vector<std::size_t> SensitivityCurve::turns() const {
    std::vector<std::size_t> out;
    const auto name = [this](std::size_t i) {
        return points[i].best ? layoutText(points[i].best->plan) : std::string();
    };
    for (std::size_t i = 1; i < points.size(); ++i)
        if (name(i) != name(i - 1)) out.push_back(i);
    return out;
}

Result<SensitivityCurve> sensitivity(const SearchSpace& space, const SensitivityQuestion& question,
                                     const SearchRun& run) {
    PIPER_TRY(checkValues(question));
    SensitivityCurve curve{question, {}};
    std::vector<Plan> settings;
    for (const double value : question.values) {
        PIPER_ASSIGN(Setting setting, settingOf(space.base, question, value));
        SensitivityPoint point;
        point.value = value;
        point.setting = std::move(setting.text);
        SearchSpace there = space;
        there.base = std::move(setting.base);
        PIPER_ASSIGN(BestPlan best, bestPlan(there, run));
        point.best = std::move(best.best);
        point.shortfall = std::move(best.shortfall);
        if (point.best) {
            point.exposed_share = exchangeShare(point.best->prediction);
            point.nodes_of_ep = nodesOfExperts(point.best->plan);
        }
        settings.push_back(std::move(there.base));
        curve.points.push_back(std::move(point));
        if (run.progress) run.progress(curve.points.size(), question.values.size());
    }
    const std::size_t base = baseIndex(curve);
    if (curve.points[base].best) {
        const Plan held = curve.points[base].best->plan;
        for (std::size_t i = 0; i < curve.points.size(); ++i)
            curve.points[i].held_step = stepUnder(held, settings[i]);
    }
    return curve;
}

std::string expertTurn(const SensitivityCurve& curve) {
    for (std::size_t i = 1; i < curve.points.size(); ++i) {
        const SensitivityPoint &before = curve.points[i - 1], &after = curve.points[i];
        if (!before.best || !after.best || after.nodes_of_ep >= before.nodes_of_ep) continue;
        const Layout &b = before.best->plan.layout, &a = after.best->plan.layout;
        return fmt::format(
            "at {} ep {} over {} nodes gives way to ep {} over {} with edp {} (was {}): the "
            "exchange stood {:.0f} % of the step in sight before, {:.0f} % after",
            after.setting, b.ep, before.nodes_of_ep, a.ep, after.nodes_of_ep, a.edp(), b.edp(),
            100 * before.exposed_share, 100 * after.exposed_share);
    }
    return {};
}

Json sensitivityJson(const SensitivityCurve& curve) {
    Json out = {{"format_version", 1}, {"knob", toText(curve.question.knob)}};
    if (!curve.question.level.empty()) out["level"] = curve.question.level;
    out["points"] = Json::array();
    for (const SensitivityPoint& p : curve.points) {
        Json point = {{"value", p.value},
                      {"setting", p.setting},
                      {"plan", p.best ? planSummaryJson(*p.best) : Json()},
                      {"held_plan_step_seconds", p.held_step ? Json(p.held_step->value) : Json()},
                      {"exposed_exchange_share", p.exposed_share},
                      {"nodes_of_an_ep_group", p.nodes_of_ep}};
        if (!p.best) point["stopped_by"] = shortfallJson(p.shortfall);
        out["points"].push_back(std::move(point));
    }
    out["turns"] = curve.turns();
    const std::string turn = expertTurn(curve);
    out["expert_parallel_turn"] = turn.empty() ? Json() : Json(turn);
    return out;
}

}  // namespace piper
