// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app/files/files.h"
#include "app/piperctl/command.h"
#include "core/base/json.h"
#include "core/plan/check.h"

namespace piper::app {
namespace {

struct CheckOptions {
    std::string plan;
    std::string model;
    std::int64_t world = 0;
    std::int64_t gpus_per_node = 8;
    std::string layout;
    std::string framework = "plain";
    std::vector<std::string> settings;
};

void printCheck(const Json& document) {
    for (const Json& violation : document.at("violations")) {
        fmt::print("violated: {}\n  {}\n", violation.at("rule").get<std::string>(),
                   violation.at("message").get<std::string>());
        for (const Json& fix : violation.at("fix"))
            fmt::print("  fix: {}\n", fix.get<std::string>());
    }
    fmt::print("minimum world: {} ranks\n", document.at("minimum_world").get<std::int64_t>());
    fmt::print("effective: {}\n", document.at("effective").dump());
    fmt::print("grids: {}\n", document.at("grids").dump());
    fmt::print("{}\n", document.at("ok").get<bool>() ? "ok" : "not ok");
}

Outcome runCheck(const CheckOptions& options, bool json) {
    Json document;
    if (!options.plan.empty()) {
        PIPER_ASSIGN(const Plan plan, loadPlan(options.plan));
        document = checkJson(plan);
    } else {
        CheckRequest request;
        if (!options.model.empty()) {
            PIPER_ASSIGN(request.model, loadModel(options.model));
        }
        PIPER_ASSIGN(request.framework, parseEnum<Framework>(options.framework, "framework"));
        request.layout = options.layout;
        request.world = options.world;
        request.devices_per_node = options.gpus_per_node;
        request.settings = options.settings;
        PIPER_ASSIGN(document, checkJson(request));
    }
    if (json)
        printJson(document);
    else
        printCheck(document);
    return document.at("ok").get<bool>() ? 0 : 1;
}

}  // namespace

void addCheck(CommandSet& commands) {
    const auto options = std::make_shared<CheckOptions>();
    CLI::App& app =
        commands.add("check", "Every rule a layout breaks, with legal neighbours",
                     [options, &commands] { return runCheck(*options, commands.json()); });
    app.add_option("plan", options->plan, "Plan file, instead of --world and --layout");
    app.add_option("--model", options->model, "Hugging Face config.json or our own model file");
    app.add_option("--world", options->world, "Ranks");
    app.add_option("--gpus-per-node", options->gpus_per_node, "Devices of one node")
        ->capture_default_str();
    app.add_option("--layout", options->layout, "Degrees: \"tp=8 pp=8 ep=8 etp=1\"");
    app.add_option("--framework", options->framework, "plain, megatron, deepspeed or torchtitan")
        ->capture_default_str();
    app.add_option("--set", options->settings,
                   "KEY=VALUE: num_layers, num_experts, precision, ...");
}

}  // namespace piper::app
