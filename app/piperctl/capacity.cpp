// SPDX-License-Identifier: Apache-2.0
#include "core/search/capacity.h"

#include <memory>

#include "app/command_line/command_line.h"
#include "app/common/parallel.h"
#include "app/files/files.h"
#include "app/piperctl/command.h"
#include "app/piperctl/plan_options.h"
#include "core/base/json.h"
#include "core/search/enumerate.h"

namespace piper::app {
namespace {

struct CapacityOptions {
    PlanOptions workload;
    std::string fixed, family = "layers";
    std::int64_t max_devices = 0;
    double tokens = 0.0, availability = 1.0;
    double buy = 0.0;
};

/// Asked for when no model is given: a dense-attention MoE, a fine-grained and a very large one.
constexpr std::array kFamilies = {"configs/Mixtral-8x7B-v0.1.json", "configs/Qwen3-30B-A3B.json",
                                  "configs/DeepSeek-V3.json"};

Result<SearchSpace> spaceFrom(const CapacityOptions& options, const std::string& model) {
    PlanOptions workload = options.workload;
    workload.model = model;
    SearchSpace space;
    PIPER_ASSIGN(space.base, searchedWorkload(workload));
    space.objective = Objective::TokensPerSecond;
    if (!options.fixed.empty()) {
        PIPER_ASSIGN(space.fixed, applyFixed(space.base, options.fixed));
    }
    return space;
}

std::string planText(const RankedPlan& ranked) {
    const Prediction& p = ranked.prediction;
    return fmt::format(
        "{}: {} a step, mfu {:.1f} %, {:.0f} tokens/s, {} of {}", layoutText(ranked.plan),
        humanSeconds(p.step), 100 * p.mfu,
        p.tokens_per_second_per_device * static_cast<double>(ranked.plan.layout.world()),
        humanBytes(p.memory.device_total), humanBytes(p.memory.capacity));
}

void printShortfall(const char* title, const Shortfall& s) {
    fmt::print("{:<11}{} ({}): {}\n", title, s.layout.empty() ? "no layout" : s.layout, s.rule,
               s.message);
    for (const FitChange& change : s.changes)
        fmt::print("           would fit: {}, {}, {} a step on {} devices\n", change.change,
                   humanBytes(change.device_total), humanSeconds(change.step), change.devices);
}

void printLargest(const LargestModel& a) {
    const ModelParameters parameters = modelParameters(a.model);
    if (!a.best) {
        fmt::print("largest    none: not even {} {}\n", a.next_size, toText(a.by));
    } else {
        fmt::print("largest    {}: {} {}, {:.1f} B parameters, {:.1f} B active (1e9)\n",
                   a.model.name, a.size, toText(a.by), static_cast<double>(parameters.total) / 1e9,
                   static_cast<double>(parameters.active) / 1e9);
        fmt::print("           {}\n", planText(*a.best));
    }
    printShortfall("next size", a.stopped);
}

void printFewest(const FewestDevices& a) {
    if (!a.best) {
        fmt::print("fewest     no device count asked for fits\n");
        return printShortfall(fmt::format("on {}", a.stopped_devices).c_str(), a.stopped);
    }
    fmt::print("fewest     {} devices ({} nodes); weights and gradients alone fill {}\n", a.devices,
               a.nodes, a.least_possible);
    fmt::print("           {}\n", planText(*a.best));
    if (a.stopped_devices > 0)
        printShortfall(fmt::format("on {}", a.stopped_devices).c_str(), a.stopped);
}

void printBill(const TrainingBill& bill, double tokens) {
    fmt::print("bill       {:.3g} tokens: {:.0f} steps, {:.1f} days, {:.4g} device hours{}\n",
               tokens, bill.steps, bill.time.value / 86400.0, bill.device_hours,
               bill.price > 0.0 ? fmt::format(", price {:.4g}", bill.price) : "");
}

void printPurchases(const Purchases& a) {
    if (a.now.best)
        fmt::print("now        {}\n", planText(*a.now.best));
    else
        printShortfall("now", a.now.shortfall);
    for (const Purchase& part : a.parts)
        fmt::print("buy        {} x {:.3g}{}: {}{}\n", part.part, part.factor,
                   part.nodes > 0 ? fmt::format(" ({})", part.nodes) : "",
                   part.gain   ? fmt::format("{:+.1f} %, ", 100 * *part.gain)
                   : part.best ? "makes it fit, "
                               : "",
                   part.best ? planText(*part.best) : "does not fit");
}

/// What was asked of one model: a document, and whether anything fits.
struct Answer {
    Json json;
    bool fits = false;
};

Result<Answer> answerOne(const CapacityOptions& options, const std::string& model,
                         bool only_largest, bool json) {
    PIPER_ASSIGN(const SearchSpace space, spaceFrom(options, model));
    PIPER_ASSIGN(const GrowBy by, parseEnum<GrowBy>(options.family, "family"));
    const SearchRun run{threadedFor(), {}};
    Answer out;
    out.json["model"] = space.base.model.name;
    if (!json)
        fmt::print("{} on {} ({} devices), {} sequences of {} a step\n", space.base.model.name,
                   space.base.cluster.name, space.base.cluster.numDevices(),
                   space.base.global_batch_size, space.base.seq_len);
    PIPER_ASSIGN(const LargestModel largest, largestModel(space, by, run));
    out.json["largest"] = largestModelJson(largest);
    out.fits = largest.best.has_value();
    if (!json) printLargest(largest);
    if (only_largest) return out;
    PIPER_ASSIGN(const FewestDevices fewest, fewestDevices(space, options.max_devices, run));
    out.json["fewest"] = fewestDevicesJson(fewest);
    if (!json) printFewest(fewest);
    out.fits = fewest.best.has_value();
    BestPlan best;
    if (options.tokens > 0.0 || options.buy > 0.0) {
        PIPER_ASSIGN(best, bestPlan(space, run));
    }
    if (options.tokens > 0.0) {
        out.json["bill"] = Json();
        if (best.best) {
            const TrainingBill bill =
                trainingBill(*best.best, options.tokens, options.availability);
            out.json["bill"] = billJson(bill);
            out.json["bill"]["plan"] = planSummaryJson(*best.best);
            if (!json) printBill(bill, options.tokens);
        } else if (!json) {
            printShortfall("bill", best.shortfall);
        }
    }
    if (options.buy > 0.0) {
        PIPER_ASSIGN(const Purchases purchases, nextPurchases(space, best, options.buy, run));
        out.json["purchases"] = purchasesJson(purchases);
        if (!json) printPurchases(purchases);
    }
    return out;
}

Outcome runCapacity(const CapacityOptions& options, bool json) {
    std::vector<std::string> models{options.workload.model};
    const bool families = options.workload.model.empty();
    if (families) {
        models.clear();
        for (const char* name : kFamilies) {
            PIPER_ASSIGN(const std::filesystem::path file, bundledExample(name));
            models.push_back(file.string());
        }
    }
    Json document = {{"format_version", 1}, {"answers", Json::array()}};
    bool fits = false;
    for (const std::string& model : models) {
        PIPER_ASSIGN(Answer answer, answerOne(options, model, families, json));
        fits = fits || answer.fits;
        document["answers"].push_back(std::move(answer.json));
    }
    if (json) printJson(document);
    return fits ? 0 : 1;
}

}  // namespace

void addCapacity(CommandSet& commands) {
    const auto options = std::make_shared<CapacityOptions>();
    CLI::App& app = commands.add(
        "capacity", "What a cluster can train: largest model, fewest devices, days, what to buy",
        [options, &commands] { return runCapacity(*options, commands.json()); });
    addWorkloadOptions(app, options->workload);
    app.add_option("--family", options->family, "How the model grows: layers, experts or hidden")
        ->capture_default_str();
    app.add_option("--fix", options->fixed,
                   "Dimensions decided already: \"tp=2 zero_stage=1 offload=none\"");
    app.add_option("--max-devices", options->max_devices,
                   "Devices at most for the fewest; default: the cluster's")
        ->check(aboveZero());
    app.add_option("--tokens", options->tokens, "Token budget: days and cost of the best plan")
        ->check(aboveZero());
    app.add_option("--availability", options->availability,
                   "Share of the time in which steps are made")
        ->check(CLI::Range(0.01, 1.0))
        ->capture_default_str();
    app.add_option("--buy", options->buy,
                   "What the plan gains when memory, network, links or nodes are this many times "
                   "as large")
        ->check(CLI::Range(1.01, 64.0));
}

}  // namespace piper::app
