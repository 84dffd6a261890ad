// SPDX-License-Identifier: Apache-2.0
#include "core/validate/validate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/base/sample.h"
#include "core/cost/kernel_model.h"

namespace piper {
namespace {

const std::vector<std::string_view> kRequiredColumns = {
    "source", "model", "gpu", "n_gpus", "seq", "gbs", "mbs", "tp", "pp", "precision"};

/// One row in three is held out, by what the row says of the run.
bool isHeldOut(const MeasuredRun& run) {
    const Plan& p = run.plan;
    const Layout& l = p.layout;
    return textHash(fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", run.source, run.model,
                                run.gpu, l.world(), l.tp, l.pp, l.vpp, l.ep, l.cp, p.seq_len,
                                p.global_batch_size, p.micro_batch_size,
                                static_cast<int>(p.precision))) %
               3 ==
           0;
}

/// What became of one row: exactly one of the two is set.
struct RowOutcome {
    std::optional<ValidatedRow> row;
    std::optional<SkippedRow> skipped;
    bool in_scope = false;
};

SkippedRow skip(const CsvTable& table, std::size_t row, const Error& error) {
    const bool gap =
        error.code == ErrorCode::Unsupported || error.message.starts_with("not given: ");
    return {table.line(row), std::string(table.at(row, "source")),
            std::string(table.at(row, "model")), error.text(), !gap};
}

RowOutcome validateRow(const CsvTable& table, std::size_t at, const ReferenceTables& tables) {
    RowOutcome out;
    Result<MeasuredRun> run = readMeasuredRun(table, at, tables);
    if (!run.ok()) {
        out.skipped = skip(table, at, run.error());
        return out;
    }
    out.in_scope = true;
    ValidatedRow row;
    row.run = std::move(run).value();
    // It ran: a rule that our check holds against it is reported, and does not stop the answer.
    for (const Violation& violation : validatePlan(row.run.plan)) {
        row.rules_kept = false;
        row.broken_rules += (row.broken_rules.empty() ? "" : "; ") + violation.rule;
    }
    Result<Prediction> prediction = predictUnchecked(row.run.plan);
    if (!prediction.ok()) {
        out.skipped = skip(table, at, prediction.error());
        if (!row.rules_kept) out.skipped->reason += " [rules broken: " + row.broken_rules + "]";
        return out;
    }
    row.prediction = std::move(prediction).value();
    row.flops_per_token = countedFlopsPerToken(row.run);
    row.held_out = isHeldOut(row.run);
    out.row = std::move(row);
    return out;
}

void addSummaries(Validation& out) {
    std::vector<double> time, blackwell, memory, other, flops, fit, held_out;
    for (const ValidatedRow& row : out.rows) {
        const MeasuredRun& run = row.run;
        const DeviceGeneration g = deviceGeneration(run.plan.cluster.device.name);
        if (run.step && run.full_layout && g == DeviceGeneration::Blackwell)
            blackwell.push_back(row.timeError());
        if (run.step && run.full_layout &&
            (g == DeviceGeneration::Ampere || g == DeviceGeneration::Hopper)) {
            time.push_back(row.timeError());
            (row.held_out ? held_out : fit).push_back(row.timeError());
        }
        if (run.memory) {
            const bool allocated =
                run.memory_kind == MeasuredMemory::PeakAllocated && run.memory_unit_known;
            (allocated ? memory : other).push_back(row.memoryError());
        }
        if (run.flops_per_token) flops.push_back(row.flopsError());
    }
    out.time = summarize(std::move(time));
    out.time_blackwell = summarize(std::move(blackwell));
    out.memory = summarize(std::move(memory));
    out.memory_other = summarize(std::move(other));
    out.flops = summarize(std::move(flops));
    out.time_fit = summarize(std::move(fit));
    out.time_held_out = summarize(std::move(held_out));
}

bool layoutVaries(const std::vector<const ValidatedRow*>& rows) {
    const auto layoutOf = [](const ValidatedRow* row) {
        const Layout& l = row->run.plan.layout;
        return std::tuple(l.tp, l.cp, l.pp, l.vpp, l.ep, l.etp, row->run.plan.micro_batch_size,
                          row->run.plan.schedule, row->run.plan.zero_stage);
    };
    return std::ranges::any_of(
        rows, [&](const ValidatedRow* row) { return layoutOf(row) != layoutOf(rows.front()); });
}

OrderTable orderOf(const std::vector<const ValidatedRow*>& rows) {
    const MeasuredRun& run = rows.front()->run;
    OrderTable out{run.source, run.model, run.gpu, run.plan.layout.world()};
    out.n = static_cast<std::int64_t>(rows.size());
    std::vector<double> measured, predicted;
    for (const ValidatedRow* row : rows) {
        measured.push_back(row->run.step->value);
        predicted.push_back(row->prediction.step.value);
    }
    out.kendall_tau = kendallTau(measured, predicted);
    const auto best =
        static_cast<std::size_t>(std::ranges::min_element(measured) - measured.begin());
    const auto faster =
        std::ranges::count_if(predicted, [&](double time) { return time < predicted[best]; });
    out.best_in_top3 = faster < 3;
    const double fastest = *std::ranges::min_element(predicted);
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (predicted[i] <= fastest)
            out.pick_loss = std::max(out.pick_loss, measured[i] / measured[best] - 1.0);
    return out;
}

void addTables(Validation& out) {
    std::map<std::string, std::vector<const ValidatedRow*>> groups;
    for (const ValidatedRow& row : out.rows) {
        if (!row.run.step) continue;
        const Plan& p = row.run.plan;
        groups[fmt::format("{}|{}|{}|{}|{}|{}|{}", row.run.source, row.run.model, row.run.gpu,
                           p.layout.world(), p.seq_len, p.global_batch_size,
                           static_cast<int>(p.precision))]
            .push_back(&row);
    }
    for (const auto& [key, rows] : groups)
        if (rows.size() >= 3 && layoutVaries(rows)) out.tables.push_back(orderOf(rows));
}

}  // namespace

