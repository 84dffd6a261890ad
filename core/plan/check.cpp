// SPDX-License-Identifier: Apache-2.0
#include "core/plan/check.h"

#include <algorithm>

#include "core/base/json.h"
#include "core/plan/settings.h"

namespace piper {
namespace {

Json violationJson(const Violation& v) {
    return {{"rule", v.rule}, {"message", v.message}, {"fix", Json(v.fix)}};
}

Json gridsJson(const Layout& l, std::int64_t world) {
    const auto quotient = [&](std::int64_t size) {
        return world % size == 0 ? Json(world / size) : Json(nullptr);
    };
    Json out;
    out["dense"] = {{"tp", l.tp},
                    {"cp", l.cp},
                    {"dp", quotient(l.tp * l.cp * l.pp)},
                    {"pp", l.pp},
                    {"ranks_without_dp", l.tp * l.cp * l.pp}};
    out["expert"] = {{"etp", l.etp},
                     {"ep", l.ep},
                     {"edp", quotient(l.etp * l.ep * l.pp)},
                     {"pp", l.pp},
                     {"ranks_without_edp", l.etp * l.ep * l.pp}};
    return out;
}

/// Values of the plan that are not degrees, with where each came from.
class Effective {
public:
    explicit Effective(const std::map<std::string, std::string>& origins) : m_origins(origins) {}

