// SPDX-License-Identifier: Apache-2.0
#include "core/search/sensitivity.h"

#include <memory>

#include "app/common/parallel.h"
#include "app/piperctl/command.h"
#include "app/piperctl/plan_options.h"
#include "core/base/json.h"
#include "core/search/enumerate.h"

namespace piper::app {
namespace {

struct SensitivityOptions {
    PlanOptions workload;
    SensitivityQuestion question;
    std::string knob = "link", fixed, objective = "mfu";
};

void printCurve(const SensitivityCurve& curve) {
    TextTable table(
        {"setting", "best plan", "step", "mfu", "held plan", "exchange in sight", "ep nodes"});
    for (const SensitivityPoint& p : curve.points) {
        const std::string held = p.held_step ? humanSeconds(*p.held_step) : "cannot run";
        if (!p.best) {
            table.add({p.setting, "none: " + p.shortfall.message, "-", "-", held, "-", "-"});
            continue;
        }
        table.add({p.setting, layoutText(p.best->plan), humanSeconds(p.best->prediction.step),
                   fmt::format("{:.1f} %", 100 * p.best->prediction.mfu), held,
                   fmt::format("{:.1f} %", 100 * p.exposed_share), std::to_string(p.nodes_of_ep)});
    }
    fmt::print("{}", table.text());
    const std::string turn = expertTurn(curve);
    if (!turn.empty()) fmt::print("turn       {}\n", turn);
}

Outcome runSensitivity(const SensitivityOptions& options, bool json) {
    SearchSpace space;
    PIPER_ASSIGN(space.base, searchedWorkload(options.workload));
    PIPER_ASSIGN(space.objective, parseEnum<Objective>(options.objective, "objective"));
    if (!options.fixed.empty()) {
        PIPER_ASSIGN(space.fixed, applyFixed(space.base, options.fixed));
    }
    SensitivityQuestion question = options.question;
    PIPER_ASSIGN(question.knob, parseEnum<SensitivityKnob>(options.knob, "knob"));
    if (question.values.empty())
        question.values = question.knob == SensitivityKnob::RoutingSkew
                              ? std::vector<double>{0.0, 0.25, 0.5, 0.75, 1.0}
                              : std::vector<double>{4.0, 2.0, 1.0, 0.5, 0.25, 0.125};
    PIPER_ASSIGN(const SensitivityCurve curve, sensitivity(space, question, {threadedFor(), {}}));
    if (json)
        printJson(sensitivityJson(curve));
    else
        printCurve(curve);
    const bool any = std::ranges::any_of(
        curve.points, [](const SensitivityPoint& p) { return p.best.has_value(); });
    return any ? 0 : 1;
}

}  // namespace

void addSensitivity(CommandSet& commands) {
    const auto options = std::make_shared<SensitivityOptions>();
    CLI::App& app = commands.add(
        "sensitivity", "The best plan as a link, the memory, the routing or the batch changes",
        [options, &commands] { return runSensitivity(*options, commands.json()); });
    addWorkloadOptions(app, options->workload);
    app.add_option("--knob", options->knob, "link, memory, routing_skew or global_batch")
        ->capture_default_str();
    app.add_option("--level", options->question.level,
                   "Link level by name; default: those that join nodes");
    app.add_option("--values", options->question.values,
                   "Factors of today's value (routing_skew: Zipf exponents), \"2,1,0.5\"")
        ->delimiter(',');
    app.add_option("--objective", options->objective,
                   "mfu, tokens_per_second, cost_per_token or memory_headroom")
        ->capture_default_str();
    app.add_option("--fix", options->fixed,
                   "Dimensions decided already: \"tp=2 zero_stage=1 offload=none\"");
}

}  // namespace piper::app
