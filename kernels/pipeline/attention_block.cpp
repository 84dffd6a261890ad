// SPDX-License-Identifier: Apache-2.0
#include "core/resources/shard.h"
#include "kernels/pipeline/blocks.h"

namespace piper {
namespace {

bool isLatent(const BlockContext& c) {
    return c.plan.model.attention.kind == AttentionKind::Mla;
}

/// Query, key, value and output as matrices of all rows.
struct Core {
    AttentionShape shape;
    Matrix q, k, v, o;
    Core(const BlockContext& c, LayerId layer, const AttentionState& s)
        : shape(attentionShape(c, layer)),
          q(s.query.matrix(shape.rows(), shape.num_heads * shape.qk_head_dim)),
          k(s.key.matrix(shape.rows(), shape.num_kv_heads * shape.qk_head_dim)),
          v(s.value.matrix(shape.rows(), shape.num_kv_heads * shape.v_head_dim)),
          o(s.out.matrix(shape.rows(), shape.num_heads * shape.v_head_dim)) {}
};

/// The core out of query, key and value.
Status coreForward(const BlockContext& c, LayerId layer, AttentionState& s) {
    const AttentionShape shape = attentionShape(c, layer);
    if (s.out.empty()) {
        PIPER_ASSIGN(s.out,
                     c.floats(kAttention, shape.rows() * shape.num_heads * shape.v_head_dim));
    }
    PIPER_ASSIGN(s.lse, c.floats(kAttention, shape.lseSize()));
    const Core core(c, layer, s);
    return c.backend.attentionForward(shape, core.q, core.k, core.v, core.o, s.lse.floats());
}

/// Gradients of query, key and value out of that of the core's output [T, h].
Status coreBackward(const BlockContext& c, const LayerTensors& w, ConstMatrix dy,
                    AttentionState& s) {
    const Core core(c, w.layer, s);
    PIPER_ASSIGN(Buffer d_out, c.floats(kGradient, core.o.size()));
    const Matrix d_o = d_out.matrix(core.o.rows, core.o.cols);
    PIPER_TRY(c.backend.linearInputGrad(dy, w.output, d_o, Store::Overwrite));
    PIPER_ASSIGN(s.d_query, c.floats(kGradient, core.q.size()));
    PIPER_ASSIGN(s.d_key, c.floats(kGradient, core.k.size()));
    PIPER_ASSIGN(s.d_value, c.floats(kGradient, core.v.size()));
    return c.backend.attentionBackward(core.shape, core.q, core.k, core.v, core.o, s.lse.floats(),
                                       d_o, s.d_query.matrix(core.q.rows, core.q.cols),
                                       s.d_key.matrix(core.k.rows, core.k.cols),
                                       s.d_value.matrix(core.v.rows, core.v.cols));
}

}  // namespace

AttentionShape attentionShape(const BlockContext& c, LayerId layer) {
    const AttentionSpec& a = c.plan.model.attention;
    const bool windowed =
        std::ranges::find(a.full_attention_layers, layer.value) == a.full_attention_layers.end();
    const std::int64_t heads = a.num_heads / c.tensor.size();
    return {.batch = c.plan.micro_batch_size,
            .seq_len = c.plan.seq_len,
            .num_heads = heads,
            .num_kv_heads = isLatent(c) ? heads : a.num_kv_heads / c.tensor.size(),
            .qk_head_dim = a.qkHeadDim(),
            .v_head_dim = a.vHeadDim(),
            .sliding_window = windowed ? a.sliding_window : 0};
}

Status attentionForward(const BlockContext& c, const LayerTensors& w, ConstMatrix x, Matrix y,
                        AttentionState& s) {
    PIPER_TRY(normForward(c, x, w.attention_norm, kAttention, s.norm));
    {
        PIPER_ASSIGN(const GatheredRows all, c.tensor.gather(c.rows(s.norm.y)));
        PIPER_TRY(isLatent(c) ? latentForward(c, w, all.rows, s)
                              : groupedQueryForward(c, w, all.rows, s));
    }
    PIPER_TRY(coreForward(c, w.layer, s));
    const Core core(c, w.layer, s);
    PIPER_TRY(c.summed(y, Store::Overwrite, [&](Matrix out, Store store) {
        return c.backend.linearForward(core.o, w.output, out, store);
    }));
    if (!w.output_bias.empty()) PIPER_TRY(c.backend.biasForward(w.output_bias, y));
    return c.backend.add({x.data, x.count()}, y.span());
}

void dropAttention(const BlockContext& c, AttentionState& s) {
    if (recomputes(c.plan, "layernorm")) s.norm.y.reset();
    if (recomputes(c.plan, "core_attn")) s.lse.reset();
    if (!recomputes(c.plan, "mla_up_proj") || !isLatent(c)) return;
    s.query.reset();
    s.key.reset();
    s.value.reset();
}

Status attentionRecompute(const BlockContext& c, const LayerTensors& w, ConstMatrix x,
                          AttentionState& s) {
    if (s.norm.y.empty()) PIPER_TRY(normForward(c, x, w.attention_norm, kAttention, s.norm));
    if (isLatent(c) && s.key.empty()) PIPER_TRY(latentUpForward(c, w, s));
    return s.lse.empty() ? coreForward(c, w.layer, s) : Status{};
}

Result<Buffer> attentionInputGrad(const BlockContext& c, const LayerTensors& w, ConstMatrix x,
                                  Buffer dy, AttentionState& s) {
    PIPER_ASSIGN(GatheredRows all, c.tensor.gather(c.rows(dy)));
    PIPER_TRY(coreBackward(c, w, all.rows, s));
    PIPER_TRY(isLatent(c) ? latentInputGrad(c, w, s) : groupedQueryInputGrad(c, w, s));
    PIPER_ASSIGN(s.d_norm, c.hiddenState(kGradient));
    PIPER_TRY(c.summed(c.rows(s.d_norm), Store::Overwrite, [&](Matrix out, Store store) {
        return isLatent(c) ? latentAddInputGrad(c, w, s, out, store)
                           : groupedQueryAddInputGrad(c, w, s, out, store);
    }));
    PIPER_ASSIGN(Buffer dx, c.copyOf(dy, kGradient));
    s.dy = std::move(dy);
    s.dy_all = std::move(all.held);
    PIPER_TRY(normInputGrad(c, c.rows(s.d_norm), x, w.attention_norm, s.norm, c.rows(dx),
                            Store::Accumulate));
    return dx;
}

Status attentionWeightGrad(const BlockContext& c, ConstMatrix x, LayerTensors& dw,
                           AttentionState& s) {
    const Core core(c, dw.layer, s);
    PIPER_ASSIGN(const GatheredRows normed, c.tensor.gather(c.rows(s.norm.y)));
    const ConstMatrix dy =
        s.dy_all.empty() ? ConstMatrix(c.rows(s.dy)) : s.dy_all.matrix(c.allTokens(), c.hidden());
    PIPER_TRY(c.backend.linearWeightGrad(dy, core.o, dw.output));
    if (!dw.output_bias.empty()) PIPER_TRY(c.backend.biasWeightGrad(c.rows(s.dy), dw.output_bias));
    PIPER_TRY(isLatent(c) ? latentWeightGrad(c, normed.rows, dw, s)
                          : groupedQueryWeightGrad(c, normed.rows, dw, s));
    return normWeightGrad(c, c.rows(s.d_norm), x, s.norm, dw.attention_norm);
}

}  // namespace piper
