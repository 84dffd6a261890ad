// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/base/json.h"
#include "core/validate/validate.h"

namespace piper {
namespace {

Json number(double value) {
    return std::isfinite(value) ? Json(value) : Json(nullptr);
}

template <class T>
Json optional(const std::optional<T>& value) {
    return value ? number(value->value) : Json(nullptr);
}

Json summaryJson(const ErrorSummary& s) {
    const bool any = s.n > 0;
    return {{"n", s.n},
            {"median_abs_rel_err", any ? number(s.median) : Json(nullptr)},
            {"p90_abs_rel_err", any ? number(s.p90) : Json(nullptr)},
            {"bias", any ? number(s.bias) : Json(nullptr)}};
}

Json secondsByPhase(const std::array<Seconds, kNumPhases>& phases) {
    Json out = Json::object();
    for (std::size_t p = 0; p < kNumPhases; ++p)
        if (phases[p].value > 0.0)
            out[std::string(toText(static_cast<Phase>(p)))] = number(phases[p].value);
    return out;
}

Json layoutJson(const Plan& plan) {
    const Layout& l = plan.layout;
    return {{"world", l.world()}, {"tp", l.tp}, {"sp", l.sp},   {"cp", l.cp}, {"pp", l.pp},
            {"vpp", l.vpp},       {"ep", l.ep}, {"etp", l.etp}, {"dp", l.dp}};
}

std::string_view memoryKindText(MeasuredMemory kind) {
    return kind == MeasuredMemory::PeakAllocated  ? "peak_allocated"
           : kind == MeasuredMemory::PeakReserved ? "peak_reserved"
                                                  : "other";
}

Json evidenceJson(const Prediction& p) {
    Json out = Json::object();
    for (const auto& [key, e] : p.evidence)
        out[key] = {{"kind", toText(e.kind)},
                    {"low", number(e.low)},
                    {"high", number(e.high)},
                    {"extrapolated", e.extrapolated}};
    return out;
}

Json rowJson(const ValidatedRow& row) {
    const MeasuredRun& run = row.run;
    const Plan& plan = run.plan;
    const Prediction& p = row.prediction;
    Json out;
    out["row"] = run.line;
    out["source"] = run.source;
    out["profile"] = run.profile->name;
    out["framework"] = toText(plan.framework);
    out["model"] = run.model;
    out["gpu"] = run.gpu;
    out["device"] = plan.cluster.device.name;
    out["layout"] = layoutJson(plan);
    out["seq_len"] = plan.seq_len;
    out["micro_batch_size"] = plan.micro_batch_size;
    out["global_batch_size"] = plan.global_batch_size;
    out["num_microbatches"] = plan.numMicroBatches();
    out["schedule"] = toText(plan.schedule);
    out["precision"] = toText(plan.precision);
    out["recompute"] = toText(plan.recompute.granularity);
    out["zero_stage"] = plan.zero_stage;
    out["assumed"] = run.assumed;
    out["full_layout"] = run.full_layout;
    out["held_out"] = row.held_out;
    if (!row.rules_kept) out["broken_rules"] = row.broken_rules;
    out["measured"] = {
        {"step_seconds", optional(run.step)},
        {"step_from", run.step_from},
        {"memory_bytes", optional(run.memory)},
        {"memory_kind", run.memory ? Json(memoryKindText(run.memory_kind)) : Json(nullptr)},
        {"flops_per_token", optional(run.flops_per_token)}};
    out["predicted"] = {{"step_seconds", number(p.step.value)},
                        {"memory_bytes", number(row.memory().value)},
                        {"flops_per_token", number(row.flops_per_token.value)},
                        {"mfu", number(p.mfu)},
                        {"bubble_fraction", number(p.bubble_fraction)},
                        {"phase_seconds", secondsByPhase(p.phase)},
                        {"exposed_seconds", secondsByPhase(p.exposed)},
                        {"compute_seconds", number(p.compute.value)}};
    out["error"] = {{"time", run.step ? number(row.timeError()) : Json(nullptr)},
                    {"memory", run.memory ? number(row.memoryError()) : Json(nullptr)},
                    {"flops", run.flops_per_token ? number(row.flopsError()) : Json(nullptr)}};
    out["evidence"] = evidenceJson(p);
    return out;
}

}  // namespace

Json validationJson(const Validation& v) {
    Json out;
    out["format_version"] = 1;
    out["rows"] = Json::array();
    for (const ValidatedRow& row : v.rows) out["rows"].push_back(rowJson(row));
    out["skipped"] = Json::array();
    for (const SkippedRow& row : v.skipped)
        out["skipped"].push_back({{"row", row.line},
                                  {"source", row.source},
                                  {"model", row.model},
                                  {"reason", row.reason},
                                  {"unusable", row.unusable}});
    out["in_scope"] = v.in_scope;
    out["summary"] = {{"time", summaryJson(v.time)},
                      {"time_blackwell", summaryJson(v.time_blackwell)},
                      {"memory", summaryJson(v.memory)},
                      {"memory_other", summaryJson(v.memory_other)},
                      {"flops", summaryJson(v.flops)}};
    out["split"] = {{"time_fit", summaryJson(v.time_fit)},
                    {"time_held_out", summaryJson(v.time_held_out)}};
    out["tables"] = Json::array();
    for (const OrderTable& t : v.tables)
        out["tables"].push_back({{"source", t.source},
                                 {"model", t.model},
                                 {"gpu", t.gpu},
                                 {"world", t.world},
                                 {"n", t.n},
                                 {"kendall_tau", number(t.kendall_tau)},
                                 {"best_in_top3", t.best_in_top3},
                                 {"pick_loss", number(t.pick_loss)}});
    return out;
}

}  // namespace piper
