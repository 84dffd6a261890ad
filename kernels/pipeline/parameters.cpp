// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/parameters.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/plan/pipeline_shape.h"

namespace piper {
namespace {

constexpr float kStddev = 0.02F;
constexpr std::array<MemoryTerm, 4> kTerms{MemoryTerm::Weights, MemoryTerm::Gradients,
                                           MemoryTerm::OptimizerState, MemoryTerm::OptimizerState};

/// Hands out the tensors of a stage one after the other. Without base pointers it only measures.
class Carver {
public:
    Carver(std::array<float*, kNumParameterGroups> base, std::vector<ParameterEntry>* entries)
        : m_base(base), m_entries(entries) {}

    Matrix matrix(std::string name, std::int64_t rows, std::int64_t cols,
                  ParameterGroup group = ParameterGroup::Dense) {
        return {take(std::move(name), rows * cols, group, true), rows, cols};
    }
    Vector vector(std::string name, std::int64_t n) {
        return {take(std::move(name), n, ParameterGroup::Dense, false),
                static_cast<std::size_t>(n)};
    }
    /// Layer of the tensors that follow, invalid for none.
    void setLayer(LayerId layer) { m_layer = layer; }
    [[nodiscard]] std::int64_t used(ParameterGroup group) const {
        return m_used[static_cast<std::size_t>(group)];
    }

private:
    float* take(std::string name, std::int64_t count, ParameterGroup group, bool decays) {
        std::int64_t& used = m_used[static_cast<std::size_t>(group)];
        float* base = m_base[static_cast<std::size_t>(group)];
        if (m_entries != nullptr)
            m_entries->push_back({std::move(name), group, used, count, decays, m_layer});
        float* data = base == nullptr ? nullptr : base + used;
        used += count;
        return data;
    }

    std::array<float*, kNumParameterGroups> m_base;
    std::array<std::int64_t, kNumParameterGroups> m_used{};
    std::vector<ParameterEntry>* m_entries;
    LayerId m_layer;
};

std::int64_t upWidth(MlpKind kind, std::int64_t ffn) {
    return kind == MlpKind::SwiGlu ? 2 * ffn : ffn;
}

MlpTensors carveMlp(Carver& carver, const std::string& name, std::int64_t hidden, std::int64_t ffn,
                    MlpKind kind, std::int64_t groups, ParameterGroup group) {
    MlpTensors mlp;
    mlp.ffn = ffn;
    mlp.up = carver.matrix(name + " up", groups * upWidth(kind, ffn), hidden, group);
    mlp.down = carver.matrix(name + " down", groups * hidden, ffn, group);
    return mlp;
}

LayerTensors carveLayer(Carver& carver, const ModelSpec& model, LayerId layer,
                        std::int64_t experts) {
    const AttentionSpec& a = model.attention;
    const std::int64_t h = model.hidden_size, q = a.num_heads * a.head_dim,
                       kv = a.num_kv_heads * a.head_dim;
    const std::string name = fmt::format("layer {} ", layer.value);
    LayerTensors out;
    out.layer = layer;
    out.attention_norm = carver.vector(name + "attention norm", h);
    out.query = carver.matrix(name + "query", q, h);
    out.key = carver.matrix(name + "key", kv, h);
    out.value = carver.matrix(name + "value", kv, h);
    out.output = carver.matrix(name + "output", h, q);
    if (a.qk_norm) {
        out.query_norm = carver.vector(name + "query norm", a.qk_norm_full ? q : a.head_dim);
        out.key_norm = carver.vector(name + "key norm", a.qk_norm_full ? kv : a.head_dim);
    }
    out.mlp_norm = carver.vector(name + "mlp norm", h);
    if (!model.isMoe(layer)) {
        out.mlp = carveMlp(carver, name + "mlp", h, model.ffn_hidden_size, model.dense_mlp, 1,
                           ParameterGroup::Dense);
        return out;
    }
    const MoeSpec& moe = *model.moe;
    out.router = carver.matrix(name + "router", moe.num_experts, h);
    out.mlp = carveMlp(carver, name + "experts", h, moe.moe_ffn_hidden_size, moe.mlp, experts,
                       ParameterGroup::Expert);
    if (moe.shared_ffn_hidden_size > 0)
        out.shared = carveMlp(carver, name + "shared", h, moe.shared_ffn_hidden_size, moe.mlp, 1,
                              ParameterGroup::Dense);
    return out;
}

StageTensors carveStage(Carver& carver, const Plan& plan, StageId stage, std::int64_t experts) {
    const ModelSpec& model = plan.model;
    StageTensors out;
    const PipelineShape shape = pipelineShape(plan);
    if (holdsEmbedding(shape, stage))
        out.embedding = carver.matrix("embedding", model.vocab_size, model.hidden_size);
    std::vector<LayerRange> chunks;
    for (std::int32_t chunk = 0; chunk < shape.chunks(); ++chunk)
        chunks.push_back(stageLayers(plan, stage, ModelChunkId(chunk)));
    // In model order, so that ranks with the same layers lay them out the same.
    std::ranges::sort(chunks, {}, &LayerRange::begin);
    for (const LayerRange& range : chunks) {
        for (std::int64_t l = range.begin; l < range.end; ++l) {
            const LayerId layer(static_cast<std::int32_t>(l));
            carver.setLayer(layer);
            out.layers.push_back(carveLayer(carver, model, layer, experts));
        }
    }
    carver.setLayer(LayerId());
    if (holdsHead(shape, stage)) {
        out.final_norm = carver.vector("final norm", model.hidden_size);
        out.head = carver.matrix("head", model.vocab_size, model.hidden_size);
    }
    return out;
}

/// Writes the initial values of one tensor at a time through host memory.
class Initializer {
public:
    Initializer(const ModelSpec& model, std::uint64_t seed, Backend& backend)
        : m_model(model),
          m_seed(seed),
          m_backend(backend),
          m_output_stddev(kStddev / std::sqrt(2.0F * static_cast<float>(model.num_layers))) {}

