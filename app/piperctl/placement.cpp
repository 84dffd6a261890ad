// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app/files/files.h"
#include "app/piperctl/command.h"
#include "app/piperctl/plan_options.h"
#include "core/base/json.h"
#include "core/plan/routing_load.h"
#include "core/search/expert_placement.h"

namespace piper::app {
namespace {

struct PlacementCommand {
    PlanOptions plan;
    std::string histogram;
    std::optional<double> zipf;
    PlacementOptions options;
    bool per_layer = false;
    std::string output;
};

/// One row of tokens by expert, one row a layer, or a plan file's routing_load.
Result<RoutingLoad> readHistogram(const std::string& file) {
    PIPER_ASSIGN(const std::string text, readTextFile(file));
    PIPER_ASSIGN(Json json, parseJson(text, file));
    if (json.is_object() && json.contains("routing_load")) json = json["routing_load"];
    if (json.is_array() && !json.empty() && json[0].is_number()) json = Json::array({json});
    if (json.is_array()) json = Json{{"histogram", json}};
    if (json.is_object() && json.contains("histogram") && !json.contains("kind"))
        json["kind"] = toText(RoutingLoadKind::Histogram);
    PIPER_ASSIGN(RoutingLoad load, readRoutingLoad(json, file));
    if (load.kind == RoutingLoadKind::Histogram && !load.histogram.empty()) return load;
    Error error = fail(ErrorCode::InvalidInput, "{} holds no histogram", file);
    error.hint = "write [tokens of expert 0, 1, ...], or one such list a layer";
    return error;
}

Result<Plan> placementPlan(const PlacementCommand& command) {
    PIPER_ASSIGN(Plan plan, planFrom(command.plan));
    if (!command.histogram.empty()) {
        PIPER_ASSIGN(plan.routing_load, readHistogram(command.histogram));
    } else if (command.zipf) {
        plan.routing_load = {};
        plan.routing_load.kind = RoutingLoadKind::Zipf;
        plan.routing_load.zipf_exponent = *command.zipf;
    }
    return plan;
}

void printPlacement(const Plan& plan, const ExpertPlacement& p) {
    fmt::print("experts    {} in {} MoE layers over ep {}; {} swaps, {} expert copies move\n",
               plan.model.moe->num_experts, p.moe_layers.size(), plan.layout.ep, p.swaps,
               p.migration.transfers);
    fmt::print("imbalance  {:.3f} -> {:.3f}  (hottest rank over the mean, mean over layers)\n",
               p.imbalance_before, p.imbalance_after);
    fmt::print("step       {} -> {}  (mfu {:.1f} % -> {:.1f} %)\n", humanSeconds(p.before.step),
               humanSeconds(p.after.step + p.replicas.sync.time), 100 * p.before.mfu,
               100 * p.after.mfu);
    fmt::print("migration  {} an expert (weights and optimizer state), busiest rank {}, {}, {}\n",
               humanBytes(p.migration.expert), humanBytes(p.migration.busiest),
               humanSeconds(p.migration.time.time), toText(p.migration.time.evidence.kind));
    if (p.replicas.memory.value > 0.0)
        fmt::print("replicas   {} more on a rank, {} of gradients a step in {}\n",
                   humanBytes(p.replicas.memory), humanBytes(p.replicas.sync_payload),
                   humanSeconds(p.replicas.sync.time));
    fmt::print("memory     {} of {}{}\n",
               humanBytes(p.after.memory.device_total + p.replicas.memory),
               humanBytes(p.after.memory.capacity), p.fits ? "" : ": does not fit");
    if (p.migration.transfers == 0)
        fmt::print("answer     nothing to move{}\n",
                   plan.capacity_factor ? ": a capacity factor pads every expert alike" : "");
    else if (const std::optional<double> steps = p.stepsToPay())
        fmt::print("answer     pays after {:.0f} steps\n", *steps);
    else
        fmt::print("answer     never pays: a step gains nothing\n");
    if (!p.launchable)
        fmt::print(
            "note       a plan file holds one placement for all layers without replicas: "
            "this one is for a runtime that moves experts itself\n");
}

Outcome runPlacement(const PlacementCommand& command, bool json) {
    PIPER_ASSIGN(const Plan plan, placementPlan(command));
    PlacementOptions options = command.options;
    options.scope = command.per_layer ? PlacementScope::Layer : PlacementScope::Plan;
    PIPER_ASSIGN(const ExpertPlacement placement, balanceExperts(plan, options));
    if (!command.output.empty() && !placement.launchable)
        return fail(ErrorCode::Unsupported,
                    "{}: a plan file holds one placement for all layers without replicas",
                    command.output);
    if (json)
        printJson(placementJson(placement));
    else
        printPlacement(plan, placement);
    if (!command.output.empty())
        PIPER_TRY(writeTextFile(command.output, writePlan(placement.plan).dump(2) + "\n"));
    return placement.fits ? 0 : 1;
}

}  // namespace

void addPlacement(CommandSet& commands) {
    const auto command = std::make_shared<PlacementCommand>();
    CLI::App& app = commands.add(
        "placement", "Experts swapped and replicated so that ranks are loaded evenly, and the cost",
        [command, &commands] { return runPlacement(*command, commands.json()); });
    addPlanOptions(app, command->plan);
    CLI::Option* histogram =
        app.add_option("--histogram", command->histogram,
                       "JSON file: tokens by expert, one list or one a layer; default: the plan's");
    app.add_option("--zipf", command->zipf, "Loads that fall with this exponent instead")
        ->excludes(histogram);
    app.add_option("--replicas", command->options.replicas, "Further copies of hot experts a layer")
        ->capture_default_str();
    app.add_flag("--per-layer", command->per_layer, "Each layer a placement of its own");
    app.add_option("--max-swaps", command->options.max_swaps, "Swaps of a placement at most")
        ->capture_default_str();
    app.add_option("-o,--output", command->output,
                   "Write the plan with its placement to this file");
}

}  // namespace piper::app
