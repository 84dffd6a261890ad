// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app/command_line/command_line.h"
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

void printFindings(const char* word, const Json& findings) {
    for (const Json& finding : findings) {
        fmt::print("{}: {}\n  {}\n", word, finding.at("rule").get<std::string>(),
                   finding.at("message").get<std::string>());
        for (const Json& fix : finding.at("fix")) fmt::print("  fix: {}\n", fix.get<std::string>());
    }
}

void printCheck(const Json& document) {
    printFindings("violated", document.at("violations"));
    printFindings("warning", document.at("warnings"));
    if (document.at("minimum_world").is_number())
        fmt::print("minimum world: {} ranks\n", document.at("minimum_world").get<std::int64_t>());
    for (const auto& [key, value] : document.at("effective").items())
        fmt::print("  {:<20}{:<10} {}\n", key, value.dump(),
                   document.at("origins").value(key, std::string()));
    fmt::print("grids: {}\n", document.at("grids").dump());
    fmt::print("{}\n", document.at("ok").get<bool>() ? "ok" : "not ok");
}

/// A plan file decides everything: what else was given would be passed over without a word.
Status onlyThePlan(const CheckOptions& options) {
    if (options.model.empty() && options.layout.empty() && options.world == 0 &&
        options.settings.empty())
        return {};
    Error error =
        fail(ErrorCode::InvalidInput,
             "{} already holds model, layout and settings; give the plan alone", options.plan);
    error.hint = "or leave the plan out and use --model, --world, --layout and --set";
    return error;
}

Outcome runCheck(const CheckOptions& options, bool json) {
    Json document;
    if (!options.plan.empty()) {
        PIPER_TRY(onlyThePlan(options));
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
    app.add_option("--framework", options->framework, "Whose rules hold")
        ->type_name(choices<Framework>())
        ->capture_default_str();
    app.add_option("--set", options->settings,
                   "KEY=VALUE: num_layers, num_experts, precision, ...");
}

}  // namespace piper::app