    Status stage(const StageTensors& stage, const std::vector<ExpertId>& experts) {
        PIPER_TRY(fill(stage.embedding, WeightTensor::Embedding, {}, {}, kStddev));
        PIPER_TRY(fill(stage.head, WeightTensor::Head, {}, {}, kStddev));
        PIPER_TRY(ones(stage.final_norm));
        for (const LayerTensors& layer : stage.layers) PIPER_TRY(layerWeights(layer, experts));
        return {};
    }

private:
    Status layerWeights(const LayerTensors& w, const std::vector<ExpertId>& experts) {
        for (const Vector norm : {w.attention_norm, w.query_norm, w.key_norm, w.mlp_norm})
            PIPER_TRY(ones(norm));
        PIPER_TRY(fill(w.query, WeightTensor::Query, w.layer, {}, kStddev));
        PIPER_TRY(fill(w.key, WeightTensor::Key, w.layer, {}, kStddev));
        PIPER_TRY(fill(w.value, WeightTensor::Value, w.layer, {}, kStddev));
        PIPER_TRY(fill(w.output, WeightTensor::AttentionOutput, w.layer, {}, m_output_stddev));
        PIPER_TRY(fill(w.router, WeightTensor::Router, w.layer, {}, kStddev));
        if (!m_model.isMoe(w.layer))
            return mlp(w.mlp, {}, w.layer,
                       {WeightTensor::DenseGate, WeightTensor::DenseUp, WeightTensor::DenseDown},
                       m_model.dense_mlp, 0, 1);
        for (std::size_t e = 0; e < experts.size(); ++e)
            PIPER_TRY(
                mlp(w.mlp, experts[e], w.layer,
                    {WeightTensor::ExpertGate, WeightTensor::ExpertUp, WeightTensor::ExpertDown},
                    m_model.moe->mlp, static_cast<std::int64_t>(e),
                    static_cast<std::int64_t>(experts.size())));
        if (w.shared.ffn == 0) return {};
        return mlp(w.shared, {}, w.layer,
                   {WeightTensor::SharedGate, WeightTensor::SharedUp, WeightTensor::SharedDown},
                   m_model.moe->mlp, 0, 1);
    }

    Status mlp(const MlpTensors& w, ExpertId expert, LayerId layer,
               std::array<WeightTensor, 3> tensors, MlpKind kind, std::int64_t group,
               std::int64_t groups) {
        const std::int64_t width = w.up.rows / groups, hidden = w.down.rows / groups;
        std::int64_t row = group * width;
        if (kind == MlpKind::SwiGlu) {
            PIPER_TRY(fill(w.up.slice(row, w.ffn), tensors[0], layer, expert, kStddev));
            row += w.ffn;
        }
        PIPER_TRY(fill(w.up.slice(row, w.ffn), tensors[1], layer, expert, kStddev));
        return fill(w.down.slice(group * hidden, hidden), tensors[2], layer, expert,
                    m_output_stddev);
    }

