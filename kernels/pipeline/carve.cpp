// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/carve.h"

#include <algorithm>
#include <cmath>

#include "core/plan/pipeline_shape.h"

namespace piper {
namespace {

constexpr float kStddev = 0.02F;

/// One rank's part of a size that several share evenly.
struct Share {
    std::int64_t rank = 0, size = 1;
    [[nodiscard]] std::int64_t of(std::int64_t whole) const { return whole / size; }
    [[nodiscard]] std::int64_t first(std::int64_t whole) const { return rank * of(whole); }
};

/// What a tensor of this rank is of the whole: all columns of some rows, or all rows of some
/// columns.
struct Cut {
    enum class Along : std::uint8_t { None, Rows, Columns };
    Along along = Along::None;
    Share share;
};

struct Traits {
    ParameterGroup group = ParameterGroup::Dense;
    bool decays = true, replicated = false, partial = false, counted = true;
};

/// Hands out the tensors of a stage one after the other.
class Carver {
public:
    Carver(const Plan& plan, const ParameterPlace& place,
           std::array<float*, kNumParameterGroups> base)
        : m_plan(plan),
          m_model(plan.model),
          m_place(place),
          m_base(base),
          m_tp{place.rank.tp, plan.layout.tp},
          m_etp{place.rank.etp, plan.layout.etp},
          m_output_stddev(kStddev / std::sqrt(2.0F * static_cast<float>(plan.model.num_layers))) {}

    CarvedStage carve();

private:
    using Kind = InitialValues::Kind;

    void open(std::string name, Traits traits);
    /// Adds a piece of the open entry; rows and cols are those of the whole tensor.
    void piece(std::string tensor, std::int64_t rows, std::int64_t cols, Cut cut,
               InitialValues initial);
    float* close(std::int64_t& count);
    Matrix closeMatrix(std::int64_t cols);
    Vector closeVector();

    Matrix matrix(const char* what, std::int64_t rows, std::int64_t cols, Cut cut,
                  WeightTensor tensor, float stddev, Traits traits = {});
    Vector vector(const char* what, std::int64_t n, Kind kind, Traits traits, Cut cut = {});
    NormTensors norm(const char* what, bool partial);
    [[nodiscard]] std::string named(const std::string& what) const;

    LayerTensors layer(LayerId layer);
    void attention(LayerTensors& out);
    void latentAttention(LayerTensors& out);
    MlpTensors mlp(const std::string& what, std::int64_t ffn, MlpKind kind,
                   const std::vector<ExpertId>& experts, Share share,
                   std::array<WeightTensor, 3> tensors, Traits traits);

    [[nodiscard]] Cut rows() const { return {Cut::Along::Rows, m_tp}; }
    [[nodiscard]] Cut columns() const { return {Cut::Along::Columns, m_tp}; }
    /// Of a tensor that every tensor-parallel rank holds whole; its gradient is a part of the sum
    /// where the rank sees only some rows (sequence parallel) or only some heads.
    [[nodiscard]] Traits whole(bool partial, bool decays = false) const {
        const bool split = m_plan.layout.tp > 1;
        return {.decays = decays, .replicated = split, .partial = split && partial};
    }
    [[nodiscard]] bool seesSlices() const { return m_plan.layout.sp; }

