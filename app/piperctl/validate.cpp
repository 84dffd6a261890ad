// SPDX-License-Identifier: Apache-2.0
#include "core/validate/validate.h"

#include <map>
#include <memory>

#include "app/common/parallel.h"
#include "app/files/files.h"
#include "app/piperctl/command.h"
#include "core/base/json.h"
#include "core/validate/frontier.h"

namespace piper::app {
namespace {

struct ValidateOptions {
    std::string runs, models, model_alias, gpus, gpu_alias;
    bool every_row = false, profiles = false, frontier = false;
};

/// A picked row within this of a table's best counts as right.
constexpr double kNearBest = 0.03;

std::string errorText(double ratio) {
    return fmt::format("{:+.1f} %", 100.0 * ratio);
}

void addSummary(TextTable& table, const std::string& name, const ErrorSummary& s) {
    if (s.n == 0) {
        table.add({name, "0", "-", "-", "-"});
        return;
    }
    table.add({name, fmt::format("{}", s.n), percent(s.median), percent(s.p90), errorText(s.bias)});
}

void printSummaries(const Validation& v) {
    TextTable table({"all rows", "n", "median |error|", "p90", "bias"});
    addSummary(table, "step time, A100 H100 H200 H800", v.time);
    addSummary(table, "  of these fitted on", v.time_fit);
    addSummary(table, "  of these held out", v.time_held_out);
    addSummary(table, "step time, B200 B300 GB200 GB300", v.time_blackwell);
    addSummary(table, "memory, peak allocated", v.memory);
    addSummary(table, "memory, other kinds", v.memory_other);
    addSummary(table, "FLOPs per token", v.flops);
    fmt::print("{}", table.text());
}

void printSources(const Validation& v) {
    std::map<std::string, std::vector<double>> times;
    for (const ValidatedRow& row : v.rows)
        if (row.run.step)
            times[fmt::format("{}, {}", row.run.profile->name, row.run.plan.cluster.device.name)]
                .push_back(row.timeError());
    TextTable table({"step time by source and device", "n", "median |error|", "p90", "bias"});
    for (const auto& [name, errors] : times) addSummary(table, name, summarize(errors));
    fmt::print("\n{}", table.text());
}

void printTables(const Validation& v) {
    if (v.tables.empty()) return;
    TextTable table({"order of layouts", "n", "Kendall tau", "best in first 3", "pick over best"});
    std::ptrdiff_t near = 0;
    for (const OrderTable& t : v.tables) {
        table.add(
            {fmt::format("{}, {}, {} x {}", profileOf(t.source).name, t.model, t.world, t.gpu),
             fmt::format("{}", t.n), fmt::format("{:.2f}", t.kendall_tau),
             t.best_in_top3 ? "yes" : "no", fmt::format("{:+.1f} %", 100.0 * t.pick_loss)});
        near += t.pick_loss <= kNearBest ? 1 : 0;
    }
    fmt::print("\n{}", table.text());
    fmt::print(
        "the row predicted fastest is measured within {:.0f} % of the best in {} of {} tables\n",
        100.0 * kNearBest, near, v.tables.size());
}

void printSkipped(const Validation& v) {
    std::map<std::string, std::int64_t> reasons;
    for (const SkippedRow& row : v.skipped)
        ++reasons[fmt::format("{}: {}", profileOf(row.source).name, row.reason)];
    if (!reasons.empty()) fmt::print("\nskipped rows\n");
    for (const auto& [reason, count] : reasons) fmt::print("  {:4}  {}\n", count, reason);
}

std::string rowText(const ValidatedRow& row) {
    const Layout& l = row.run.plan.layout;
    return fmt::format("line {}: {}, {} x {}, tp {} cp {} pp {} vpp {} ep {}, {}", row.run.line,
                       row.run.model, l.world(), row.run.gpu, l.tp, l.cp, l.pp, l.vpp, l.ep,
                       toText(row.run.plan.precision));
}

void printRows(const Validation& v) {
    TextTable table({"row", "measured", "predicted", "time", "memory", "FLOPs"});
    for (const ValidatedRow& row : v.rows)
        table.add({rowText(row), row.run.step ? humanSeconds(*row.run.step) : "-",
                   humanSeconds(row.prediction.step),
                   row.run.step ? errorText(row.timeError()) : "-",
                   row.run.memory ? errorText(row.memoryError()) : "-",
                   row.run.flops_per_token ? errorText(row.flopsError()) : "-"});
    fmt::print("{}\n", table.text());
}

std::string overlapText(const Overlap& o) {
    std::string out;
    const auto add = [&](bool on, std::string_view name) {
        if (on) out += (out.empty() ? "" : " ") + std::string(name);
    };
    add(o.tp, "tp");
    add(o.cp, "cp");
    add(o.ep, "ep");
    add(o.pp, "pp");
    add(o.dp_grad_reduce, "grad");
    add(o.dp_param_gather, "param");
    return out.empty() ? "none" : out;
}

/// What a blank cell means, by source.
void printProfiles() {
    TextTable table(
        {"source", "framework", "FLOPs counted", "overlap", "zero", "recompute", "reason"});
    for (const SourceProfile& p : sourceProfiles())
        table.add({std::string(p.name), std::string(toText(p.framework)), std::string(p.flops),
                   overlapText(p.overlap), fmt::format("{}", p.zero_stage),
                   std::string(p.recompute), std::string(p.why)});
    fmt::print("{}", table.text());
}

Result<std::string> optionalFile(const std::string& path) {
    if (path.empty()) return std::string();
    return readTextFile(path);
}

/// Published rows of one machine without batch and layout, at the plan found best for each.
Outcome runFrontier(bool json) {
    PIPER_ASSIGN(const FrontierComparison c, compareFrontier());
    if (json) {
        printJson(frontierJson(c));
        return 0;
    }
    TextTable table({"Frontier, plan found best", "devices", "pp x ep", "mbs", "batch",
                     "TFLOP/s measured", "predicted", "MFU", "error"});
    for (const FrontierRow& row : c.rows) {
        const Plan& p = row.plan;
        table.add({fmt::format("{}, {}", row.name, row.source), fmt::format("{}", p.layout.world()),
                   fmt::format("{} x {}", p.layout.pp, p.layout.ep),
                   fmt::format("{}", p.micro_batch_size), fmt::format("{}", p.global_batch_size),
                   fmt::format("{:.1f}", row.measured_tflops),
                   fmt::format("{:.1f}", inTflops(row.prediction.flops_per_device)),
                   percent(row.prediction.mfu), errorText(row.error())});
    }
    fmt::print(
        "{}\nPiper over X-MoE: Small {:.2f} (measured {:.2f}), Large {:.2f} (measured "
        "{:.2f})\n",
        table.text(), c.small_ratio, kSmallRatio, c.large_ratio, kLargeRatio);
    return 0;
}

Outcome runValidate(const ValidateOptions& options, bool json) {
    if (options.frontier) return runFrontier(json);
    if (options.profiles && options.runs.empty()) {
        printProfiles();
        return 0;
    }
    if (options.runs.empty()) return fail(ErrorCode::InvalidInput, "no table of runs given");
    PIPER_ASSIGN(const std::string runs, readTextFile(options.runs));
    ReferenceTexts texts;
    PIPER_ASSIGN(texts.models, optionalFile(options.models));
    PIPER_ASSIGN(texts.model_alias, optionalFile(options.model_alias));
    PIPER_ASSIGN(texts.gpus, optionalFile(options.gpus));
    PIPER_ASSIGN(texts.gpu_alias, optionalFile(options.gpu_alias));
    Result<Validation> result = validateRuns(runs, texts, threadedFor());
    if (!result.ok()) return std::move(result).error().at(options.runs);
    const Validation& v = *result;
    if (json) {
        printJson(validationJson(v));
        return 0;
    }
    fmt::print("{} of {} rows with dims, batch and degrees predicted, {} skipped in all\n\n",
               v.rows.size(), v.in_scope, v.skipped.size());
    if (options.every_row) printRows(v);
    if (options.profiles) printProfiles();
    printSummaries(v);
    printSources(v);
    printTables(v);
    printSkipped(v);
    return 0;
}

}  // namespace

void addValidate(CommandSet& commands) {
    const auto options = std::make_shared<ValidateOptions>();
    CLI::App& app =
        commands.add("validate", "Predict published runs and compare with what was measured",
                     [options, &commands] { return runValidate(*options, commands.json()); });
    app.add_option("runs", options->runs, "Table of runs (docs/formats.md)");
    app.add_option("--models", options->models, "Table of models instead of the bundled one");
    app.add_option("--model-alias", options->model_alias, "Names of models in the runs");
    app.add_option("--gpus", options->gpus, "Table of devices instead of the bundled one");
    app.add_option("--gpu-alias", options->gpu_alias, "Names of devices in the runs");
    app.add_flag("--rows", options->every_row, "Print every row");
    app.add_flag("--frontier", options->frontier,
                 "Frontier's published rows, at the plan found best for each, instead of a table");
    app.add_flag("--profiles", options->profiles, "Print what blank cells mean, by source");
}

}  // namespace piper::app