    Status fill(Matrix out, WeightTensor tensor, LayerId layer, ExpertId expert, float stddev) {
        if (out.size() == 0) return {};
        m_host.resize(out.count());
        const WeightKey key{m_seed, layer, tensor, expert};
        fillInitialWeights({m_host.data(), out.rows, out.cols}, key, stddev, out.cols);
        return m_backend.copyToDevice(std::as_bytes(std::span(m_host)),
                                      std::as_writable_bytes(out.span()));
    }
    Status ones(Vector x) {
        if (x.empty()) return {};
        return m_backend.fill(x, 1.0F);
    }

    const ModelSpec& m_model;
    std::uint64_t m_seed;
    Backend& m_backend;
    float m_output_stddev;
    std::vector<float> m_host;
};

}  // namespace

LayerTensors& StageTensors::of(LayerId layer) {
    for (LayerTensors& tensors : layers)
        if (tensors.layer == layer) return tensors;
    PIPER_CHECK(!"a layer of another stage");
    return layers.front();
}

Vector ParameterStore::part(std::size_t copy, const ParameterEntry& entry) {
    return buffer(copy, entry.group)
        .floats()
        .subspan(static_cast<std::size_t>(entry.offset), static_cast<std::size_t>(entry.count));
}

Result<ParameterStore> ParameterStore::create(const Plan& plan, StageId stage,
                                              const std::vector<ExpertId>& experts,
                                              std::uint64_t seed, Backend& backend) {
    ParameterStore store;
    const auto num_experts = static_cast<std::int64_t>(experts.size());
    Carver measure({}, &store.m_entries);
    carveStage(measure, plan, stage, num_experts);
    std::array<std::array<float*, kNumParameterGroups>, kCopies> base{};
    for (std::size_t copy = 0; copy < kCopies; ++copy)
        for (std::size_t g = 0; g < kNumParameterGroups; ++g) {
            const auto group = static_cast<ParameterGroup>(g);
            PIPER_ASSIGN(store.buffer(copy, group),
                         backend.allocator().allocateFloats(kTerms[copy], measure.used(group)));
            base[copy][g] = store.buffer(copy, group).floats().data();
            if (copy > 0) PIPER_TRY(backend.fill(store.buffer(copy, group).floats(), 0.0F));
        }
    Carver weights(base[0], nullptr), gradients(base[1], nullptr);
    store.m_weights = carveStage(weights, plan, stage, num_experts);
    store.m_gradients = carveStage(gradients, plan, stage, num_experts);
    PIPER_TRY(Initializer(plan.model, seed, backend).stage(store.m_weights, experts));
    return store;
}

Status ParameterStore::clearGradients(Backend& backend) {
    for (const ParameterGroup group : {ParameterGroup::Dense, ParameterGroup::Expert})
        PIPER_TRY(backend.fill(flatGradients(group), 0.0F));
    return {};
}

Result<double> ParameterStore::squaredNorm(Backend& backend, ParameterGroup group) {
    double sum = 0.0;
    PIPER_TRY(backend.addSquaredSum(flatGradients(group), sum));
    return sum;
}

Result<std::optional<std::int64_t>> ParameterStore::nonFiniteLayer(Backend& backend,
                                                                   std::int64_t num_layers) {
    std::optional<std::int64_t> lowest;
    for (const ParameterEntry& entry : m_entries) {
        double sum = 0.0;
        PIPER_TRY(backend.addSquaredSum(part(1, entry), sum));
        if (std::isfinite(sum)) continue;
        const std::int64_t layer = entry.layer.valid() ? entry.layer.value : num_layers;
        lowest = lowest ? std::min(*lowest, layer) : layer;
    }
    return lowest;
}

Status ParameterStore::update(Backend& backend, const AdamWParameters& parameters) {
    for (const ParameterEntry& entry : m_entries) {
        AdamWParameters own = parameters;
        if (!entry.decays) own.weight_decay = 0.0;
        PIPER_TRY(
            backend.adamW(own, part(1, entry), part(0, entry), part(2, entry), part(3, entry)));
    }
    return {};
}

}  // namespace piper
