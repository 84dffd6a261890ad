// SPDX-License-Identifier: Apache-2.0
#include "core/search/search.h"

#include <chrono>
#include <memory>
#include <optional>

#include "app/common/parallel.h"
#include "app/files/files.h"
#include "app/piperctl/command.h"
#include "app/piperctl/plan_options.h"
#include "core/base/json.h"
#include "core/search/enumerate.h"
#include "core/search/why_not.h"

namespace piper::app {
namespace {

struct SearchOptions {
    PlanOptions workload;
    std::string fixed;
    std::string objective = "mfu";
    std::int64_t max_world = 0;
    std::size_t top = 10;
    std::string output;
    std::string why_not;
    bool pareto = false;
    double margin = 0.0;
};

void printSearch(const SearchResult& result) {
    TextTable table({"#", "plan", "mfu", "step", "tokens/s/device", "memory", "verdict", "bubble"});
    std::size_t number = 0;
    for (const RankedPlan& ranked : result.plans) {
        const Prediction& p = ranked.prediction;
        table.add({std::to_string(++number), layoutText(ranked.plan),
                   fmt::format("{:.1f} %", 100 * p.mfu), humanSeconds(p.step),
                   fmt::format("{:.0f}", p.tokens_per_second_per_device),
                   humanBytes(p.memory.device_total), std::string(toText(p.memory.verdict)),
                   fmt::format("{:.1f} %", 100 * p.bubble_fraction)});
    }
    fmt::print("{}", table.text());
    fmt::print("{} plans decided one by one, {} of them fit, {:.3f} s\n", result.evaluated,
               result.feasible, result.seconds);
    for (const Rejection& r : result.rejections)
        fmt::print("lost: {} ({}): {}\n", r.layout, r.rule, r.message);
}

void printPareto(const SearchResult& result) {
    TextTable table({"devices", "step", "memory", "plan"});
    for (const ParetoPlan& p : result.pareto)
        table.add({std::to_string(p.plan.layout.world()), humanSeconds(p.step),
                   humanBytes(p.device_total), layoutText(p.plan)});
    fmt::print("no plan is better in step time, memory and devices at once:\n{}", table.text());
}

void printWhyNot(const WhyNot& answer) {
    fmt::print("why not {}: {}\n", answer.layout, answer.message);
    for (const WhyNotTerm& term : answer.terms)
        fmt::print("  {:+.4f} s  {}\n", term.seconds, term.name);
    for (const std::string& fix : answer.fixes) fmt::print("  try: {}\n", fix);
}

Result<SearchSpace> spaceFrom(const SearchOptions& options) {
    SearchSpace space;
    PIPER_ASSIGN(space.base, workloadFrom(options.workload));
    PIPER_ASSIGN(space.objective, parseEnum<Objective>(options.objective, "objective"));
    space.max_world = options.max_world;
    space.top = options.top;
    space.memory_margin = options.margin;
    if (!options.fixed.empty()) {
        PIPER_ASSIGN(space.fixed, applyFixed(space.base, options.fixed));
    }
    return space;
}

Result<SearchResult> search(const SearchSpace& space, const SearchOptions& options) {
    const auto begin = std::chrono::steady_clock::now();
    PIPER_ASSIGN(SearchResult result, searchPlans(space, threadedFor()));
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (options.pareto) {
        PIPER_ASSIGN(result.pareto, paretoPlans(space, threadedFor()));
    }
    return result;
}

Outcome runSearch(const SearchOptions& options, bool json) {
    PIPER_ASSIGN(const SearchSpace space, spaceFrom(options));
    std::optional<Plan> asked;
    if (!options.why_not.empty()) {
        PIPER_ASSIGN(asked, askedPlan(space, options.why_not));
    }
    PIPER_ASSIGN(const SearchResult result, search(space, options));
    std::optional<WhyNot> answer;
    if (asked) {
        const RankedPlan* best = result.plans.empty() ? nullptr : &result.plans.front();
        PIPER_ASSIGN(answer, whyNot(space, *asked, best));
    }
    if (json) {
        Json out = searchJson(result);
        if (answer) out["why_not"] = whyNotJson(*answer);
        printJson(out);
    } else {
        printSearch(result);
        if (options.pareto) printPareto(result);
        if (answer) printWhyNot(*answer);
    }
    if (result.plans.empty()) return 1;
    if (!options.output.empty())
        PIPER_TRY(
            writeTextFile(options.output, writePlan(result.plans.front().plan).dump(2) + "\n"));
    return 0;
}

}  // namespace

void addSearch(CommandSet& commands) {
    const auto options = std::make_shared<SearchOptions>();
    CLI::App& app =
        commands.add("search", "Feasible plans of a model on a cluster, best first",
                     [options, &commands] { return runSearch(*options, commands.json()); });
    addWorkloadOptions(app, options->workload);
    app.add_option("--fix", options->fixed,
                   "Dimensions decided already: \"tp=2 micro_batch_size=1\"");
    app.add_option("--objective", options->objective,
                   "mfu, tokens_per_second, cost_per_token or memory_headroom")
        ->capture_default_str();
    app.add_option("--max-world", options->max_world, "Devices to use at most");
    app.add_option("--top", options->top, "Plans to print")->capture_default_str();
    app.add_option("--memory-margin", options->margin, "Share of a device's memory to leave free")
        ->check(CLI::Range(0.0, 0.99));
    app.add_option("--why-not", options->why_not,
                   "A plan to hold against the best one: \"tp=8 pp=8 ep=8 recompute=full\"");
    app.add_flag("--pareto", options->pareto,
                 "The fastest plan under each of some memory limits and device counts");
    app.add_option("-o,--output", options->output, "Write the best plan to this file");
}

}  // namespace piper::app
