// SPDX-License-Identifier: Apache-2.0
#include "core/search/why_not.h"

#include <algorithm>

#include "core/base/json.h"
#include "core/predict/fit.h"
#include "core/search/enumerate.h"

namespace piper {

template <>
std::span<const EnumName<WhyNotVerdict>> enumNames<WhyNotVerdict>() {
    static constexpr EnumName<WhyNotVerdict> kNames[] = {
        {WhyNotVerdict::Rule, "rule"},
        {WhyNotVerdict::Memory, "memory"},
        {WhyNotVerdict::Slower, "slower"},
        {WhyNotVerdict::Best, "best"},
    };
    return kNames;
}

namespace {

/// Where the difference of two steps lies. Means over stages: compute and exposed communication
/// are what a stage does, the rest of its step it waits.
std::vector<WhyNotTerm> termsOf(const Prediction& asked, const Prediction& best) {
    std::vector<WhyNotTerm> terms;
    double rest = asked.step.value - best.step.value;
    const auto add = [&](std::string name, double seconds) {
        terms.push_back({std::move(name), seconds});
        rest -= seconds;
    };
    add("compute", asked.compute.value - best.compute.value);
    for (std::size_t p = 0; p < kNumPhases; ++p)
        add(fmt::format("{} exposed", toText(static_cast<Phase>(p))),
            asked.exposed[p].value - best.exposed[p].value);
    add("waiting for the pipeline",
        asked.step.value * asked.bubble_fraction - best.step.value * best.bubble_fraction);
    terms.push_back({"overlap and the end of the step", rest});
    std::erase_if(terms, [](const WhyNotTerm& t) { return t.seconds == 0.0; });
    std::ranges::sort(terms, std::ranges::greater(), &WhyNotTerm::seconds);
    return terms;
}

WhyNot brokenRules(WhyNot out, const std::vector<Violation>& violations) {
    out.verdict = WhyNotVerdict::Rule;
    for (const Violation& v : violations) {
        out.message += fmt::format("{}{}: {}", out.message.empty() ? "" : "; ", v.rule, v.message);
        out.fixes.insert(out.fixes.end(), v.fix.begin(), v.fix.end());
    }
    return out;
}

WhyNot tooLarge(WhyNot out, const Plan& asked, const MemoryPrediction& memory, Bytes limit) {
    out.verdict = WhyNotVerdict::Memory;
    out.message =
        fmt::format("stage {} needs {} at its peak ({}), {} more than the {} of a device",
                    memory.peak_stage.value, humanBytes(memory.device_total), memory.peak_operation,
                    humanBytes(memory.device_total - limit), humanBytes(limit));
    for (const FitChange& change : smallestChanges(asked)) out.fixes.push_back(change.change);
    return out;
}

}  // namespace

Result<Plan> askedPlan(const SearchSpace& space, std::string_view text) {
    Plan plan = space.base;
    plan.layout = {};
    plan.schedule = ScheduleKind::OneF1B;
    PIPER_ASSIGN(const std::vector<std::string> given, applyFixed(plan, text));
    const auto has = [&given](std::string_view key) {
        return std::ranges::find(given, key) != given.end();
    };
    const std::int64_t devices = space.base.cluster.numDevices();
    const std::int64_t world = space.max_world > 0 ? std::min(space.max_world, devices) : devices;
    Layout& l = plan.layout;
    if (!has("sp")) l.sp = l.tp > 1;
    if (!has("dp")) l.dp = std::max<std::int64_t>(1, world / (l.tp * l.cp * l.pp));
    if (!has("stage_layers"))
        plan.stage_layers = balancedStages(plan.model.num_layers, l.pp * l.vpp);
    return plan;
}

Result<WhyNot> whyNot(const SearchSpace& space, const Plan& asked, const RankedPlan* best) {
    WhyNot out;
    out.layout = layoutText(asked);
    const std::vector<Violation> violations = validatePlan(asked);
    if (!violations.empty()) return brokenRules(std::move(out), violations);
    PIPER_ASSIGN(const Prediction p,
                 predictUnchecked(asked, PredictMode::Simulated, PredictDetail::StepOnly));
    const Bytes limit = space.base.cluster.device.memory * (1.0 - space.memory_margin);
    if (p.memory.device_total > limit) return tooLarge(std::move(out), asked, p.memory, limit);
    if (best == nullptr || p.step <= best->prediction.step) {
        out.message =
            fmt::format("a step takes {}: no plan of the search is faster", humanSeconds(p.step));
        return out;
    }
    out.verdict = WhyNotVerdict::Slower;
    out.terms = termsOf(p, best->prediction);
    const WhyNotTerm& most = out.terms.front();
    out.message =
        fmt::format("a step takes {}, {} more than the best plan's {} ({}); {} of that is {}",
                    humanSeconds(p.step), humanSeconds(p.step - best->prediction.step),
                    humanSeconds(best->prediction.step), layoutText(best->plan),
                    humanSeconds(Seconds(most.seconds)), most.name);
    return out;
}

Json whyNotJson(const WhyNot& answer) {
    Json out;
    out["layout"] = answer.layout;
    out["verdict"] = toText(answer.verdict);
    out["message"] = answer.message;
    out["fix"] = answer.fixes;
    out["terms"] = Json::array();
    for (const WhyNotTerm& term : answer.terms)
        out["terms"].push_back({{"name", term.name}, {"seconds", term.seconds}});
    return out;
}

}  // namespace piper
