// SPDX-License-Identifier: Apache-2.0
#include "core/plan/settings.h"

#include <algorithm>
#include <charconv>
#include <functional>

namespace piper {
namespace {

using Applier = std::function<Status(CheckedPlan&, std::string_view value)>;

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
Applier integer(std::string_view key, std::int64_t low,
                std::function<void(CheckedPlan&, std::int64_t)> set) {
    return [=](CheckedPlan& p, std::string_view text) -> Status {
        PIPER_ASSIGN(const std::int64_t value, whole(key, text, low));
        set(p, value);
        return {};
    };
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

Status setCapacity(CheckedPlan& p, std::string_view text) {
    if (text == "dropless" || text == "none") {
        p.plan.capacity_factor.reset();
        return {};
    }
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
        return fail(ErrorCode::InvalidInput, "capacity_factor={}: expected a number or dropless",
                    text);
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
    p.scope.dispatcher = std::string(text);
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

Status setStageLayers(CheckedPlan& p, std::string_view text) {
    p.plan.stage_layers.clear();
    while (true) {
        const std::size_t at = text.find_first_of("/,");
        PIPER_ASSIGN(const std::int64_t layers, whole("stage_layers", text.substr(0, at), 0));
        p.plan.stage_layers.push_back(layers);
        if (at == std::string_view::npos) return {};
        text.remove_prefix(at + 1);
    }
}

Status setDevice(CheckedPlan& p, std::string_view text) {
    PIPER_ASSIGN(p.plan.cluster.device, findDevice(text));
    p.scope.cluster = true;
    return {};
}

template <class E>
Applier enumeration(std::string_view key, std::function<void(CheckedPlan&, E)> set) {
    return [=](CheckedPlan& p, std::string_view text) -> Status {
        PIPER_ASSIGN(const E value, parseEnum<E>(text, key));
        set(p, value);
        return {};
    };
}

struct Setting {
    std::string_view key;
    Applier apply;
};

std::vector<Setting> modelSettings() {
    return {
        {"num_layers", integer("num_layers", 1, setLayers)},
        {"num_experts", integer("num_experts", 1,
                                [](CheckedPlan& p, std::int64_t n) { moeOf(p).num_experts = n; })},
        {"router_topk", integer("router_topk", 1,
                                [](CheckedPlan& p, std::int64_t n) { moeOf(p).router_topk = n; })},
        {"num_heads",
         integer("num_heads", 1,
                 [](CheckedPlan& p, std::int64_t n) { p.plan.model.attention.num_heads = n; })},
        {"num_kv_heads",
         integer("num_kv_heads", 1,
                 [](CheckedPlan& p, std::int64_t n) { p.plan.model.attention.num_kv_heads = n; })},
        {"mtp_num_layers",
         integer("mtp_num_layers", 0,
                 [](CheckedPlan& p, std::int64_t n) { p.plan.model.mtp_num_layers = n; })},
    };
}

std::vector<Setting> batchSettings() {
    return {
        {"seq_len", integer("seq_len", 1,
                            [](CheckedPlan& p, std::int64_t n) {
                                p.plan.seq_len = n;
                                p.scope.seq_len = true;
                            })},
        {"micro_batch_size", integer("micro_batch_size", 1,
                                     [](CheckedPlan& p, std::int64_t n) {
                                         p.plan.micro_batch_size = n;
                                         p.scope.micro_batch = true;
                                     })},
        {"global_batch_size", integer("global_batch_size", 1,
                                      [](CheckedPlan& p, std::int64_t n) {
                                          p.plan.global_batch_size = n;
                                          p.scope.global_batch = true;
                                      })},
        {"schedule", enumeration<ScheduleKind>(
                         "schedule", [](CheckedPlan& p, ScheduleKind k) { p.plan.schedule = k; })},
        {"rank_order",
         [](CheckedPlan& p, std::string_view text) -> Status {
             p.plan.rank_order = std::string(text);
             return {};
         }},
        {"layout_string", setLayoutString},
        {"stage_layers", setStageLayers},
        {"group_rows",
         integer("group_rows", 0, [](CheckedPlan& p, std::int64_t n) { p.scope.group_rows = n; })},
    };
}

std::vector<Setting> optionSettings() {
    return {
        {"precision", enumeration<Precision>("precision",
                                             [](CheckedPlan& p, Precision v) {
                                                 p.plan.precision = v;
                                                 p.precision_given = true;
                                             })},
        {"dispatcher", setDispatcher},
        {"capacity_factor", setCapacity},
        {"zero_stage", integer("zero_stage", 0,
                               [](CheckedPlan& p, std::int64_t n) {
                                   p.plan.zero_stage =
                                       static_cast<int>(std::min<std::int64_t>(n, 99));
                               })},
        {"chunks", integer("chunks", 0,
                           [](CheckedPlan& p, std::int64_t n) { p.plan.all_to_all.chunks = n; })},
        {"node_limit",
         integer("node_limit", 0,
                 [](CheckedPlan& p, std::int64_t n) { p.plan.all_to_all.node_limit = n; })},
        {"num_distributed_optimizer_instances",
         integer(
             "num_distributed_optimizer_instances", 1,
             [](CheckedPlan& p, std::int64_t n) { p.scope.distributed_optimizer_instances = n; })},
        {"device", setDevice},
    };
}

const std::vector<Setting>& allSettings() {
    static const std::vector<Setting> all = [] {
        std::vector<Setting> out = modelSettings();
        for (Setting& s : batchSettings()) out.push_back(std::move(s));
        for (Setting& s : optionSettings()) out.push_back(std::move(s));
        return out;
    }();
    return all;
}

Status applySetting(CheckedPlan& p, std::string_view setting) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos)
        return fail(ErrorCode::InvalidInput, "'{}' is not KEY=VALUE", setting);
    const std::string_view key = setting.substr(0, equals);
    for (const Setting& s : allSettings()) {
        if (s.key != key) continue;
        PIPER_TRY(s.apply(p, setting.substr(equals + 1)));
        p.origins[std::string(key)] = "given";
        return {};
    }
    const std::vector<std::string_view> keys = checkSettingKeys();
    Error error = fail(ErrorCode::InvalidInput, "unknown setting '{}'; nearest known: '{}'", key,
                       nearestWord(key, keys));
    error.hint = fmt::format("settings: {}", joinWords(keys));
    return error;
}

/// Without a vpp of its own a pipeline layout string decides it by its number of chunks.
void chunksDecideVpp(CheckedPlan& p, GivenDegrees& given) {
    const auto chunks = static_cast<std::int64_t>(p.chunks.size());
    const auto pp = given.find("pp");
    if (given.contains("vpp") || pp == given.end() || chunks <= pp->second) return;
    if (chunks % pp->second == 0) given["vpp"] = chunks / pp->second;
}

}  // namespace

std::vector<std::string_view> checkSettingKeys() {
    std::vector<std::string_view> keys;
    for (const Setting& s : allSettings()) keys.push_back(s.key);
    return keys;
}

Result<CheckedPlan> planOf(const CheckRequest& request) {
    CheckedPlan p;
    p.scope.num_layers = p.scope.moe = p.scope.sizes = request.model.has_value();
    p.scope.micro_batch = p.scope.global_batch = p.scope.seq_len = p.scope.cluster = false;
    if (request.model) p.plan.model = *request.model;
    p.plan.framework = request.framework;
    for (const std::string& setting : request.settings) PIPER_TRY(applySetting(p, setting));
    PIPER_ASSIGN(GivenDegrees given, parseDegrees(request.layout));
    if (request.world < 0 || request.world > (1 << 24))
        return fail(ErrorCode::InvalidInput, "world {} must be between 1 and {}", request.world,
                    1 << 24);
    if (request.devices_per_node < 1 || request.devices_per_node > (1 << 20))
        return fail(ErrorCode::InvalidInput, "{} devices a node; must be at least 1",
                    request.devices_per_node);
    chunksDecideVpp(p, given);
    const CompletedLayout completed = completeDegrees(given, request.world, request.framework);
    p.plan.layout = completed.layout;
    p.effective = completed.effective;
    p.scope.world = completed.effective.back().value;
    for (const EffectiveValue& value : completed.effective)
        if (value.key == "etp") p.scope.etp_origin = value.origin;
    if (p.plan.layout.vpp > 1 && !p.origins.contains("schedule")) {
        p.plan.schedule = ScheduleKind::InterleavedOneF1B;
        p.origins["schedule"] = "vpp above 1";
    }
    // A global batch alone is checked with micro-batches of one sequence.
    if (p.scope.global_batch) p.scope.micro_batch = true;
    p.plan.cluster.devices_per_node = request.devices_per_node;
    p.plan.cluster.nodes =
        (p.scope.world + request.devices_per_node - 1) / request.devices_per_node;
    return p;
}

}  // namespace piper