ErrorSummary summarize(std::vector<double> errors) {
    ErrorSummary out;
    out.n = static_cast<std::int64_t>(errors.size());
    if (errors.empty()) return out;
    out.bias = quantile(errors, 0.5);
    for (double& error : errors) error = std::abs(error);
    out.median = quantile(errors, 0.5);
    out.p90 = quantile(errors, 0.9);
    return out;
}

double kendallTau(const std::vector<double>& a, const std::vector<double>& b) {
    double agree = 0.0, untied_a = 0.0, untied_b = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
            const double x = a[i] - a[j], y = b[i] - b[j];
            untied_a += x != 0.0;
            untied_b += y != 0.0;
            if (x * y != 0.0) agree += x * y > 0.0 ? 1.0 : -1.0;
        }
    return untied_a * untied_b > 0.0 ? agree / std::sqrt(untied_a * untied_b) : 0.0;
}

Result<Validation> validateRuns(std::string_view runs_csv, const ReferenceTexts& texts,
                                const ForEach& for_each) {
    PIPER_ASSIGN(const ReferenceTables tables, ReferenceTables::read(texts));
    PIPER_ASSIGN(const CsvTable table, CsvTable::parse(runs_csv, "runs"));
    PIPER_TRY(table.require(kRequiredColumns));
    if (table.size() == 0) return fail(ErrorCode::InvalidInput, "the table has no rows").at("runs");
    std::vector<RowOutcome> outcomes(table.size());
    const auto one = [&](std::size_t i) { outcomes[i] = validateRow(table, i, tables); };
    if (for_each)
        for_each(outcomes.size(), one);
    else
        for (std::size_t i = 0; i < outcomes.size(); ++i) one(i);
    Validation out;
    for (RowOutcome& outcome : outcomes) {
        out.in_scope += outcome.in_scope;
        if (outcome.row) out.rows.push_back(std::move(*outcome.row));
        if (outcome.skipped) out.skipped.push_back(std::move(*outcome.skipped));
    }
    if (out.rows.empty()) {
        const SkippedRow& first = out.skipped.front();
        return fail(ErrorCode::InvalidInput, "none of the {} rows is usable; line {}: {}",
                    table.size(), first.line, first.reason)
            .at("runs");
    }
    addSummaries(out);
    addTables(out);
    return out;
}

}  // namespace piper
