// SPDX-License-Identifier: Apache-2.0
// What lives from start to end: weights, gradients, master weights, optimizer state, and what the
// GEMM library keeps for itself.
#include <algorithm>
#include <utility>

#include "core/resources/memory_table.h"
#include "core/resources/shard.h"

namespace piper {
namespace {

double formatBytes(StateFormat format, double fallback) {
    switch (format) {
        case StateFormat::Default:
            return fallback;
        case StateFormat::None:
            return 0.0;
        case StateFormat::Fp32:
            return 4.0;
        case StateFormat::Bf16:
        case StateFormat::Fp16:
            return 2.0;
        case StateFormat::Fp8:
            return 1.0;
    }
    return fallback;
}

/// Moments by kind: Adafactor keeps a row and a column of each matrix, about 8 / hidden_size bytes
/// an element; Muon and Sgd one momentum.
void setMoments(StateBytes& b, const Plan& plan, OptimizerKind kind) {
    const OptimizerChoice& o = plan.optimizer;
    double first = b.optimizer / 2.0, second = b.optimizer / 2.0;
    if (kind == OptimizerKind::Adafactor) {
        first = 0.0;
        second = 8.0 / static_cast<double>(plan.model.hidden_size);
    } else if (kind != OptimizerKind::AdamW) {
        second = 0.0;
    }
    b.first_moment = formatBytes(o.first_moment, first);
    b.optimizer = b.first_moment + (second > 0.0 ? formatBytes(o.second_moment, second) : 0.0);
}

/// Megatron-LM and DeepSpeed hand their fp32 optimizer a copy of the 16-bit gradients this rank
/// owns; an optimizer with 16-bit moments (precision-aware) takes them as they are.
/// Source: Qwen3-VL issue 2053 (its failing allocation is this copy), Megatron-Bridge's floors.
double stepGradientBytes(const StateBytes& b, const Plan& plan) {
    const bool copies =
        plan.framework == Framework::Megatron || plan.framework == Framework::DeepSpeed;
    return copies && b.gradients < 4.0 && b.first_moment >= 4.0 ? 4.0 : 0.0;
}

StateBytes chosenBytes(const Plan& plan, OptimizerKind kind) {
    StateBytes b = stateBytes(plan.framework, plan.precision);
    const OptimizerChoice& o = plan.optimizer;
    b.weights = formatBytes(o.weights, b.weights);
    b.gradients = formatBytes(o.gradients, b.gradients);
    b.master = formatBytes(o.master_weights, b.master);
    setMoments(b, plan, kind);
    b.step_gradient = stepGradientBytes(b, plan);
    return b;
}

/// Shapes of the layer weights of a stage on one rank; equal shapes once.
double distinctShapeElements(const Plan& plan, StageId stage) {
    std::vector<Projection> shapes;
    shapes.reserve(12);
    double sum = 0.0;
    const auto add = [&](const Projections& projections) {
        for (const Projection& p : projections) {
            const bool known = std::any_of(shapes.begin(), shapes.end(), [&](const Projection& s) {
                return s.in == p.in && s.out == p.out;
            });
            if (known) continue;
            shapes.push_back(p);
            sum += asDouble(p.in) * asDouble(p.out);
        }
    };
    bool dense = false, moe = false;
    for (std::int64_t v = 0; v < pipelineShape(plan).chunks(); ++v) {
        const LayerRange r = stageLayers(plan, stage, ModelChunkId(static_cast<std::int32_t>(v)));
        for (std::int64_t i = r.begin; i < r.end; ++i)
            (plan.model.isMoe(LayerId(static_cast<std::int32_t>(i))) ? moe : dense) = true;
    }
    const std::int64_t h = plan.model.hidden_size;
    if (dense || moe) add(attentionProjections(plan));
    if (dense) add(mlpProjections(h, denseWidth(plan), plan.model.dense_mlp));
    if (moe && plan.model.moe) {
        add(mlpProjections(h, expertWidth(plan), plan.model.moe->mlp));
        add(mlpProjections(h, sharedExpertWidth(plan), plan.model.moe->mlp));
    }
    return sum;
}

MemoryEntry bytesEntry(MemoryTerm term, std::string_view name, double elements, double each,
                       double shards = 1.0) {
    return {.term = term,
            .name = name,
            .bytes = Bytes(elements * each / shards),
            .shape = "parameters",
            .rows = elements,
            .element_bytes = each,
            .shards = shards};
}

/// cuBLAS asks for 32 MiB on Hopper and later, and Transformer Engine for four more of them to run
/// the groups of a grouped GEMM side by side.
void addWorkspace(std::vector<MemoryEntry>& out, const Plan& plan, StageId stage) {
    const bool device = plan.cluster.device.kind == DeviceKind::Gpu;
    const bool library = device && plan.framework != Framework::Plain;
    constexpr double kOne = 32.0 * 1024.0 * 1024.0;
    const bool grouped = plan.model.moe && plan.framework == Framework::Megatron;
    const double bytes =
        plan.memory.workspace_bytes.value_or(library ? (grouped ? 5.0 * kOne : kOne) : 0.0);
    if (bytes > 0.0) out.push_back(bytesEntry(MemoryTerm::Workspace, "GEMM workspace", bytes, 1.0));
    if (fusesGradientAccumulation(plan) && !weightsFrozen(plan))
        out.push_back(bytesEntry(MemoryTerm::Workspace,
                                 "placeholder gradients of fused accumulation",
                                 distinctShapeElements(plan, stage), 2.0));
}

/// FSDP without reshard: the weights of the whole stage stay gathered between its passes.
void addGatheredStage(std::vector<MemoryEntry>& kept, const Plan& plan, StageId stage) {
    if (plan.zero_stage < 3 || plan.reshard_after_forward) return;
    const StageParameters p = stageParameters(plan, stage);
    const double element = activationElementBytes(plan.precision).value;
    kept.push_back({.term = MemoryTerm::CommunicationBuffer,
                    .name = "gathered weights of the stage",
                    .bytes = Bytes((p.dense + p.expert) * element),
                    .shape = "parameters",
                    .rows = p.dense + p.expert,
                    .element_bytes = element});
}

/// DeepSpeed reduces and gathers through buckets of 5e8 elements each (its defaults), fewer when
/// the stage has fewer.
void addBuckets(std::vector<MemoryEntry>& out, const Plan& plan, StageId stage) {
    if (plan.framework != Framework::DeepSpeed || plan.zero_stage < 1 || plan.layout.dp == 1)
        return;
    constexpr double kBucket = 5e8;
    const StageParameters p = stageParameters(plan, stage);
    out.push_back(bytesEntry(MemoryTerm::CommunicationBuffer, "ZeRO buckets",
                             2.0 * std::min(kBucket, p.dense + p.expert),
                             activationElementBytes(plan.precision).value));
}

/// Elements of a rank of a stage, by part.
struct Parts {
    double layer = 0.0, embedding = 0.0, head = 0.0, expert = 0.0;
};
struct Names {
    std::string_view layer, embedding, head, expert;
};
struct Each {
    double layer = 0.0, end = 0.0;  ///< bytes an element: of the layers; of embedding and head
};

class StateTable {
public:
    StateTable(const Plan& plan, StageId stage) : m_plan(plan) {
        const StageParameters p = stageParameters(plan, stage);
        m_parts = {p.dense - p.embedding - p.head, p.embedding, p.head, p.expert};
        m_entries.reserve(20);
    }

