// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app/piperctl/command.h"
#include "app/piperctl/plan_options.h"
#include "core/base/json.h"
#include "core/model/flop_conventions.h"
#include "core/predict/fit.h"
#include "core/predict/predict.h"

namespace piper::app {
namespace {

struct PredictOptions {
    PlanOptions plan;
    bool closed_form = false;
    std::string paper;  ///< "", "corrected" or "as_published"
};

std::string seconds(const Prediction& p, Seconds value) {
    return fmt::format(
        "{}", value.value == 0.0 ? "-" : humanSeconds(value) + "  " + percent(value / p.step));
}

void printMemory(const Prediction& p) {
    const MemoryPrediction& memory = p.memory;
    fmt::print("memory     peak {} on stage {} ({}), {} of {} with what lies outside: {}\n",
               humanBytes(memory.peak), memory.peak_stage.value, memory.peak_operation,
               humanBytes(memory.device_total), humanBytes(memory.capacity),
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

void printFixes(const Prediction& p, const std::vector<FitChange>& changes) {
    if (p.memory.verdict == FitVerdict::Fits) return;
    fmt::print("fix        {}\n", fitSentence(changes));
    for (const FitChange& change : changes)
        fmt::print("  {:<18}{}: {}, {} a step ({:+.0f} %)\n", toText(change.kind), change.change,
                   humanBytes(change.device_total), humanSeconds(change.step),
                   100.0 * (change.step / p.step - 1.0));
}

void printFlops(const Plan& plan) {
    TextTable table({"  FLOPs of a token", "GFLOP, training", "forward"});
    const FlopTable flops = flopTable(plan.model, plan.seq_len, flopConventions().front());
    for (const FlopTerm& t : flops.terms)
        table.add({"  " + std::string(t.name), fmt::format("{:.3f}", t.training().value / 1e9),
                   t.formula});
    table.add({"  sum", fmt::format("{:.3f}", flops.total().value / 1e9), ""});
    fmt::print("{}", table.text());
}

void printPrediction(const Plan& plan, const Prediction& p, const std::vector<FitChange>& changes) {
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
    printFixes(p, changes);
    printFlops(plan);
    if (p.price_per_step > 0.0)
        fmt::print("price      {:.4g} a step, {:.4g} per million tokens\n", p.price_per_step,
                   p.price_per_million_tokens);
    fmt::print("bottleneck {}\n", p.bottleneck_sentence);
    const auto evidence = p.evidence.find("step_seconds");
    if (evidence != p.evidence.end())
        fmt::print("evidence   step time: {}, {} to {}{}\n", toText(evidence->second.kind),
                   humanSeconds(Seconds(evidence->second.low)),
                   humanSeconds(Seconds(evidence->second.high)),
                   evidence->second.extrapolated ? ", extrapolated" : "");
    for (const std::string& warning : p.warnings) fmt::print("warning    {}\n", warning);
}

/// The closed forms of arXiv 2605.05049 for this plan, in one of the two readings.
Json paperJson(const Plan& plan, PaperReading reading) {
    const PaperMemoryInput in = paperInput(plan);
    Json stages = Json::array();
    for (int stage = 0; stage < static_cast<int>(plan.layout.pp); ++stage)
        stages.push_back(paperStageMemory(in, stage, reading).value);
    const BytesPerSecond nic = plan.cluster.levels.back().bandwidth;
    return {{"reading", toText(reading)},
            {"parameters", paperParameters(in)},
            {"unpartitioned_bytes", paperUnpartitionedMemory(in).value},
            {"expert_data_parallel_bytes", paperExpertDataParallelMemory(in, reading).value},
            {"stage_bytes", std::move(stages)},
            {"stage_skew_bytes", paperStageSkew(in, reading).value},
            {"all_to_all_bound_seconds", paperAllToAllBound(in, nic).value}};
}

Outcome runPaper(const Plan& plan, const std::string& reading_text, bool json) {
    PIPER_ASSIGN(const PaperReading reading, parseEnum<PaperReading>(reading_text, "reading"));
    const Json document = paperJson(plan, reading);
    if (json) {
        printJson(document);
        return 0;
    }
    fmt::print("arXiv 2605.05049, {} reading (docs/formulas.md)\n", reading_text);
    fmt::print("parameters             {:.2f} B (1e9)\n",
               document["parameters"].get<double>() / 1e9);
    const auto line = [&](const char* name, const char* key) {
        fmt::print("{:<23}{}\n", name, humanBytes(Bytes(document[key].get<double>())));
    };
    line("unpartitioned", "unpartitioned_bytes");
    line("expert-data parallel", "expert_data_parallel_bytes");
    for (std::size_t i = 0; i < document["stage_bytes"].size(); ++i)
        fmt::print("stage {:<17}{}\n", i,
                   humanBytes(Bytes(document["stage_bytes"][i].get<double>())));
    line("first minus last stage", "stage_skew_bytes");
    fmt::print("all-to-all bound       {} per layer, forward\n",
               humanSeconds(Seconds(document["all_to_all_bound_seconds"].get<double>())));
    return 0;
}

Outcome runPredict(const PredictOptions& options, bool json) {
    PIPER_ASSIGN(const Plan plan, planFrom(options.plan));
    if (!options.paper.empty()) return runPaper(plan, options.paper, json);
    PIPER_ASSIGN(
        const Prediction prediction,
        predict(plan, options.closed_form ? PredictMode::ClosedForm : PredictMode::Simulated));
    const std::vector<FitChange> changes = smallestChanges(plan);
    if (json)
        printJson(predictionJson(plan, prediction, changes));
    else
        printPrediction(plan, prediction, changes);
    return prediction.memory.verdict == FitVerdict::DoesNotFit ? 1 : 0;
}

}  // namespace

void addPredict(CommandSet& commands) {
    const auto options = std::make_shared<PredictOptions>();
    CLI::App& app =
        commands.add("predict", "Memory, FLOPs, traffic and time of a plan",
                     [options, &commands] { return runPredict(*options, commands.json()); });
    addPlanOptions(app, options->plan);
    app.add_option("--paper", options->paper,
                   "Only the closed forms of the Piper paper, corrected or as_published");
    app.add_flag("--closed-form", options->closed_form,
                 "Closed form instead of the simulated schedule");
}

}  // namespace piper::app