    void put(const std::string& key, Json value, const std::string& fallback) {
        const auto found = m_origins.find(key);
        m_values[key] = std::move(value);
        m_from[key] = found == m_origins.end() ? fallback : found->second;
    }
    void write(Json& document) && {
        document["effective"] = std::move(m_values);
        document["origins"] = std::move(m_from);
    }

private:
    const std::map<std::string, std::string>& m_origins;
    Json m_values = Json::object();
    Json m_from = Json::object();
};

void putBatch(Effective& out, const Plan& plan, const RuleScope& scope) {
    if (scope.seq_len) out.put("seq_len", plan.seq_len, "plan");
    if (scope.micro_batch) out.put("micro_batch_size", plan.micro_batch_size, "default");
    if (!scope.global_batch) return;
    out.put("global_batch_size", plan.global_batch_size, "plan");
    if (plan.global_batch_size % plan.layout.dp == 0)
        out.put("batch_per_dp_rank", plan.global_batch_size / plan.layout.dp,
                fmt::format("global_batch_size / dp {}", plan.layout.dp));
    if (plan.global_batch_size % (plan.micro_batch_size * plan.layout.dp) == 0)
        out.put("num_microbatches", plan.numMicroBatches(),
                fmt::format("global_batch_size / (micro_batch_size {} x dp {})",
                            plan.micro_batch_size, plan.layout.dp));
}

void putModel(Effective& out, const Plan& plan, const RuleScope& scope) {
    if (scope.num_layers) out.put("num_layers", plan.model.num_layers, "model");
    if (scope.moe && plan.model.moe) {
        out.put("num_experts", plan.model.moe->num_experts, "model");
        if (plan.model.moe->num_experts % plan.layout.ep == 0)
            out.put("experts_per_rank", plan.model.moe->num_experts / plan.layout.ep,
                    fmt::format("num_experts / ep {}", plan.layout.ep));
    }
}

Json effectiveStages(const CheckedPlan& p) {
    const Layout& l = p.plan.layout;
    const std::int64_t chunks = l.pp * l.vpp;
    Json stages = Json::array();
    if (chunks > 4096 || (p.plan.stage_layers.empty() && !p.scope.num_layers)) return stages;
    const std::vector<std::int64_t> layers = effectiveStageLayers(p.plan);
    if (static_cast<std::int64_t>(layers.size()) != chunks) return stages;
    for (std::int64_t stage = 0; stage < l.pp; ++stage) {
        std::vector<std::int64_t> own;
        for (std::int64_t chunk = 0; chunk < l.vpp; ++chunk)
            own.push_back(layers[static_cast<std::size_t>(chunk * l.pp + stage)]);
        std::int64_t sum = 0;
        for (const std::int64_t n : own) sum += n;
        stages.push_back({{"stage", stage},
                          {"layers", sum},
                          {"chunks", Json(own)},
                          {"embedding", stage == 0},
                          {"loss", stage == l.pp - 1}});
    }
    return stages;
}

std::string alignmentText(const Plan& plan) {
    const std::int64_t align = rowAlignment(plan.precision);
    return fmt::format(
        "dropless routing gives an expert any number of rows, a {} grouped GEMM takes multiples of "
        "{}: every group is padded, e.g. 44 rows -> {}, on average {} rows an expert more",
        toText(plan.precision), align, (44 + align - 1) / align * align,
        static_cast<double>(align - 1) / 2.0);
}

/// Padding of the groups: torchtitan leaves it to the user, others pad by themselves.
void alignmentOf(const CheckedPlan& p, std::vector<Violation>& violations,
                 std::vector<Violation>& warnings) {
    const bool moe = p.plan.layout.ep > 1 || (p.scope.moe && p.plan.model.moe);
    const bool narrow = elementBytes(p.plan.precision) < Bytes(2.0);
    if (!p.precision_given || !moe || !narrow || p.scope.options.group_rows) return;
    const std::int64_t align = rowAlignment(p.plan.precision);
    Violation v{"row_alignment",
                alignmentText(p.plan),
                {fmt::format("pad every expert group to {} rows", align), "precision=bf16",
                 fmt::format("group_rows={} when groups are padded already", 64)}};
    (p.plan.framework == Framework::Torchtitan ? violations : warnings).push_back(std::move(v));
}

Json document(const CheckedPlan& p) {
    std::vector<Violation> violations = p.layout_string;
    for (Violation& v : brokenRules(p.plan, p.scope)) violations.push_back(std::move(v));
    std::vector<Violation> warnings;
    alignmentOf(p, violations, warnings);
    Violations silent;
    labelDifferences(p, silent);
    silentChoices(p.plan, p.scope, silent);
    for (Violation& v : silent.take()) warnings.push_back(std::move(v));
    Effective effective(p.origins);
    effective.put("framework", toText(p.plan.framework), "given");
    for (const EffectiveValue& value : p.effective)
        effective.put(value.key, value.value, value.origin);
    putModel(effective, p.plan, p.scope);
    putBatch(effective, p.plan, p.scope);
    effective.put("schedule", toText(p.plan.schedule), "default");
    effective.put("precision", toText(p.plan.precision), "default");
    effective.put("row_alignment", rowAlignment(p.plan.precision),
                  fmt::format("grouped GEMM in {}", toText(p.plan.precision)));
    effective.put("rank_order", p.plan.rank_order, "default");
    if (!p.scope.options.dispatcher.empty())
        effective.put("dispatcher", p.scope.options.dispatcher, "default");
    if (!p.chunks.empty()) {
        std::int64_t sum = 0;
        for (const PipelineChunk& chunk : p.chunks) sum += chunk.layers;
        effective.put("layout_chunks", p.chunks.size(), "layout_string");
        effective.put("layout_layers", sum, "layout_string");
    }
    Json out;
    out["ok"] = violations.empty();
    out["violations"] = Json::array();
    for (const Violation& v : violations) out["violations"].push_back(violationJson(v));
    out["warnings"] = Json::array();
    for (const Violation& v : warnings) out["warnings"].push_back(violationJson(v));
    std::move(effective).write(out);
    out["grids"] = gridsJson(p.plan.layout, p.scope.world);
    out["minimum_world"] = minimumWorld(p.plan.layout);
    out["stages"] = effectiveStages(p);
    return out;
}

}  // namespace

Result<Json> checkJson(const CheckRequest& request) {
    PIPER_ASSIGN(const CheckedPlan checked, planOf(request));
    return document(checked);
}

Json checkJson(const Plan& plan) {
    Violations degrees;
    if (!degreeRules(plan, degrees)) {
        Json out;
        out["ok"] = false;
        out["violations"] = Json::array();
        for (const Violation& v : degrees.take()) out["violations"].push_back(violationJson(v));
        out["warnings"] = Json::array();
        out["effective"] = Json::object();
        out["origins"] = Json::object();
        out["grids"] = {{"dense", Json::object()}, {"expert", Json::object()}};
        out["minimum_world"] = nullptr;
        out["stages"] = Json::array();
        return out;
    }
    CheckedPlan p;
    p.plan = plan;
    p.scope.world = plan.layout.world();
    const Layout& l = plan.layout;
    p.effective = {{"tp", l.tp, "plan"},
                   {"sp", l.sp ? 1 : 0, "plan"},
                   {"cp", l.cp, "plan"},
                   {"pp", l.pp, "plan"},
                   {"vpp", l.vpp, "plan"},
                   {"ep", l.ep, "plan"},
                   {"etp", l.etp, "plan"},
                   {"dp", l.dp, "plan"},
                   {"edp", l.edp(), "world / (etp ep pp)"},
                   {"world", l.world(), "tp cp pp dp"}};
    for (const char* key : {"schedule", "precision", "rank_order", "micro_batch_size", "framework"})
        p.origins[key] = "plan";
    Json out = document(p);
    // Faults of model and cluster come first, as in validatePlan.
    Json violations = Json::array();
    for (const Violation& v : validatePlan(plan)) violations.push_back(violationJson(v));
    out["ok"] = violations.empty();
    out["violations"] = std::move(violations);
    return out;
}

}  // namespace piper
