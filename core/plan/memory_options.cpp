// SPDX-License-Identifier: Apache-2.0
#include "core/plan/memory_options.h"

#include <array>
#include <utility>

#include "core/base/json.h"

namespace piper {
namespace {

struct StateKey {
    const char* key;
    StateFormat OptimizerChoice::*format;
};
constexpr std::array kStateKeys = {
    StateKey{"weights", &OptimizerChoice::weights},
    StateKey{"gradients", &OptimizerChoice::gradients},
    StateKey{"master_weights", &OptimizerChoice::master_weights},
    StateKey{"first_moment", &OptimizerChoice::first_moment},
    StateKey{"second_moment", &OptimizerChoice::second_moment},
};

struct ReserveKey {
    const char* key;
    std::optional<double> MemoryReserve::*value;
};
constexpr std::array kReserveKeys = {
    ReserveKey{"communication_buffer_bytes", &MemoryReserve::communication_buffer_bytes},
    ReserveKey{"workspace_bytes", &MemoryReserve::workspace_bytes},
    ReserveKey{"context_bytes", &MemoryReserve::context_bytes},
    ReserveKey{"allocator_slack", &MemoryReserve::allocator_slack},
};

}  // namespace

Result<Recompute> readRecompute(const Json& json, std::string where) {
    Recompute out;
    if (json.is_null()) return out;
    ObjectReader in(json, std::move(where));
    out.granularity = in.enumeration("granularity", RecomputeGranularity::None);
    out.method = in.enumeration("method", RecomputeMethod::Block);
    out.num_layers = in.integer("num_layers", 0);
    const Json& modules = in.child("modules");
    PIPER_TRY(in.finish());
    if (modules.is_null()) return out;
    if (!modules.is_array())
        return fail(ErrorCode::InvalidInput, "expected an array, found {}", modules.type_name())
            .at(in.path("modules"));
    for (const Json& module : modules) {
        if (!module.is_string())
            return fail(ErrorCode::InvalidInput, "expected names, found {}", module.dump())
                .at(in.path("modules"));
        out.modules.push_back(module.get<std::string>());
    }
    return out;
}

Result<Offload> readOffload(const Json& json, std::string where) {
    Offload out;
    if (json.is_null()) return out;
    ObjectReader in(json, std::move(where));
    out.optimizer = in.boolean("optimizer", false);
    out.fraction = in.number("fraction", 1.0);
    out.activations = in.number("activations", 0.0);
    out.parameters = in.boolean("parameters", false);
    PIPER_TRY(in.finish());
    return out;
}

Result<OptimizerChoice> readOptimizer(const Json& json, std::string where) {
    OptimizerChoice out;
    if (json.is_null()) return out;
    ObjectReader in(json, std::move(where));
    out.kind = in.enumeration("kind", OptimizerKind::AdamW);
    for (const StateKey& state : kStateKeys)
        out.*state.format = in.enumeration(state.key, StateFormat::Default);
    out.post_validation = in.boolean("post_validation", false);
    PIPER_TRY(in.finish());
    if (out.weights == StateFormat::None)
        return fail(ErrorCode::InvalidInput, "weights cannot be 'none'").at(in.where());
    if (out.gradients != StateFormat::None) return out;
    for (const StateFormat idle : {out.master_weights, out.first_moment, out.second_moment})
        if (idle != StateFormat::None)
            return fail(ErrorCode::InvalidInput,
                        "gradients 'none' freezes the weights (adapters alone train): "
                        "master_weights, first_moment and second_moment must be 'none' too")
                .at(in.where());
    return out;
}

Result<MemoryReserve> readMemoryReserve(const Json& json, std::string where) {
    MemoryReserve out;
    if (json.is_null()) return out;
    ObjectReader in(json, std::move(where));
    for (const ReserveKey& reserve : kReserveKeys) {
        if (!in.hasValue(reserve.key)) {
            in.known(reserve.key);
            continue;
        }
        const double value = in.number(reserve.key);
        if (!(value >= 0.0))
            in.note(fail(ErrorCode::InvalidInput, "{} must not be negative", value)
                        .at(in.path(reserve.key)));
        out.*reserve.value = value;
    }
    PIPER_TRY(in.finish());
    return out;
}

Json writeRecompute(const Recompute& r) {
    Json out = {{"granularity", toText(r.granularity)},
                {"num_layers", r.num_layers},
                {"modules", Json(r.modules)}};
    if (r.method != RecomputeMethod::Block) out["method"] = toText(r.method);
    return out;
}

Json writeOffload(const Offload& offload) {
    Json out = {{"optimizer", offload.optimizer}, {"fraction", offload.fraction}};
    if (offload.activations != 0.0) out["activations"] = offload.activations;
    if (offload.parameters) out["parameters"] = true;
    return out;
}

Json writeOptimizer(const OptimizerChoice& optimizer) {
    Json out = {{"kind", toText(optimizer.kind)}};
    for (const StateKey& state : kStateKeys)
        if (optimizer.*state.format != StateFormat::Default)
            out[state.key] = toText(optimizer.*state.format);
    if (optimizer.post_validation) out["post_validation"] = true;
    return out;
}

Json writeMemoryReserve(const MemoryReserve& reserve) {
    Json out = Json::object();
    for (const ReserveKey& key : kReserveKeys)
        if (reserve.*key.value) out[key.key] = *(reserve.*key.value);
    return out;
}

}  // namespace piper
