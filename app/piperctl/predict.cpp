// SPDX-License-Identifier: Apache-2.0
#include "core/predict/predict.h"

#include <memory>

#include "app/piperctl/command.h"
#include "app/piperctl/plan_options.h"
#include "core/base/json.h"

namespace piper::app {
namespace {

struct PredictOptions {
    PlanOptions plan;
    bool closed_form = false;
};

std::string percent(double ratio) {
    return fmt::format("{:.1f} %", 100.0 * ratio);
}

std::string seconds(const Prediction& p, Seconds value) {
    return fmt::format(
        "{}", value.value == 0.0 ? "-" : humanSeconds(value) + "  " + percent(value / p.step));
}

void printMemory(const Prediction& p) {
    const MemoryPrediction& memory = p.memory;
    fmt::print("memory     peak {} of {} on stage {} ({}): {}\n", humanBytes(memory.peak),
               humanBytes(memory.capacity), memory.peak_stage.value, memory.peak_operation,
               toText(memory.verdict));
    TextTable table({"  term", "bytes at the peak", "lifetime"});
    for (const StageMemory& stage : memory.stages) {
        if (stage.stage != memory.peak_stage) continue;
        for (std::size_t t = 0; t < kNumMemoryTerms; ++t) {
            if (stage.at_peak[t].value <= 0.0) continue;
            const auto term = static_cast<MemoryTerm>(t);
            table.add({"  " + std::string(toText(term)), humanBytes(stage.at_peak[t]),
                       isPersistent(term) ? "persistent" : "micro-batch"});
        }
    }
    fmt::print("{}", table.text());
}

void printPrediction(const Plan& plan, const Prediction& p) {
    const Layout& l = plan.layout;
    fmt::print(
        "plan       {} on {} x {}: tp {} cp {} pp {} ep {} dp {} edp {}, {} of {} micro-batches\n",
        plan.model.name, l.world(), plan.cluster.device.name, l.tp, l.cp, l.pp, l.ep, l.dp, l.edp(),
        toText(plan.schedule), plan.numMicroBatches());
    fmt::print("step       {}  ({:.0f} tokens/s per device)\n", humanSeconds(p.step),
               p.tokens_per_second_per_device);
    fmt::print("mfu        {}  = {} / {} peak;  hfu {}\n", percent(p.mfu),
               humanFlopsPerSecond(p.flops_per_device), humanFlopsPerSecond(p.peak_per_device),
               percent(p.hfu));
    fmt::print("bubble     {}\n", percent(p.bubble_fraction));
    TextTable table({"  phase", "time, share of step", "exposed"});
    for (std::size_t i = 0; i < kNumPhases; ++i) {
        if (p.phase[i].value <= 0.0) continue;
        table.add({"  " + std::string(toText(static_cast<Phase>(i))), seconds(p, p.phase[i]),
                   seconds(p, p.exposed[i])});
    }
    fmt::print("{}", table.text());
    printMemory(p);
    fmt::print("bottleneck {}\n", p.bottleneck_sentence);
    const auto evidence = p.evidence.find("step_seconds");
    if (evidence != p.evidence.end())
        fmt::print("evidence   step time: {}, {} to {}{}\n", toText(evidence->second.kind),
                   humanSeconds(Seconds(evidence->second.low)),
                   humanSeconds(Seconds(evidence->second.high)),
                   evidence->second.extrapolated ? ", extrapolated" : "");
}

Outcome runPredict(const PredictOptions& options, bool json) {
    PIPER_ASSIGN(const Plan plan, planFrom(options.plan));
    PIPER_ASSIGN(
        const Prediction prediction,
        predict(plan, options.closed_form ? PredictMode::ClosedForm : PredictMode::Simulated));
    if (json)
        printJson(predictionJson(plan, prediction));
    else
        printPrediction(plan, prediction);
    return prediction.memory.verdict == FitVerdict::DoesNotFit ? 1 : 0;
}

}  // namespace

void addPredict(CommandSet& commands) {
    const auto options = std::make_shared<PredictOptions>();
    CLI::App& app =
        commands.add("predict", "Memory, FLOPs, traffic and time of a plan",
                     [options, &commands] { return runPredict(*options, commands.json()); });
    addPlanOptions(app, options->plan);
    app.add_flag("--closed-form", options->closed_form,
                 "Closed form instead of the simulated schedule");
}

}  // namespace piper::app
