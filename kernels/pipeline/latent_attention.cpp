// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention (arXiv 2405.04434): query and key-value are compressed, normed and
// expanded; a part of each head, the same for all keys, carries the rotation.
#include "kernels/pipeline/blocks.h"

namespace piper {
namespace {

/// Sizes of this rank's heads.
struct Sizes {
    std::int64_t rows, heads, nope, rope, v, q_lora, kv_lora;

    explicit Sizes(const BlockContext& c)
        : rows(c.allTokens()),
          heads(c.plan.model.attention.num_heads / c.tensor.size()),
          nope(c.plan.model.attention.qk_nope_head_dim),
          rope(c.plan.model.attention.qk_rope_head_dim),
          v(c.plan.model.attention.v_head_dim),
          q_lora(c.plan.model.attention.q_lora_rank),
          kv_lora(c.plan.model.attention.kv_lora_rank) {}

    [[nodiscard]] std::int64_t qk() const { return nope + rope; }
    [[nodiscard]] Matrix query(const Buffer& b) const { return b.matrix(rows, heads * qk()); }
    [[nodiscard]] Matrix value(const Buffer& b) const { return b.matrix(rows, heads * v); }
    /// Keys without rotation and values of every head, side by side.
    [[nodiscard]] Matrix keyValue(const Buffer& b) const {
        return b.matrix(rows, heads * (nope + v));
    }
    [[nodiscard]] Matrix latent(const Buffer& b) const { return b.matrix(rows, kv_lora); }
    [[nodiscard]] Matrix compressed(const Buffer& b) const { return b.matrix(rows, q_lora); }
    [[nodiscard]] Matrix rotary(const Buffer& b) const { return b.matrix(rows, rope); }
    /// Rows of the down-projection that make the latent state, and those of the rotary key.
    [[nodiscard]] Matrix latentRows(const Matrix& down) const { return down.slice(0, kv_lora); }
    [[nodiscard]] Matrix rotaryRows(const Matrix& down) const { return down.slice(kv_lora, rope); }
};

RotaryShape queryRotary(const BlockContext& c, const Sizes& z) {
    return {.seq_len = c.plan.seq_len,
            .num_heads = z.heads,
            .head_dim = z.rope,
            .theta = c.plan.model.rope_theta,
            .stride = z.qk(),
            .first = z.nope};
}
RotaryShape keyRotary(const BlockContext& c, const Sizes& z) {
    return {.seq_len = c.plan.seq_len,
            .num_heads = 1,
            .head_dim = z.rope,
            .theta = c.plan.model.rope_theta};
}

/// Compressed states and their norms.
Status down(const BlockContext& c, const Sizes& z, const LayerTensors& w, ConstMatrix normed,
            LatentState& s) {
    if (z.q_lora > 0) {
        PIPER_ASSIGN(s.query_raw, c.floats(kAttention, z.rows * z.q_lora));
        const Matrix raw = z.compressed(s.query_raw);
        PIPER_TRY(c.backend.linearForward(normed, w.latent.query_down, raw, Store::Overwrite));
        PIPER_TRY(normForward(c, raw, {w.latent.query_norm, {}}, kAttention, s.query_norm));
    }
    PIPER_ASSIGN(s.key_value_raw, c.floats(kAttention, z.rows * z.kv_lora));
    PIPER_ASSIGN(s.key_rotary, c.floats(kAttention, z.rows * z.rope));
    const Matrix raw = z.latent(s.key_value_raw), rotary = z.rotary(s.key_rotary);
    const Matrix& weight = w.latent.key_value_down;
    PIPER_TRY(c.backend.linearForward(normed, z.latentRows(weight), raw, Store::Overwrite));
    PIPER_TRY(c.backend.linearForward(normed, z.rotaryRows(weight), rotary, Store::Overwrite));
    PIPER_TRY(c.backend.rotaryForward(keyRotary(c, z), rotary));
    return normForward(c, raw, {w.latent.key_value_norm, {}}, kAttention, s.key_value_norm);
}

/// query = x weight^T with the rotary part of every head turned.
Status queryUp(const BlockContext& c, const Sizes& z, ConstMatrix x, const Matrix& weight,
               Buffer& query) {
    PIPER_ASSIGN(query, c.floats(kAttention, z.rows * z.heads * z.qk()));
    PIPER_TRY(c.backend.linearForward(x, weight, z.query(query), Store::Overwrite));
    return c.backend.rotaryForward(queryRotary(c, z), z.query(query));
}

Status keyValueUp(const BlockContext& c, const Sizes& z, const LayerTensors& w, AttentionState& s) {
    PIPER_ASSIGN(s.key, c.floats(kAttention, z.rows * z.heads * z.qk()));
    PIPER_ASSIGN(s.value, c.floats(kAttention, z.rows * z.heads * z.v));
    PIPER_ASSIGN(const Buffer both,
                 c.floats(MemoryTerm::Workspace, z.rows * z.heads * (z.nope + z.v)));
    const Matrix kv = z.keyValue(both);
    PIPER_TRY(c.backend.linearForward(z.latent(s.latent.key_value_norm.y), w.latent.key_value_up,
                                      kv, Store::Overwrite));
    const Matrix key = z.query(s.key);
    PIPER_TRY(c.backend.copyBlocks(kv, {0, z.nope + z.v}, key, {0, z.qk()}, z.heads, z.nope,
                                   Store::Overwrite));
    PIPER_TRY(c.backend.copyBlocks(z.rotary(s.latent.key_rotary), {0, 0}, key, {z.nope, z.qk()},
                                   z.heads, z.rope, Store::Overwrite));
    return c.backend.copyBlocks(kv, {z.nope, z.nope + z.v}, z.value(s.value), {0, z.v}, z.heads,
                                z.v, Store::Overwrite);
}

}  // namespace

Status latentUpForward(const BlockContext& c, const LayerTensors& w, AttentionState& s) {
    const Sizes z(c);
    if (z.q_lora > 0) {
        PIPER_TRY(queryUp(c, z, z.compressed(s.latent.query_norm.y), w.latent.query_up, s.query));
    } else if (s.query.empty()) {
        // A query that is not compressed comes from the normed input.
        PIPER_ASSIGN(const GatheredRows all, c.tensor.gather(c.rows(s.norm.y)));
        PIPER_TRY(queryUp(c, z, all.rows, w.query, s.query));
    }
    return keyValueUp(c, z, w, s);
}

Status latentForward(const BlockContext& c, const LayerTensors& w, ConstMatrix normed,
                     AttentionState& s) {
    const Sizes z(c);
    PIPER_TRY(down(c, z, w, normed, s.latent));
    if (z.q_lora == 0) PIPER_TRY(queryUp(c, z, normed, w.query, s.query));
    return latentUpForward(c, w, s);
}

namespace {

/// dx of an inner norm over the compressed state.
Status innerNormGrad(const BlockContext& c, Matrix dy, Matrix raw, const Vector& weight,
                     const NormState& norm, Buffer& out) {
    PIPER_ASSIGN(out, c.floats(kGradient, raw.size()));
    return normInputGrad(c, dy, raw, {weight, {}}, norm, out.matrix(raw.rows, raw.cols),
                         Store::Overwrite);
}

Status keyValueGrad(const BlockContext& c, const Sizes& z, const LayerTensors& w,
                    AttentionState& s) {
    LatentState& l = s.latent;
    PIPER_ASSIGN(l.d_key_value, c.floats(kGradient, z.rows * z.heads * (z.nope + z.v)));
    PIPER_ASSIGN(l.d_key_rotary, c.floats(kGradient, z.rows * z.rope));
    const Matrix kv = z.keyValue(l.d_key_value), key = z.query(s.d_key);
    PIPER_TRY(c.backend.copyBlocks(key, {0, z.qk()}, kv, {0, z.nope + z.v}, z.heads, z.nope,
                                   Store::Overwrite));
    PIPER_TRY(c.backend.copyBlocks(z.value(s.d_value), {0, z.v}, kv, {z.nope, z.nope + z.v},
                                   z.heads, z.v, Store::Overwrite));
    PIPER_TRY(c.backend.fill(l.d_key_rotary.floats(), 0.0F));
    PIPER_TRY(c.backend.copyBlocks(key, {z.nope, z.qk()}, z.rotary(l.d_key_rotary), {0, 0}, z.heads,
                                   z.rope, Store::Accumulate));
    PIPER_TRY(c.backend.rotaryInputGrad(keyRotary(c, z), z.rotary(l.d_key_rotary)));
    s.d_key.reset();
    s.d_value.reset();
    PIPER_ASSIGN(l.d_key_value_norm, c.floats(kGradient, z.rows * z.kv_lora));
    const Matrix d_norm = z.latent(l.d_key_value_norm);
    PIPER_TRY(c.backend.linearInputGrad(kv, w.latent.key_value_up, d_norm, Store::Overwrite));
    return innerNormGrad(c, d_norm, z.latent(l.key_value_raw), w.latent.key_value_norm,
                         l.key_value_norm, l.d_key_value_raw);
}

}  // namespace

Status latentInputGrad(const BlockContext& c, const LayerTensors& w, AttentionState& s) {
    const Sizes z(c);
    LatentState& l = s.latent;
    PIPER_TRY(keyValueGrad(c, z, w, s));
    PIPER_TRY(c.backend.rotaryInputGrad(queryRotary(c, z), z.query(s.d_query)));
    if (z.q_lora == 0) return {};
    PIPER_ASSIGN(l.d_query_norm, c.floats(kGradient, z.rows * z.q_lora));
    const Matrix d_norm = z.compressed(l.d_query_norm);
    PIPER_TRY(
        c.backend.linearInputGrad(z.query(s.d_query), w.latent.query_up, d_norm, Store::Overwrite));
    return innerNormGrad(c, d_norm, z.compressed(l.query_raw), w.latent.query_norm, l.query_norm,
                         l.d_query_raw);
}

Status latentAddInputGrad(const BlockContext& c, const LayerTensors& w, AttentionState& s,
                          Matrix d_norm, Store store) {
    const Sizes z(c);
    LatentState& l = s.latent;
    PIPER_TRY(z.q_lora > 0 ? c.backend.linearInputGrad(z.compressed(l.d_query_raw),
                                                       w.latent.query_down, d_norm, store)
                           : c.backend.linearInputGrad(z.query(s.d_query), w.query, d_norm, store));
    const Matrix& weight = w.latent.key_value_down;
    PIPER_TRY(c.backend.linearInputGrad(z.latent(l.d_key_value_raw), z.latentRows(weight), d_norm,
                                        Store::Accumulate));
    return c.backend.linearInputGrad(z.rotary(l.d_key_rotary), z.rotaryRows(weight), d_norm,
                                     Store::Accumulate);
}

Status latentWeightGrad(const BlockContext& c, ConstMatrix normed, LayerTensors& dw,
                        AttentionState& s) {
    const Sizes z(c);
    LatentState& l = s.latent;
    LatentTensors& d = dw.latent;
    if (z.q_lora > 0) {
        PIPER_TRY(c.backend.linearWeightGrad(z.query(s.d_query), z.compressed(l.query_norm.y),
                                             d.query_up));
        PIPER_TRY(normWeightGrad(c, z.compressed(l.d_query_norm), z.compressed(l.query_raw),
                                 l.query_norm, {d.query_norm, {}}));
        PIPER_TRY(c.backend.linearWeightGrad(z.compressed(l.d_query_raw), normed, d.query_down));
    } else {
        PIPER_TRY(c.backend.linearWeightGrad(z.query(s.d_query), normed, dw.query));
    }
    PIPER_TRY(c.backend.linearWeightGrad(z.keyValue(l.d_key_value), z.latent(l.key_value_norm.y),
                                         d.key_value_up));
    PIPER_TRY(normWeightGrad(c, z.latent(l.d_key_value_norm), z.latent(l.key_value_raw),
                             l.key_value_norm, {d.key_value_norm, {}}));
    PIPER_TRY(c.backend.linearWeightGrad(z.latent(l.d_key_value_raw), normed,
                                         z.latentRows(d.key_value_down)));
    return c.backend.linearWeightGrad(z.rotary(l.d_key_rotary), normed,
                                      z.rotaryRows(d.key_value_down));
}

}  // namespace piper