    void add(MemoryTerm term, const Names& names, Each each, int sharded_from) {
        const bool sharded = m_plan.zero_stage >= sharded_from;
        const double dense = sharded ? asDouble(m_plan.layout.dp * m_plan.layout.cp) : 1.0;
        const double expert =
            sharded ? asDouble(std::max<std::int64_t>(1, m_plan.layout.edp())) : 1.0;
        part(term, names.layer, m_parts.layer, each.layer, dense);
        part(term, names.embedding, m_parts.embedding, each.end, dense);
        part(term, names.head, m_parts.head, each.end, dense);
        part(term, names.expert, m_parts.expert, each.layer, expert);
    }
    [[nodiscard]] std::vector<MemoryEntry>& entries() { return m_entries; }

private:
    void part(MemoryTerm term, std::string_view name, double elements, double each, double shards) {
        if (elements <= 0.0 || each <= 0.0) return;
        m_entries.push_back(bytesEntry(term, name, elements, each, shards));
    }

    const Plan& m_plan;
    Parts m_parts;
    std::vector<MemoryEntry> m_entries;
};

constexpr Names kWeights{"layer weights", "embedding weights", "head weights", "expert weights"};
constexpr Names kQuantized{"layer weights, quantized", "embedding weights, quantized",
                           "head weights, quantized", "expert weights, quantized"};
constexpr Names kGradients{"layer gradients", "embedding gradients", "head gradients",
                           "expert gradients"};
constexpr Names kMaster{"layer master weights", "embedding master weights", "head master weights",
                        "expert master weights"};
constexpr Names kOptimizer{"layer optimizer state", "embedding optimizer state",
                           "head optimizer state", "expert optimizer state"};
constexpr Names kStep{
    "layer gradients in fp32 for the optimizer", "embedding gradients in fp32 for the optimizer",
    "head gradients in fp32 for the optimizer", "expert gradients in fp32 for the optimizer"};

}  // namespace

StateBytes stateBytes(Framework framework, Precision precision) {
    if (precision == Precision::Fp32 || precision == Precision::Tf32)
        return {.weights = 4.0, .gradients = 4.0, .optimizer = 8.0, .first_moment = 4.0};
    switch (framework) {
        case Framework::DeepSpeed:
            return {2.0, 2.0, 4.0, 8.0, 4.0};
        case Framework::Torchtitan:
            return {4.0, 4.0, 0.0, 8.0, 4.0};
        case Framework::Plain:
        case Framework::Megatron:
            break;
    }
    return {2.0, 4.0, 4.0, 8.0, 4.0};
}

StateBytes stateBytes(const Plan& plan) {
    StateBytes b = chosenBytes(plan, plan.optimizer.kind);
    // Transformer Engine keeps a matrix row-wise for the forward and column-wise for the gradient.
    const double format = gemmElementBytes(plan.precision);
    if (format >= 2.0 || plan.framework != Framework::Megatron) return b;
    if (plan.fp8_parameters)
        b.weights = 2.0 * format;
    else
        b.quantized = 2.0 * format;
    return b;
}

StateBytes endStateBytes(const Plan& plan) {
    const OptimizerKind kind =
        plan.optimizer.kind == OptimizerKind::Muon ? OptimizerKind::AdamW : plan.optimizer.kind;
    return chosenBytes(plan, kind);
}

std::vector<MemoryEntry> persistentMemory(const Plan& plan, StageId stage) {
    const StateBytes b = stateBytes(plan), end = endStateBytes(plan);
    // Megatron-LM moves the moments to the host, the others the master weights with them.
    const double state = plan.offload.optimizer ? 1.0 - plan.offload.fraction : 1.0;
    const double master = plan.framework == Framework::Megatron ? 1.0 : state;
    StateTable table(plan, stage);
    if (!plan.offload.parameters)
        table.add(MemoryTerm::Weights, kWeights, {b.weights, end.weights}, 3);
    table.add(MemoryTerm::Weights, kQuantized, {b.quantized, 0.0}, 4);
    table.add(MemoryTerm::Gradients, kGradients, {b.gradients, end.gradients}, 2);
    table.add(MemoryTerm::MasterWeights, kMaster, {b.master * master, end.master * master}, 1);
    table.add(MemoryTerm::OptimizerState, kOptimizer, {b.optimizer * state, end.optimizer * state},
              1);
    addGatheredStage(table.entries(), plan, stage);
    addBuckets(table.entries(), plan, stage);
    addWorkspace(table.entries(), plan, stage);
    return std::move(table.entries());
}

std::vector<MemoryEntry> optimizerTransients(const Plan& plan, StageId stage) {
    const StateBytes b = stateBytes(plan), end = endStateBytes(plan);
    if (b.step_gradient + end.step_gradient <= 0.0) return {};
    if (plan.offload.optimizer && plan.offload.fraction >= 1.0) return {};  // the host converts
    StateTable table(plan, stage);
    table.add(MemoryTerm::Gradients, kStep, {b.step_gradient, end.step_gradient}, 1);
    for (MemoryEntry& entry : table.entries()) entry.lifetime = Lifetime::PerOperation;
    return std::move(table.entries());
}

}  // namespace piper
