// SPDX-License-Identifier: Apache-2.0
// The keys of `piperctl check --set KEY=VALUE`, with the names the frameworks have for them.
#include <algorithm>
#include <array>
#include <charconv>
#include <functional>

#include "core/plan/settings.h"

namespace piper {
namespace {

using Applier = std::function<Status(CheckedPlan&, std::string_view value)>;

struct Setting {
    std::string_view key;
    Applier apply;
    std::vector<std::string_view> aliases = {};
};

Result<std::int64_t> whole(std::string_view key, std::string_view text, std::int64_t low) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
        return fail(ErrorCode::InvalidInput, "{}={}: expected a whole number", key, text);
    if (value < low || value > (1 << 30))
        return fail(ErrorCode::InvalidInput, "{}={} must be between {} and {}", key, value, low,
                    1 << 30);
    return value;
}

/// Sets the integer `set` gives access to.
Setting integer(std::string_view key, std::int64_t low,
                std::function<void(CheckedPlan&, std::int64_t)> set,
                std::vector<std::string_view> aliases = {}) {
    return {key,
            [=](CheckedPlan& p, std::string_view text) -> Status {
                PIPER_ASSIGN(const std::int64_t value, whole(key, text, low));
                set(p, value);
                return {};
            },
            std::move(aliases)};
}

Setting flag(std::string_view key, std::function<void(CheckedPlan&, bool)> set,
             std::vector<std::string_view> aliases = {}) {
    return {key,
            [=](CheckedPlan& p, std::string_view text) -> Status {
                const bool on = text == "1" || text == "true" || text == "True";
                if (!on && text != "0" && text != "false" && text != "False")
                    return fail(ErrorCode::InvalidInput, "{}={}: expected 0 or 1", key, text);
                set(p, on);
                return {};
            },
            std::move(aliases)};
}

template <class E>
Setting enumeration(std::string_view key, std::function<void(CheckedPlan&, E)> set,
                    std::vector<std::string_view> aliases = {}) {
    return {key,
            [=](CheckedPlan& p, std::string_view text) -> Status {
                PIPER_ASSIGN(const E value, parseEnum<E>(text, key));
                set(p, value);
                return {};
            },
            std::move(aliases)};
}

/// "8/7/7/8", "8,7" or "[8, 7]".
Result<std::vector<std::int64_t>> wholes(std::string_view key, std::string_view text,
                                         std::int64_t low) {
    if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
    std::vector<std::int64_t> out;
    while (true) {
        const std::size_t at = text.find_first_of("/,");
        std::string_view one = text.substr(0, at);
        while (one.starts_with(' ')) one.remove_prefix(1);
        while (one.ends_with(' ')) one.remove_suffix(1);
        PIPER_ASSIGN(const std::int64_t value, whole(key, one, low));
        out.push_back(value);
        if (at == std::string_view::npos) return out;
        text.remove_prefix(at + 1);
    }
}

MoeSpec& moeOf(CheckedPlan& p) {
    if (!p.plan.model.moe) {
        p.plan.model.moe.emplace();
        p.plan.model.layers.assign(p.plan.model.layers.size(), LayerKind::Moe);
    }
    p.scope.moe = true;
    return *p.plan.model.moe;
}

void setLayers(CheckedPlan& p, std::int64_t n) {
    std::vector<LayerKind>& layers = p.plan.model.layers;
    const LayerKind kind = layers.empty() ? LayerKind::Dense : layers.back();
    p.plan.model.num_layers = n;
    layers.resize(static_cast<std::size_t>(std::min<std::int64_t>(n, 1 << 16)), kind);
    p.scope.num_layers = true;
}

Status setPredictionLayers(CheckedPlan& p, std::string_view text) {
    p.mtp_given = true;
    p.plan.model.mtp_num_layers = 0;
    p.scope.options.mtp_is_zero = text == "0";
    if (text == "none" || text == "None" || text == "null") return {};
    PIPER_ASSIGN(p.plan.model.mtp_num_layers, whole("mtp_num_layers", text, 0));
    return {};
}

Status setCapacity(CheckedPlan& p, std::string_view text) {
    if (text == "dropless" || text == "none" || text == "None") {
        p.plan.capacity_factor.reset();
        return {};
    }
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
        return fail(ErrorCode::InvalidInput, "capacity_factor={}: expected a number or dropless",
                    text);
    // Megatron-LM reads a negative factor as none.
    if (value < 0.0 && p.plan.framework == Framework::Megatron)
        p.plan.capacity_factor.reset();
    else
        p.plan.capacity_factor = value;
    return {};
}

Status setDispatcher(CheckedPlan& p, std::string_view text) {
    const std::vector<std::string_view> names = dispatcherNames();
    if (findDispatcher(text) == nullptr) {
        Error error = fail(ErrorCode::InvalidInput, "unknown dispatcher '{}'; nearest known: '{}'",
                           text, nearestWord(text, names));
        error.hint = fmt::format("dispatchers: {}", joinWords(names));
        return error;
    }
    p.scope.options.dispatcher = std::string(text);
    return {};
}

Status setLayoutString(CheckedPlan& p, std::string_view text) {
    Result<std::vector<PipelineChunk>> chunks = splitPipelineLayout(text);
    if (!chunks.ok()) {
        p.layout_string.push_back({"layout_string", chunks.error().message, {}});
        return {};
    }
    p.chunks = std::move(chunks).value();
    for (const Error& fault : pipelineLayoutFaults(p.chunks, text))
        p.layout_string.push_back({"layout_string", fault.message, {}});
    p.plan.stage_layers.clear();
    for (const PipelineChunk& chunk : p.chunks) p.plan.stage_layers.push_back(chunk.layers);
    return {};
}

Status setRecomputeModules(CheckedPlan& p, std::string_view text) {
    p.plan.recompute.granularity = RecomputeGranularity::Selective;
    p.plan.recompute.modules.clear();
    while (true) {
        const std::size_t at = text.find_first_of("/, ");
        p.plan.recompute.modules.emplace_back(text.substr(0, at));
        if (at == std::string_view::npos) return {};
        text.remove_prefix(at + 1);
    }
}

Status setDevice(CheckedPlan& p, std::string_view text) {
    PIPER_ASSIGN(p.plan.cluster.device, findDevice(text));
    p.scope.cluster = true;
    return {};
}

void addModelSettings(std::vector<Setting>& out) {
    const auto add = [&](Setting s) { out.push_back(std::move(s)); };
    add(integer("num_layers", 1, setLayers, {"num_hidden_layers"}));
    add(integer("num_experts", 1, [](CheckedPlan& p, std::int64_t n) { moeOf(p).num_experts = n; },
                {"num_moe_experts", "n_routed_experts", "num_local_experts", "experts"}));
    add(integer("router_topk", 1,
                [](CheckedPlan& p, std::int64_t n) {
                    moeOf(p).router_topk = n;
                    p.scope.top_k = true;
                },
                {"moe_router_topk", "num_experts_per_tok", "top_k", "topk"}));
    add(integer("num_heads", 1,
                [](CheckedPlan& p, std::int64_t n) {
                    p.plan.model.attention.num_heads = n;
                    p.scope.heads = true;
                },
                {"num_attention_heads", "n_heads"}));
    add(integer("num_kv_heads", 1,
                [](CheckedPlan& p, std::int64_t n) {
                    p.plan.model.attention.num_kv_heads = n;
                    p.scope.kv_heads = true;
                },
                {"num_query_groups", "num_key_value_heads", "n_kv_heads"}));
    add(integer("hidden_size", 1, [](CheckedPlan& p, std::int64_t n) {
        p.plan.model.hidden_size = n;
        p.scope.hidden = true;
    }));
    add(integer("ffn_hidden_size", 1,
                [](CheckedPlan& p, std::int64_t n) {
                    p.plan.model.ffn_hidden_size = n;
                    p.scope.dense_width = true;
                },
                {"intermediate_size"}));
    add(integer("vocab_size", 1, [](CheckedPlan& p, std::int64_t n) {
        p.plan.model.vocab_size = n;
        p.scope.vocab = true;
    }));
    add({"mtp_num_layers", setPredictionLayers, {"num_nextn_predict_layers"}});
}

void addMoeSettings(std::vector<Setting>& out) {
    const auto add = [&](Setting s) { out.push_back(std::move(s)); };
    add(integer("moe_ffn_hidden_size", 1,
                [](CheckedPlan& p, std::int64_t n) {
                    moeOf(p).moe_ffn_hidden_size = n;
                    p.scope.expert_width = true;
                },
                {"moe_intermediate_size"}));
    add(integer("shared_ffn_hidden_size", 0,
                [](CheckedPlan& p, std::int64_t n) {
                    moeOf(p).shared_ffn_hidden_size = n;
                    p.scope.shared_width = true;
                },
                {"moe_shared_expert_intermediate_size"}));
    add(integer("num_groups", 1,
                [](CheckedPlan& p, std::int64_t n) {
                    moeOf(p).num_groups = n;
                    p.scope.groups = true;
                },
                {"moe_router_num_groups", "n_group"}));
    add(integer("topk_groups", 1,
                [](CheckedPlan& p, std::int64_t n) {
                    moeOf(p).topk_groups = n;
                    p.scope.groups = true;
                },
                {"moe_router_group_topk", "topk_group"}));
}

void addBatchSettings(std::vector<Setting>& out) {
    const auto add = [&](Setting s) { out.push_back(std::move(s)); };
    add(integer("seq_len", 1,
                [](CheckedPlan& p, std::int64_t n) {
                    p.plan.seq_len = n;
                    p.scope.seq_len = true;
                },
                {"seq_length", "seq"}));
    add(integer("micro_batch_size", 1,
                [](CheckedPlan& p, std::int64_t n) {
                    p.plan.micro_batch_size = n;
                    p.scope.micro_batch = true;
                },
                {"mbs", "local_batch_size"}));
    add(integer("global_batch_size", 1,
                [](CheckedPlan& p, std::int64_t n) {
                    p.plan.global_batch_size = n;
                    p.scope.global_batch = true;
                },
                {"gbs", "train_batch_size", "batch"}));
    add({"micro_batch_sizes", [](CheckedPlan& p, std::string_view text) -> Status {
             PIPER_ASSIGN(p.scope.options.micro_batch_sizes, wholes("micro_batch_sizes", text, 1));
             return {};
         }});
    add(integer(
        "validation_global_batch_size", 1,
        [](CheckedPlan& p, std::int64_t n) { p.scope.options.validation_global_batch_size = n; },
        {"eval_global_batch_size", "validation_batch_size", "eval_batch_size"}));
    add(integer(
        "validation_micro_batch_size", 1,
        [](CheckedPlan& p, std::int64_t n) { p.scope.options.validation_micro_batch_size = n; },
        {"eval_micro_batch_size"}));
    add(integer("group_rows", 0,
                [](CheckedPlan& p, std::int64_t n) { p.scope.options.group_rows = n; }));
}

void addStageSettings(std::vector<Setting>& out) {
    const auto add = [&](Setting s) { out.push_back(std::move(s)); };
    add(enumeration<ScheduleKind>("schedule",
                                  [](CheckedPlan& p, ScheduleKind k) { p.plan.schedule = k; }));
    add({"rank_order", [](CheckedPlan& p, std::string_view text) -> Status {
             p.plan.rank_order = std::string(text);
             return {};
         }});
    add({"layout_string", setLayoutString, {"pipeline_model_parallel_layout", "pp_layout_string"}});
    add({"stage_layers",
         [](CheckedPlan& p, std::string_view text) -> Status {
             PIPER_ASSIGN(p.plan.stage_layers, wholes("stage_layers", text, 0));
             return {};
         },
         {"pp_layout"}});
    add(integer("num_layers_per_virtual_pipeline_stage", 1,
                [](CheckedPlan& p, std::int64_t n) { p.split.layers_per_virtual_stage = n; }));
    add(flag("account_for_embedding_in_pipeline_split",
             [](CheckedPlan& p, bool on) { p.split.account_for_embedding = on; }));
    add(flag("account_for_loss_in_pipeline_split",
             [](CheckedPlan& p, bool on) { p.split.account_for_loss = on; }));
    add(integer("num_layers_in_first_pipeline_stage", 1,
                [](CheckedPlan& p, std::int64_t n) { p.split.first_stage_layers = n; },
                {"decoder_first_pipeline_num_layers"}));
    add(integer("num_layers_in_last_pipeline_stage", 1,
                [](CheckedPlan& p, std::int64_t n) { p.split.last_stage_layers = n; },
                {"decoder_last_pipeline_num_layers"}));
    add({"label", [](CheckedPlan& p, std::string_view text) -> Status {
             p.label = std::string(text);
             return {};
         }});
}

void addExpertSettings(std::vector<Setting>& out) {
    const auto add = [&](Setting s) { out.push_back(std::move(s)); };
    add({"dispatcher",
         setDispatcher,
         {"moe_token_dispatcher_type", "moe_flex_dispatcher_backend", "backend"}});
    add({"capacity_factor", setCapacity, {"moe_expert_capacity_factor"}});
    add(flag("pad_to_capacity",
             [](CheckedPlan& p, bool on) { p.scope.options.pad_to_capacity = on; },
             {"moe_pad_expert_input_to_capacity"}));
    add({"load_balancing",
         [](CheckedPlan& p, std::string_view text) -> Status {
             p.scope.options.load_balancing = std::string(text);
             return {};
         },
         {"moe_router_load_balancing_type"}});
    add(flag("overlap_moe_expert_parallel_comm",
             [](CheckedPlan& p, bool on) { p.scope.options.overlap_expert_comm = on; }));
    add(flag("moe_shared_expert_overlap",
             [](CheckedPlan& p, bool on) { p.scope.options.shared_expert_overlap = on; }));
    add(integer("experts_per_rank", 1,
                [](CheckedPlan& p, std::int64_t n) { p.scope.options.experts_per_rank = n; },
                {"num_of_experts_per_rank"}));
    add(integer("ranks_per_domain", 1,
                [](CheckedPlan& p, std::int64_t n) { p.scope.options.ranks_per_domain = n; },
                {"num_of_ranks_per_node", "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN"}));
    add(integer("ep_size", 1, [](CheckedPlan& p, std::int64_t n) { p.scope.options.ep_size = n; }));
    add(integer("chunks", 0, [](CheckedPlan& p, std::int64_t n) { p.plan.all_to_all.chunks = n; }));
    add(integer("node_limit", 0,
                [](CheckedPlan& p, std::int64_t n) { p.plan.all_to_all.node_limit = n; }));
}

void addOptionSettings(std::vector<Setting>& out) {
    const auto add = [&](Setting s) { out.push_back(std::move(s)); };
    add(enumeration<Precision>("precision", [](CheckedPlan& p, Precision v) {
        p.plan.precision = v;
        p.precision_given = true;
    }));
    add(enumeration<RecomputeGranularity>("recompute",
                                          [](CheckedPlan& p, RecomputeGranularity v) {
                                              p.plan.recompute.granularity = v;
                                              if (v == RecomputeGranularity::Selective &&
                                                  p.plan.recompute.modules.empty())
                                                  p.plan.recompute.modules = {"core_attn"};
                                          },
                                          {"recompute_granularity", "recompute.granularity"}));
    add({"recompute_modules", setRecomputeModules, {"recompute.modules"}});
    add(integer("recompute_num_layers", 0,
                [](CheckedPlan& p, std::int64_t n) { p.plan.recompute.num_layers = n; },
                {"recompute.num_layers"}));
    add(integer("zero_stage", 0,
                [](CheckedPlan& p, std::int64_t n) {
                    p.plan.zero_stage = static_cast<int>(std::min<std::int64_t>(n, 99));
                },
                {"zero"}));
    add(integer("num_distributed_optimizer_instances", 1, [](CheckedPlan& p, std::int64_t n) {
        p.scope.options.distributed_optimizer_instances = n;
    }));
    add(integer("cuda_device_max_connections", 1,
                [](CheckedPlan& p, std::int64_t n) { p.scope.options.device_max_connections = n; },
                {"CUDA_DEVICE_MAX_CONNECTIONS"}));
    add({"device", setDevice, {"gpu"}});
    for (const std::string_view degree : kDegrees)
        add({degree, [degree](CheckedPlan& p, std::string_view text) -> Status {
                 PIPER_ASSIGN(const GivenDegrees given,
                              parseDegrees(fmt::format("{}={}", degree, text)));
                 p.degrees.insert(given.begin(), given.end());
                 return {};
             }});
}

const std::vector<Setting>& allSettings() {
    static const std::vector<Setting> all = [] {
        std::vector<Setting> out;
        addModelSettings(out);
        addMoeSettings(out);
        addBatchSettings(out);
        addStageSettings(out);
        addExpertSettings(out);
        addOptionSettings(out);
        return out;
    }();
    return all;
}

bool names(const Setting& s, std::string_view key) {
    return s.key == key || std::find(s.aliases.begin(), s.aliases.end(), key) != s.aliases.end();
}

}  // namespace

std::vector<std::string_view> checkSettingKeys() {
    std::vector<std::string_view> keys;
    for (const Setting& s : allSettings()) keys.push_back(s.key);
    return keys;
}

Status applySetting(CheckedPlan& p, std::string_view setting) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos)
        return fail(ErrorCode::InvalidInput, "'{}' is not KEY=VALUE", setting);
    const std::string_view key = setting.substr(0, equals);
    std::vector<std::string_view> known;
    for (const Setting& s : allSettings()) {
        known.push_back(s.key);
        known.insert(known.end(), s.aliases.begin(), s.aliases.end());
        if (!names(s, key)) continue;
        PIPER_TRY(s.apply(p, setting.substr(equals + 1)));
        p.origins[std::string(s.key)] = "given";
        return {};
    }
    Error error = fail(ErrorCode::InvalidInput, "unknown setting '{}'; nearest known: '{}'", key,
                       nearestWord(key, known));
    error.hint = fmt::format("settings: {}", joinWords(checkSettingKeys()));
    return error;
}

}  // namespace piper
