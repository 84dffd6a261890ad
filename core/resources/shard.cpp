// SPDX-License-Identifier: Apache-2.0
#include "core/resources/shard.h"

#include <algorithm>
#include <string_view>

#include "core/plan/row_alignment.h"

namespace piper {

namespace {

/// Ceiling: a size that tp does not divide is padded, as frameworks do.
std::int64_t split(std::int64_t size, std::int64_t parts) {
    return (size + parts - 1) / parts;
}

double elements(const Projections& projections) {
    double sum = 0.0;
    for (const Projection& p : projections)
        sum += static_cast<double>(p.in) * static_cast<double>(p.out);
    return sum;
}

/// Projections of `heads` and `kv_heads` heads of a rank.
Projections projectionsOf(const ModelSpec& model, std::int64_t heads, std::int64_t kv_heads) {
    const AttentionSpec& a = model.attention;
    const std::int64_t h = model.hidden_size;
    if (a.kind == AttentionKind::Gqa)
        return {{h, (heads + 2 * kv_heads) * a.head_dim}, {heads * a.head_dim, h}};
    Projections out;
    if (a.q_lora_rank > 0) {
        out.push_back({h, a.q_lora_rank});
        out.push_back({a.q_lora_rank, heads * a.qkHeadDim()});
    } else {
        out.push_back({h, heads * a.qkHeadDim()});
    }
    out.push_back({h, a.kv_lora_rank + a.qk_rope_head_dim});
    out.push_back({a.kv_lora_rank, heads * (a.qk_nope_head_dim + a.v_head_dim)});
    out.push_back({heads * a.v_head_dim, h});
    return out;
}

/// What attention has besides its projections (biases, norms of queries and keys); not split.
double attentionVectors(const ModelSpec& model) {
    const AttentionSpec& a = model.attention;
    return static_cast<double>(attentionParameters(model)) -
           elements(projectionsOf(model, a.num_heads, a.num_kv_heads));
}

}  // namespace

Bytes activationElementBytes(Precision precision) {
    const bool wide = precision == Precision::Fp32 || precision == Precision::Tf32;
    return bytes(wide ? 4.0 : 2.0);
}

double gemmElementBytes(Precision precision) {
    switch (precision) {
        case Precision::Fp32:
        case Precision::Tf32:
            return 4.0;
        case Precision::Bf16:
        case Precision::Fp16:
            return 2.0;
        case Precision::Fp8:
            return 1.0;
        case Precision::Fp8Block:  // one fp32 scale for 128 elements
            return 1.0 + 4.0 / 128.0;
        case Precision::Mxfp8:  // one byte of scale for 32
            return 1.0 + 1.0 / 32.0;
        case Precision::Nvfp4:  // half a byte, one byte of scale for 16
            return 0.5 + 1.0 / 16.0;
    }
    return 2.0;
}

std::int64_t paddedVocabulary(const Plan& plan) {
    if (plan.framework != Framework::Megatron) return plan.model.vocab_size;
    const std::int64_t step = 128 * plan.layout.tp;
    return split(plan.model.vocab_size, step) * step;
}

bool fusesGradientAccumulation(const Plan& plan) {
    return plan.framework == Framework::Megatron && plan.cluster.device.kind == DeviceKind::Gpu &&
           plan.precision != Precision::Fp32 && plan.precision != Precision::Tf32;
}

namespace {

/// Rows of each local expert rounded up to what the precision's grouped GEMM takes.
std::int64_t alignedRows(const Plan& plan, std::int64_t rows, std::int64_t experts) {
    if (gemmElementBytes(plan.precision) >= 2.0 || rows <= 0) return rows;
    const std::int64_t align = rowAlignment(plan.precision);
    return split(split(rows, experts), align) * align * experts;
}

}  // namespace

Shard shardOf(const Plan& plan) {
    const Layout& l = plan.layout;
    const AttentionSpec& a = plan.model.attention;
    Shard s;
    s.tokens = plan.tokensPerMicroBatch();
    s.routed_tokens = split(s.tokens, l.tp);
    s.local_tokens = l.sp ? s.routed_tokens : s.tokens;
    s.hidden = plan.model.hidden_size;
    s.heads = split(a.num_heads, l.tp);
    s.kv_heads = split(a.kind == AttentionKind::Mla ? a.num_heads : a.num_kv_heads, l.tp);
    s.qk_dim = a.qkHeadDim();
    s.v_dim = a.vHeadDim();
    s.vocab = split(paddedVocabulary(plan), l.tp);
    s.element = activationElementBytes(plan.precision).value;
    s.gemm_input = std::min(s.element, gemmElementBytes(plan.precision));
    if (plan.model.moe) {
        const MoeSpec& moe = *plan.model.moe;
        s.local_experts = split(moe.num_experts, l.ep);
        s.routed_rows = moe.router_topk * s.routed_tokens;
        if (plan.capacity_factor) {
            // Every expert gets capacity rows from every rank, filled or not.
            const double rows = static_cast<double>(s.routed_rows) * *plan.capacity_factor;
            const std::int64_t per_expert = static_cast<std::int64_t>(
                std::max(1.0, rows / static_cast<double>(moe.num_experts) + 0.999999));
            s.routed_rows = per_expert * moe.num_experts;
        }
        s.received_rows = alignedRows(plan, s.routed_rows * l.etp, s.local_experts);
    }
    return s;
}

Projections attentionProjections(const Plan& plan) {
    const Shard s = shardOf(plan);
    return projectionsOf(plan.model, s.heads, s.kv_heads);
}

std::int64_t preActivationWidth(std::int64_t ffn, MlpKind kind) {
    return (mlpMatrices(kind) - 1) * ffn;
}

Projections mlpProjections(std::int64_t hidden, std::int64_t ffn, MlpKind kind) {
    return {{hidden, preActivationWidth(ffn, kind)}, {ffn, hidden}};
}

std::int64_t expertWidth(const Plan& plan) {
    return plan.model.moe ? split(plan.model.moe->moe_ffn_hidden_size, plan.layout.etp) : 0;
}

std::int64_t sharedExpertWidth(const Plan& plan) {
    return plan.model.moe ? split(plan.model.moe->shared_ffn_hidden_size, plan.layout.tp) : 0;
}

std::int64_t denseWidth(const Plan& plan) {
    return split(plan.model.ffn_hidden_size, plan.layout.tp);
}

LayerKind lastLayerKind(const ModelSpec& model) {
    return model.layers.empty() ? LayerKind::Dense : model.layers.back();
}

namespace {

/// With biases: that of the first matrix is split with it, that of the second is whole.
double mlpElements(const ModelSpec& model, std::int64_t ffn, MlpKind kind) {
    const bool bias = model.mlp_bias && ffn > 0;
    return elements(mlpProjections(model.hidden_size, ffn, kind)) +
           (bias ? static_cast<double>(preActivationWidth(ffn, kind) + model.hidden_size) : 0.0);
}

}  // namespace

DenseAndExpert layerElements(const Plan& plan, LayerKind kind) {
    const ModelSpec& model = plan.model;
    const std::int64_t h = model.hidden_size;
    DenseAndExpert out;
    out.dense = elements(attentionProjections(plan)) + attentionVectors(model) +
                static_cast<double>(layerParameters(model, kind).norms);
    if (kind == LayerKind::Dense) {
        out.dense += mlpElements(model, denseWidth(plan), model.dense_mlp);
        return out;
    }
    const MoeSpec& moe = *model.moe;
    out.dense += static_cast<double>(layerParameters(model, kind).router) +
                 mlpElements(model, sharedExpertWidth(plan), moe.mlp) +
                 (moe.shared_gate ? static_cast<double>(h) : 0.0);
    out.expert = static_cast<double>(shardOf(plan).local_experts) *
                 mlpElements(model, expertWidth(plan), moe.mlp);
    return out;
}

StageParameters stageParameters(const Plan& plan, StageId stage) {
    const ModelSpec& model = plan.model;
    const Shard s = shardOf(plan);
    const double embedding = static_cast<double>(s.vocab) * static_cast<double>(s.hidden);
    const PipelineShape shape = pipelineShape(plan);
    const bool last = holdsHead(shape, stage);
    StageParameters out;
    const auto add = [&](LayerKind kind, double count) {
        const DenseAndExpert layer = layerElements(plan, kind);
        out.dense += count * layer.dense;
        out.expert += count * layer.expert;
    };
    for (std::int64_t v = 0; v < shape.chunks(); ++v) {
        const LayerRange range =
            stageLayers(plan, stage, ModelChunkId(static_cast<std::int32_t>(v)));
        const auto begin = model.layers.begin();
        const double moe =
            static_cast<double>(std::count(begin + range.begin, begin + range.end, LayerKind::Moe));
        if (moe > 0.0) add(LayerKind::Moe, moe);
        if (const double dense = static_cast<double>(range.size()) - moe; dense > 0.0)
            add(LayerKind::Dense, dense);
    }
    if (holdsEmbedding(shape, stage))
        out.embedding = embedding + static_cast<double>(model.positionElements());
    if (last) {
        out.dense += static_cast<double>(model.normElements());
        if (!model.tie_word_embeddings || !holdsEmbedding(shape, stage)) out.head = embedding;
        if (model.mtp_num_layers > 0) {
            const double mtp = static_cast<double>(model.mtp_num_layers);
            const double h = static_cast<double>(s.hidden);
            add(lastLayerKind(model), mtp);
            out.dense += mtp * (2.0 * h * h + 3.0 * static_cast<double>(model.normElements()));
        }
    }
    out.dense += out.embedding + out.head;
    return out;
}

bool weightsFrozen(const Plan& plan) {
    return plan.optimizer.gradients == StateFormat::None;
}

bool recomputes(const Plan& plan, const char* module) {
    if (plan.recompute.granularity != RecomputeGranularity::Selective) return false;
    const auto& modules = plan.recompute.modules;
    return std::find(modules.begin(), modules.end(), module) != modules.end();
}

}  // namespace piper