    const Plan& m_plan;
    const ModelSpec& m_model;
    const ParameterPlace& m_place;
    std::array<float*, kNumParameterGroups> m_base;
    Share m_tp, m_etp;
    float m_output_stddev;
    LayerId m_layer;
    CarvedStage m_out;
};

std::string Carver::named(const std::string& what) const {
    return m_layer.valid() ? fmt::format("layer {} {}", m_layer.value, what) : what;
}

void Carver::open(std::string name, Traits traits) {
    ParameterEntry entry;
    entry.name = std::move(name);
    entry.group = traits.group;
    entry.offset = m_out.used[static_cast<std::size_t>(traits.group)];
    entry.decays = traits.decays;
    entry.replicated = traits.replicated;
    entry.partial = traits.partial;
    entry.counted = traits.counted;
    entry.layer = m_layer;
    m_out.entries.push_back(std::move(entry));
}

void Carver::piece(std::string tensor, std::int64_t rows, std::int64_t cols, Cut cut,
                   InitialValues initial) {
    ParameterEntry& entry = m_out.entries.back();
    TensorPiece p;
    p.tensor = std::move(tensor);
    p.offset = entry.offset + entry.count;
    p.full_rows = p.rows = rows;
    p.full_cols = p.cols = cols;
    if (cut.along == Cut::Along::Rows) {
        p.rows = cut.share.of(rows);
        p.first_row = cut.share.first(rows);
    } else if (cut.along == Cut::Along::Columns) {
        p.cols = cut.share.of(cols);
        p.first_col = cut.share.first(cols);
    }
    entry.count += p.size();
    entry.pieces.push_back(p);
    m_out.pieces.push_back({std::move(p), entry.group, m_layer, initial});
}

float* Carver::close(std::int64_t& count) {
    const ParameterEntry& entry = m_out.entries.back();
    const auto group = static_cast<std::size_t>(entry.group);
    count = entry.count;
    m_out.used[group] += count;
    return m_base[group] == nullptr ? nullptr : m_base[group] + entry.offset;
}

Matrix Carver::closeMatrix(std::int64_t cols) {
    std::int64_t count = 0;
    float* data = close(count);
    return {data, count / cols, cols};
}

Vector Carver::closeVector() {
    std::int64_t count = 0;
    float* data = close(count);
    return {data, static_cast<std::size_t>(count)};
}

Matrix Carver::matrix(const char* what, std::int64_t rows, std::int64_t cols, Cut cut,
                      WeightTensor tensor, float stddev, Traits traits) {
    open(named(what), traits);
    piece(named(what), rows, cols, cut, {Kind::Normal, tensor, {}, stddev});
    return closeMatrix(m_out.entries.back().pieces.back().cols);
}

Vector Carver::vector(const char* what, std::int64_t n, Kind kind, Traits traits, Cut cut) {
    traits.decays = false;
    open(named(what), traits);
    // A vector that is cut with the rows of its matrix is a column of them.
    const bool along_rows = cut.along == Cut::Along::Rows;
    piece(named(what), along_rows ? n : 1, along_rows ? 1 : n, cut, {.kind = kind});
    return closeVector();
}

NormTensors Carver::norm(const char* what, bool partial) {
    const Traits traits = whole(partial);
    NormTensors out;
    out.weight = vector(what, m_model.hidden_size, Kind::One, traits);
    if (m_model.norm == NormKind::LayerNorm)
        out.bias =
            vector((std::string(what) + " bias").c_str(), m_model.hidden_size, Kind::Zero, traits);
    return out;
}

MlpTensors Carver::mlp(const std::string& what, std::int64_t ffn, MlpKind kind,
                       const std::vector<ExpertId>& experts, Share share,
                       std::array<WeightTensor, 3> tensors, Traits traits) {
    const std::int64_t h = m_model.hidden_size;
    const Cut by_rows{Cut::Along::Rows, share}, by_columns{Cut::Along::Columns, share};
    const auto name = [&](ExpertId e, const char* part) {
        return named(e.valid() ? fmt::format("expert {} {}", e.value, part)
                               : fmt::format("{} {}", what, part));
    };
    MlpTensors out;
    out.ffn = share.of(ffn);
    open(named(what + " up"), traits);
    for (const ExpertId e : experts) {
        if (kind == MlpKind::SwiGlu)
            piece(name(e, "gate"), ffn, h, by_rows, {Kind::Normal, tensors[0], e, kStddev});
        piece(name(e, "up"), ffn, h, by_rows, {Kind::Normal, tensors[1], e, kStddev});
    }
    out.up = closeMatrix(h);
    open(named(what + " down"), traits);
    for (const ExpertId e : experts)
        piece(name(e, "down"), h, ffn, by_columns, {Kind::Normal, tensors[2], e, m_output_stddev});
    out.down = closeMatrix(out.ffn);
    if (!m_model.mlp_bias) return out;
    traits.decays = false;
    open(named(what + " up bias"), traits);
    for (const ExpertId e : experts) {
        if (kind == MlpKind::SwiGlu)
            piece(name(e, "gate bias"), ffn, 1, by_rows, {.kind = Kind::Zero});
        piece(name(e, "up bias"), ffn, 1, by_rows, {.kind = Kind::Zero});
    }
    out.up_bias = closeVector();
    Traits down = traits;
    if (traits.group == ParameterGroup::Dense) down = whole(seesSlices());
    open(named(what + " down bias"), down);
    for (const ExpertId e : experts) piece(name(e, "down bias"), 1, h, {}, {.kind = Kind::Zero});
    out.down_bias = closeVector();
    return out;
}

void Carver::latentAttention(LayerTensors& out) {
    const AttentionSpec& a = m_model.attention;
    const std::int64_t h = m_model.hidden_size, q = a.num_heads * a.qkHeadDim();
    // The compressed states are whole on every rank, their gradients come over its own heads.
    const Traits compressed = whole(true, true);
    LatentTensors& latent = out.latent;
    if (a.q_lora_rank > 0) {
        latent.query_down = matrix("query down", a.q_lora_rank, h, {}, WeightTensor::QueryDown,
                                   kStddev, compressed);
        latent.query_norm = vector("query norm", a.q_lora_rank, Kind::One, whole(true));
        latent.query_up =
            matrix("query up", q, a.q_lora_rank, rows(), WeightTensor::QueryUp, kStddev);
    } else {
        out.query = matrix("query", q, h, rows(), WeightTensor::Query, kStddev);
    }
    latent.key_value_down = matrix("key-value down", a.kv_lora_rank + a.qk_rope_head_dim, h, {},
                                   WeightTensor::KeyValueDown, kStddev, compressed);
    latent.key_value_norm = vector("key-value norm", a.kv_lora_rank, Kind::One, whole(true));
    latent.key_value_up = matrix("key-value up", a.num_heads * (a.qk_nope_head_dim + a.v_head_dim),
                                 a.kv_lora_rank, rows(), WeightTensor::KeyValueUp, kStddev);
    out.output = matrix("output", h, a.num_heads * a.v_head_dim, columns(),
                        WeightTensor::AttentionOutput, m_output_stddev);
}

void Carver::attention(LayerTensors& out) {
    const AttentionSpec& a = m_model.attention;
    const std::int64_t h = m_model.hidden_size, q = a.num_heads * a.head_dim,
                       kv = a.num_kv_heads * a.head_dim;
    out.query = matrix("query", q, h, rows(), WeightTensor::Query, kStddev);
    out.key = matrix("key", kv, h, rows(), WeightTensor::Key, kStddev);
    out.value = matrix("value", kv, h, rows(), WeightTensor::Value, kStddev);
    out.output = matrix("output", h, q, columns(), WeightTensor::AttentionOutput, m_output_stddev);
    if (a.qk_norm) {
        out.query_norm =
            vector("query norm", a.qk_norm_full ? q : a.head_dim, Kind::One, whole(true));
        out.key_norm = vector("key norm", a.qk_norm_full ? kv : a.head_dim, Kind::One, whole(true));
    }
    if (!a.qkv_bias) return;
    out.query_bias = vector("query bias", q, Kind::Zero, {}, rows());
    out.key_bias = vector("key bias", kv, Kind::Zero, {}, rows());
    out.value_bias = vector("value bias", kv, Kind::Zero, {}, rows());
}

LayerTensors Carver::layer(LayerId id) {
    const std::int64_t h = m_model.hidden_size;
    m_layer = id;
    LayerTensors out;
    out.layer = id;
    out.attention_norm = norm("attention norm", seesSlices());
    if (m_model.attention.kind == AttentionKind::Mla)
        latentAttention(out);
    else
        attention(out);
    if (m_model.attention.output_bias)
        out.output_bias = vector("output bias", h, Kind::Zero, whole(seesSlices()));
    out.mlp_norm = norm("mlp norm", seesSlices());
    const std::vector<ExpertId> one(1);
    if (!m_model.isMoe(id)) {
        out.mlp =
            mlp("mlp", m_model.ffn_hidden_size, m_model.dense_mlp, one, m_tp,
                {WeightTensor::DenseGate, WeightTensor::DenseUp, WeightTensor::DenseDown}, {});
        return out;
    }
    const MoeSpec& moe = *m_model.moe;
    out.router = matrix("router", moe.num_experts, h, {}, WeightTensor::Router, kStddev,
                        whole(seesSlices(), true));
    if (moe.expert_bias_routing)
        out.router_bias = vector("router bias", moe.num_experts, Kind::Zero, whole(false));
    out.mlp = mlp("experts", moe.moe_ffn_hidden_size, moe.mlp, m_place.experts, m_etp,
                  {WeightTensor::ExpertGate, WeightTensor::ExpertUp, WeightTensor::ExpertDown},
                  {.group = ParameterGroup::Expert});
    if (moe.shared_ffn_hidden_size == 0) return out;
    out.shared =
        mlp("shared", moe.shared_ffn_hidden_size, moe.mlp, one, m_tp,
            {WeightTensor::SharedGate, WeightTensor::SharedUp, WeightTensor::SharedDown}, {});
    if (moe.shared_gate)
        out.shared_gate = matrix("shared expert gate", 1, h, {}, WeightTensor::SharedExpertGate,
                                 kStddev, whole(true, true));
    return out;
}

CarvedStage Carver::carve() {
    const PipelineShape shape = pipelineShape(m_plan);
    const std::int64_t v = m_model.vocab_size, h = m_model.hidden_size;
    StageTensors& out = m_out.tensors;
    const bool first = holdsEmbedding(shape, m_place.stage);
    if (first) {
        out.embedding = matrix("embedding", v, h, rows(), WeightTensor::Embedding, kStddev);
        if (m_model.position == PositionKind::Learned)
            out.position = matrix("position", m_model.max_position_embeddings, h, {},
                                  WeightTensor::Position, kStddev, whole(seesSlices(), true));
    }
    std::vector<LayerRange> chunks;
    for (std::int32_t chunk = 0; chunk < shape.chunks(); ++chunk)
        chunks.push_back(stageLayers(m_plan, m_place.stage, ModelChunkId(chunk)));
    // In model order, so that ranks with the same layers lay them out the same.
    std::ranges::sort(chunks, {}, &LayerRange::begin);
    for (const LayerRange& range : chunks)
        for (std::int64_t l = range.begin; l < range.end; ++l)
            out.layers.push_back(layer(LayerId(static_cast<std::int32_t>(l))));
    m_layer = LayerId();
    if (holdsHead(shape, m_place.stage)) {
        out.final_norm = norm("final norm", false);
        if (m_model.tie_word_embeddings && first)
            out.head = out.embedding;
        else if (m_model.tie_word_embeddings)
            out.head = matrix("embedding", v, h, rows(), WeightTensor::Embedding, kStddev,
                              {.counted = false});
        else
            out.head = matrix("head", v, h, rows(), WeightTensor::Head, kStddev);
    }
    return std::move(m_out);
}

}  // namespace

CarvedStage carveStage(const Plan& plan, const ParameterPlace& place,
                       std::array<float*, kNumParameterGroups> base) {
    return Carver(plan, place, base).carve();
}

}  // namespace piper
