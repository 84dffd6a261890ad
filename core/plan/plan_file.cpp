// SPDX-License-Identifier: Apache-2.0
// The plan file (keys of docs/formats.md).
#include <algorithm>
#include <utility>

#include "core/base/json.h"
#include "core/plan/layout.h"
#include "core/plan/memory_options.h"
#include "core/plan/overlap.h"
#include "core/plan/plan.h"
#include "core/plan/routing_load.h"

namespace piper {
namespace {

constexpr int kFormatVersion = 1;

Result<Layout> readLayout(const Json& json, std::string where, std::int64_t world,
                          Framework framework) {
    GivenDegrees given;
    if (json.is_string()) {
        Result<GivenDegrees> parsed = parseDegrees(json.get<std::string>());
        if (!parsed.ok()) return std::move(parsed).error().at(where);
        given = std::move(parsed).value();
    } else if (!json.is_null()) {
        ObjectReader in(json, where);
        for (const char* key : {"tp", "cp", "pp", "vpp", "ep", "etp", "dp"}) {
            const bool present = in.hasValue(key);
            const std::int64_t value = in.positiveInt(key, 1);
            if (present) given[key] = value;
            if (value > (1 << 24))
                in.note(fail(ErrorCode::InvalidInput, "{} is more than {}", value, 1 << 24)
                            .at(in.path(key)));
        }
        const bool has_sp = in.hasValue("sp");
        const bool sp = in.boolean("sp", false);
        if (has_sp) given["sp"] = sp ? 1 : 0;
        PIPER_TRY(in.finish());
    }
    return completeDegrees(given, world, framework).layout;
}

Result<std::vector<std::int64_t>> readStageLayers(ObjectReader& in) {
    const Json& value = in.child("stage_layers");
    if (!value.is_string()) return in.integers("stage_layers");
    Result<std::vector<PipelineChunk>> chunks = parsePipelineLayout(value.get<std::string>());
    if (!chunks.ok()) return std::move(chunks).error().at(in.path("stage_layers"));
    std::vector<std::int64_t> layers;
    for (const PipelineChunk& chunk : *chunks) layers.push_back(chunk.layers);
    return layers;
}

Result<AllToAllChoice> readAllToAll(const Json& json, std::string where) {
    AllToAllChoice out;
    if (json.is_null()) return out;
    ObjectReader in(json, std::move(where));
    out.algorithm = in.enumeration("algorithm", AllToAllAlgorithm::Auto);
    out.library = in.enumeration("library", AllToAllLibrary::Auto);
    out.chunks = in.positiveInt("chunks", 1);
    out.node_limit = in.integer("node_limit", 0);
    PIPER_TRY(in.finish());
    return out;
}

/// The scalar keys.
void readScalars(ObjectReader& in, Plan& plan) {
    plan.framework = in.enumeration("framework", Framework::Plain);
    plan.rank_order = in.string("rank_order", plan.rank_order);
    plan.schedule = in.enumeration("schedule", ScheduleKind::OneF1B);
    plan.micro_batch_size = in.positiveInt("micro_batch_size");
    plan.global_batch_size = in.positiveInt("global_batch_size");
    plan.seq_len = in.positiveInt("seq_len");
    plan.zero_stage =
        static_cast<int>(std::clamp<std::int64_t>(in.integer("zero_stage", 0), -1, 99));
    plan.reshard_after_forward = in.boolean("reshard_after_forward", true);
    plan.precision = in.enumeration("precision", Precision::Bf16);
    plan.fp8_parameters = in.boolean("fp8_parameters", false);
    plan.fused_attention = in.boolean("fused_attention", true);
    plan.fused_cross_entropy = in.boolean("fused_cross_entropy", false);
    plan.cuda_graphs = in.boolean("cuda_graphs", false);
    if (in.hasValue("capacity_factor"))
        plan.capacity_factor = in.number("capacity_factor");
    else
        in.known("capacity_factor");
    plan.expert_placement = in.integers("expert_placement");
}

Json writeLayout(const Layout& l) {
    return {{"tp", l.tp},   {"sp", l.sp}, {"cp", l.cp},   {"pp", l.pp},
            {"vpp", l.vpp}, {"ep", l.ep}, {"etp", l.etp}, {"dp", l.dp}};
}

Json writeRoutingLoad(const RoutingLoad& load) {
    Json out = {{"kind", toText(load.kind)}, {"zipf_exponent", load.zipf_exponent}};
    if (!load.histogram.empty()) out["histogram"] = load.histogram;
    for (const RowPeak& peak : load.peaks) out["peaks"].push_back({peak.held, peak.exchange});
    return out;
}

/// An array of arrays of numbers, each of `width` numbers unless that is 0.
Result<std::vector<std::vector<double>>> readRows(const Json& json, std::size_t width,
                                                  const std::string& where) {
    std::vector<std::vector<double>> out;
    if (json.is_null()) return out;
    const std::string of = width > 0 ? fmt::format("{} numbers", width) : std::string("numbers");
    const Error wrong =
        fail(ErrorCode::InvalidInput, "expected an array of arrays of {}", of).at(where);
    if (!json.is_array()) return wrong;
    for (const Json& row : json) {
        if (!row.is_array() || (width > 0 && row.size() != width)) return wrong;
        std::vector<double>& values = out.emplace_back();
        for (const Json& value : row) {
            if (!value.is_number()) return wrong;
            values.push_back(value.get<double>());
        }
    }
    return out;
}

/// The name a config.json lacks: that of its file, or of its directory.
std::string nameOf(std::string path) {
    if (path.ends_with(".json")) path.resize(path.size() - 5);
    if (path == "config" || path.ends_with("/config"))
        path.resize(path.size() - std::min<std::size_t>(path.size(), 7));
    return path.substr(path.rfind('/') + 1);
}

}  // namespace

Result<Json> resolvePlanReferences(
    Json plan, const std::function<Result<std::string>(const std::string& path)>& read_file) {
    if (!plan.is_object()) return plan;
    for (const char* key : {"model", "cluster"}) {
        if (!plan.contains(key) || !plan.at(key).is_string()) continue;
        const std::string path = plan.at(key).get<std::string>();
        Result<std::string> text = read_file(path);
        if (!text.ok()) return std::move(text).error().at(key);
        Result<Json> document = parseJson(*text, path);
        if (!document.ok()) return std::move(document).error().at(key);
        const bool foreign = document->is_object() && !document->contains("format_version");
        if (std::string_view(key) == "model" && foreign && !document->contains("_name_or_path"))
            (*document)["_name_or_path"] = nameOf(path);
        plan[key] = std::move(document).value();
    }
    return plan;
}

Result<RoutingLoad> readRoutingLoad(const Json& json, std::string where) {
    RoutingLoad out;
    if (json.is_null()) return out;
    ObjectReader in(json, std::move(where));
    out.kind = in.enumeration("kind", RoutingLoadKind::Uniform);
    out.zipf_exponent = in.number("zipf_exponent", 0.0);
    const Json &histogram = in.child("histogram"), &peaks = in.child("peaks");
    PIPER_TRY(in.finish());
    PIPER_ASSIGN(out.histogram, readRows(histogram, 0, in.path("histogram")));
    PIPER_ASSIGN(const auto pairs, readRows(peaks, 2, in.path("peaks")));
    for (const std::vector<double>& pair : pairs) out.peaks.push_back({pair[0], pair[1]});
    return out;
}

Result<Plan> readPlan(const Json& json, std::string_view where) {
    ObjectReader in(json, std::string(where));
    PIPER_TRY(checkFormatVersion(in, kFormatVersion));
    Plan plan;
    const Json& model = in.child("model");
    const Json& cluster = in.child("cluster");
    const Json& layout = in.child("layout");
    readScalars(in, plan);
    for (const char* key :
         {"recompute", "offload", "optimizer", "memory", "routing_load", "all_to_all", "overlap"})
        in.known(key);
    PIPER_ASSIGN(plan.stage_layers, readStageLayers(in));
    PIPER_TRY(in.finish());
    for (const auto& [part, key] : {std::pair(&model, "model"), std::pair(&cluster, "cluster")})
        if (part->is_null())
            return fail(ErrorCode::InvalidInput, "missing; expected an object or a path")
                .at(in.path(key));
        else if (part->is_string())
            return fail(ErrorCode::InvalidInput, "'{}' is a path that was not resolved",
                        part->get<std::string>())
                .at(in.path(key));
    PIPER_ASSIGN(plan.model, readModel(model, in.path("model")));
    PIPER_ASSIGN(plan.cluster, readCluster(cluster, in.path("cluster")));
    PIPER_ASSIGN(plan.layout,
                 readLayout(layout, in.path("layout"), plan.cluster.numDevices(), plan.framework));
    PIPER_ASSIGN(plan.recompute, readRecompute(in.child("recompute"), in.path("recompute")));
    PIPER_ASSIGN(plan.offload, readOffload(in.child("offload"), in.path("offload")));
    PIPER_ASSIGN(plan.optimizer, readOptimizer(in.child("optimizer"), in.path("optimizer")));
    PIPER_ASSIGN(plan.memory, readMemoryReserve(in.child("memory"), in.path("memory")));
    PIPER_ASSIGN(plan.routing_load,
                 readRoutingLoad(in.child("routing_load"), in.path("routing_load")));
    PIPER_ASSIGN(plan.all_to_all, readAllToAll(in.child("all_to_all"), in.path("all_to_all")));
    if (in.hasValue("overlap")) {
        const Overlap usual = defaultOverlap(plan.framework, plan.schedule, plan.zero_stage);
        PIPER_ASSIGN(plan.overlap, readOverlap(in.child("overlap"), in.path("overlap"), usual));
    }
    return plan;
}

Result<Plan> readPlanText(std::string_view text, std::string_view where) {
    PIPER_ASSIGN(const Json json, parseJson(text, where));
    return readPlan(json, where);
}

Json writePlan(const Plan& plan) {
    Json out;
    out["format_version"] = kFormatVersion;
    out["framework"] = toText(plan.framework);
    out["layout"] = writeLayout(plan.layout);
    out["rank_order"] = plan.rank_order;
    if (!plan.stage_layers.empty()) out["stage_layers"] = plan.stage_layers;
    out["schedule"] = toText(plan.schedule);
    out["micro_batch_size"] = plan.micro_batch_size;
    out["global_batch_size"] = plan.global_batch_size;
    out["seq_len"] = plan.seq_len;
    out["recompute"] = writeRecompute(plan.recompute);
    out["zero_stage"] = plan.zero_stage;
    out["offload"] = writeOffload(plan.offload);
    if (!plan.reshard_after_forward) out["reshard_after_forward"] = false;
    if (plan.optimizer != OptimizerChoice{}) out["optimizer"] = writeOptimizer(plan.optimizer);
    out["precision"] = toText(plan.precision);
    if (plan.fp8_parameters) out["fp8_parameters"] = true;
    if (!plan.fused_attention) out["fused_attention"] = false;
    if (plan.fused_cross_entropy) out["fused_cross_entropy"] = true;
    if (plan.cuda_graphs) out["cuda_graphs"] = true;
    if (plan.memory != MemoryReserve{}) out["memory"] = writeMemoryReserve(plan.memory);
    out["capacity_factor"] = plan.capacity_factor ? Json(*plan.capacity_factor) : Json(nullptr);
    out["routing_load"] = writeRoutingLoad(plan.routing_load);
    if (!plan.expert_placement.empty()) out["expert_placement"] = plan.expert_placement;
    out["all_to_all"] = {{"algorithm", toText(plan.all_to_all.algorithm)},
                         {"library", toText(plan.all_to_all.library)},
                         {"chunks", plan.all_to_all.chunks},
                         {"node_limit", plan.all_to_all.node_limit}};
    if (plan.overlap) out["overlap"] = writeOverlap(*plan.overlap);
    out["model"] = writeModel(plan.model);
    out["cluster"] = writeCluster(plan.cluster);
    return out;
}

}  // namespace piper
