// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/stage_model.h"

#include <cmath>

#include "core/plan/pipeline_shape.h"
#include "kernels/pipeline/support.h"

namespace piper {
namespace {

std::vector<std::int64_t> ownersOrNone(const Plan& plan) {
    return plan.model.moe ? expertOwners(plan) : std::vector<std::int64_t>{};
}

Error notRun(const Operation& op) {
    return fail(ErrorCode::Unsupported, "the CPU worker does not run {}", describe(op));
}

}  // namespace

StageModel::StageModel(Parts parts, std::vector<std::int64_t> owners)
    : m_parts(std::move(parts)),
      m_context{m_parts.plan, m_parts.backend},
      m_exchange(*m_parts.groups.ep, m_parts.backend.allocator(),
                 m_parts.plan.all_to_all.algorithm),
      m_moe(m_context, m_exchange, owners) {}

Result<std::unique_ptr<StageModel>> StageModel::create(Parts parts) {
    PIPER_TRY(canRun(parts.plan));
    if (parts.plan.model.vocab_size < ByteDataset::kVocabSize)
        return fail(ErrorCode::InvalidInput, "vocab_size {} is below the {} values of a byte",
                    parts.plan.model.vocab_size, ByteDataset::kVocabSize);
    const std::vector<std::int64_t> owners = ownersOrNone(parts.plan);
    std::unique_ptr<StageModel> model(new StageModel(std::move(parts), owners));
    std::vector<ExpertId> experts;
    for (std::size_t e = 0; e < owners.size(); ++e)
        if (owners[e] == model->m_parts.groups.place.ep) experts.emplace_back(e);
    PIPER_ASSIGN(model->m_parameters,
                 ParameterStore::create(model->m_parts.plan, model->m_parts.groups.stage(), experts,
                                        model->m_parts.constants.seed, model->m_parts.backend));
    return model;
}

Status StageModel::beginStep(std::int64_t step) {
    m_step = step;
    m_loss_sum = m_aux_sum = 0.0;
    m_load.clear();
    m_states.clear();
    return m_parameters.clearGradients(m_parts.backend);
}

void StageModel::endStep() {
    m_states.clear();
}

TransportCounters StageModel::transferred() const {
    const RankGroups& g = m_parts.groups;
    TransportCounters sum;
    for (const Communicator* c : {&m_parts.world, static_cast<Communicator*>(g.pp.get()),
                                  g.ep.get(), g.dp.get(), g.edp.get()}) {
        sum.bytes_sent += c->counters().bytes_sent;
        sum.bytes_received += c->counters().bytes_received;
        sum.messages_sent += c->counters().messages_sent;
    }
    return sum;
}

double StageModel::microBatchShare() const {
    return static_cast<double>(m_parts.plan.micro_batch_size) /
           static_cast<double>(m_parts.plan.global_batch_size);
}

/// Micro-batch m of replica r is block m * dp + r of the global batch, so that every layout sees
/// the same blocks.
std::int64_t StageModel::sampleOf(MicroBatchId micro_batch, std::int64_t index) const {
    const Plan& plan = m_parts.plan;
    const std::int64_t block = micro_batch.value * plan.layout.dp + m_parts.groups.place.dp;
    return m_step * plan.global_batch_size + block * plan.micro_batch_size + index;
}

Status StageModel::loadSamples(MicroBatchId micro_batch, MicroBatchState& state) const {
    const Plan& plan = m_parts.plan;
    const auto n = static_cast<std::size_t>(plan.seq_len);
    state.tokens.resize(static_cast<std::size_t>(m_context.tokens()));
    state.targets.resize(state.tokens.size());
    for (std::int64_t i = 0; i < plan.micro_batch_size; ++i) {
        const std::size_t at = static_cast<std::size_t>(i) * n;
        m_parts.data.sample(sampleOf(micro_batch, i), std::span(state.tokens).subspan(at, n),
                            std::span(state.targets).subspan(at, n));
    }
    return {};
}

StageModel::MicroBatchState& StageModel::stateOf(const Operation& op) {
    return m_states[{op.micro_batch.value, op.model_chunk.value}];
}

Result<BegunOperation> StageModel::begin(const Operation& op) {
    switch (op.key.kind) {
        case OperationKind::Forward:
        case OperationKind::InputGrad:
        case OperationKind::WeightGrad:
        case OperationKind::Optimizer:
            PIPER_TRY(compute(op));
            return BegunOperation{};
        case OperationKind::Recompute:
            return notRun(op);
        default:
            return communicate(op);
    }
}

Status StageModel::compute(const Operation& op) {
    switch (op.key.kind) {
        case OperationKind::Forward:
            return forward(op);
        case OperationKind::InputGrad:
            return inputGrad(op);
        case OperationKind::WeightGrad:
            return weightGrad(op);
        default:
            return optimize();
    }
}

Status StageModel::checkFinite(const Buffer& hidden, const Operation& op) {
    double sum = 0.0;
    PIPER_TRY(m_parts.backend.addSquaredSum(hidden.floats(), sum));
    if (std::isfinite(sum)) return {};
    Error error = fail(ErrorCode::External,
                       "the output of layer {} is not finite (NaN or infinity) in step {}, "
                       "micro-batch {}",
                       op.layer.value, m_step, op.micro_batch.value);
    error.hint = "lower the learning rate";
    return error;
}

Status StageModel::forward(const Operation& op) {
    MicroBatchState& state = stateOf(op);
    const BlockContext& c = m_context;
    const StageTensors& w = m_parameters.weights();
    switch (op.key.phase) {
        case Phase::Embedding: {
            PIPER_TRY(loadSamples(op.micro_batch, state));
            PIPER_ASSIGN(state.hidden, c.hiddenState(MemoryTerm::AttentionActivation));
            return c.backend.embeddingForward(state.tokens, w.embedding, c.rows(state.hidden));
        }
        case Phase::Attention: {
            LayerState& layer = layerOf(op);
            layer.x = std::move(state.hidden);
            PIPER_ASSIGN(layer.middle, c.hiddenState(MemoryTerm::AttentionActivation));
            return attentionForward(c, m_parameters.weights().of(op.layer), c.rows(layer.x),
                                    c.rows(layer.middle), layer.attention);
        }
        case Phase::Router:
            return router(op);
        case Phase::Expert:
            return expertForward(op);
        case Phase::HeadLoss: {
            if (state.targets.empty()) PIPER_TRY(loadSamples(op.micro_batch, state));
            state.head_input = std::move(state.hidden);
            PIPER_TRY(
                headForward(c, w, c.rows(state.head_input), state.targets, m_loss_sum, state.head));
            if (std::isfinite(m_loss_sum)) return {};
            return fail(ErrorCode::External,
                        "the loss is not finite (NaN or infinity) in step {}, micro-batch {}, "
                        "after layer {}",
                        m_step, op.micro_batch.value, m_parts.plan.model.num_layers - 1);
        }
        default:
            return notRun(op);
    }
}

MemoryTerm StageModel::outputTerm(const Operation& op) const {
    // Named after who keeps it, as the model's table does: the head, the next layer's attention, or
    // the message to the next stage.
    const Plan& plan = m_parts.plan;
    if (op.layer.value + 1 == plan.model.num_layers) return MemoryTerm::HeadActivation;
    const bool last =
        op.layer.value + 1 == stageLayers(plan, m_parts.groups.stage(), op.model_chunk).end;
    return last ? MemoryTerm::StageBoundary : MemoryTerm::AttentionActivation;
}

Status StageModel::router(const Operation& op) {
    LayerState& layer = layerOf(op);
    PIPER_ASSIGN(layer.y, m_context.copyOf(layer.middle, outputTerm(op)));
    return chooseExperts(op, layer);
}

Status StageModel::chooseExperts(const Operation& op, LayerState& layer) {
    const Plan& plan = m_parts.plan;
    const auto per_sample = static_cast<std::size_t>(plan.seq_len * plan.model.moe->router_topk);
    std::vector<std::int32_t> replayed;
    if (m_parts.replay != nullptr) {
        replayed.resize(per_sample * static_cast<std::size_t>(plan.micro_batch_size));
        for (std::int64_t i = 0; i < plan.micro_batch_size; ++i)
            PIPER_TRY(m_parts.replay->replay(
                m_step, op.layer, sampleOf(op.micro_batch, i),
                std::span(replayed).subspan(static_cast<std::size_t>(i) * per_sample, per_sample)));
    }
    PIPER_TRY(m_moe.routerForward(m_parameters.weights().of(op.layer), m_context.rows(layer.middle),
                                  replayed, layer.moe, m_aux_sum));
    const Indices chosen = layer.moe.experts.as<std::int32_t>();
    std::vector<std::int64_t>& load = m_load[op.layer];
    load.resize(static_cast<std::size_t>(plan.model.moe->num_experts));
    for (const std::int32_t e : chosen) ++load[static_cast<std::size_t>(e)];
    if (m_parts.record == nullptr) return {};
    for (std::int64_t i = 0; i < plan.micro_batch_size; ++i)
        m_parts.record->record(
            m_step, op.layer, sampleOf(op.micro_batch, i),
            chosen.subspan(static_cast<std::size_t>(i) * per_sample, per_sample));
    return {};
}

Status StageModel::expertForward(const Operation& op) {
    LayerState& layer = layerOf(op);
    const LayerTensors& w = m_parameters.weights().of(op.layer);
    const BlockContext& c = m_context;
    if (m_parts.plan.model.isMoe(op.layer)) {
        if (!op.key.shared_expert)
            return m_moe.expertForward(w, layer.moe.chunks[op.chunk.index()]);
        return mlpForward(c, m_parts.plan.model.moe->mlp, w.shared, c.rows(layer.moe.norm.y),
                          c.rows(layer.y), layer.moe.shared);
    }
    PIPER_ASSIGN(layer.y, c.copyOf(layer.middle, outputTerm(op)));
    PIPER_TRY(normForward(c, c.rows(layer.middle), w.mlp_norm, MemoryTerm::ExpertIntermediate,
                          layer.moe.norm));
    PIPER_TRY(mlpForward(c, m_parts.plan.model.dense_mlp, w.mlp, c.rows(layer.moe.norm.y),
                         c.rows(layer.y), layer.moe.shared));
    PIPER_TRY(checkFinite(layer.y, op));
    stateOf(op).hidden = std::move(layer.y);
    return {};
}

Status StageModel::inputGrad(const Operation& op) {
    MicroBatchState& state = stateOf(op);
    const BlockContext& c = m_context;
    switch (op.key.phase) {
        case Phase::HeadLoss: {
            const double tokens = static_cast<double>(m_parts.plan.global_batch_size) *
                                  static_cast<double>(m_parts.plan.seq_len);
            PIPER_ASSIGN(
                state.gradient,
                headInputGrad(c, m_parameters.weights(), c.rows(state.head_input), state.targets,
                              static_cast<float>(1.0 / tokens), state.head));
            return {};
        }
        case Phase::Expert:
            return expertInputGrad(op);
        case Phase::Router: {
            LayerState& layer = layerOf(op);
            PIPER_ASSIGN(state.gradient,
                         m_moe.routerInputGrad(m_parameters.weights().of(op.layer),
                                               c.rows(layer.middle), microBatchShare(), layer.moe));
            return {};
        }
        case Phase::Attention: {
            LayerState& layer = layerOf(op);
            PIPER_ASSIGN(state.gradient,
                         attentionInputGrad(c, m_parameters.weights().of(op.layer), c.rows(layer.x),
                                            std::move(state.gradient), layer.attention));
            return {};
        }
        default:
            return notRun(op);
    }
}

Status StageModel::expertInputGrad(const Operation& op) {
    MicroBatchState& state = stateOf(op);
    LayerState& layer = layerOf(op);
    const LayerTensors& w = m_parameters.weights().of(op.layer);
    const BlockContext& c = m_context;
    MoeState& moe = layer.moe;
    if (m_parts.plan.model.isMoe(op.layer)) {
        if (!op.key.shared_expert) return m_moe.expertInputGrad(w, moe.chunks[op.chunk.index()]);
        return mlpInputGrad(c, m_parts.plan.model.moe->mlp, w.shared, c.rows(moe.dy),
                            c.rows(moe.d_norm), moe.shared);
    }
    moe.dy = std::move(state.gradient);
    PIPER_ASSIGN(moe.d_norm, c.hiddenState(MemoryTerm::GradientActivation));
    PIPER_TRY(c.backend.fill(moe.d_norm.floats(), 0.0F));
    PIPER_TRY(mlpInputGrad(c, m_parts.plan.model.dense_mlp, w.mlp, c.rows(moe.dy),
                           c.rows(moe.d_norm), moe.shared));
    PIPER_ASSIGN(state.gradient, c.copyOf(moe.dy, MemoryTerm::GradientActivation));
    return c.backend.rmsNormInputGrad(c.rows(moe.d_norm), c.rows(layer.middle), w.mlp_norm,
                                      moe.norm.inverse_rms.floats(), c.rows(state.gradient),
                                      Store::Accumulate);
}

Status StageModel::weightGrad(const Operation& op) {
    MicroBatchState& state = stateOf(op);
    const BlockContext& c = m_context;
    StageTensors& dw = m_parameters.gradients();
    switch (op.key.phase) {
        case Phase::Embedding: {
            const Buffer gradient = std::move(state.gradient);
            return c.backend.embeddingWeightGrad(state.tokens, c.rows(gradient), dw.embedding);
        }
        case Phase::HeadLoss:
            PIPER_TRY(headWeightGrad(c, c.rows(state.head_input), dw, state.head));
            state.head_input.reset();
            return {};
        case Phase::Expert:
            return expertWeightGrad(op);
        case Phase::Router: {
            LayerState& layer = layerOf(op);
            PIPER_TRY(m_moe.routerWeightGrad(c.rows(layer.middle), dw.of(op.layer), layer.moe));
            layer.moe = MoeState{};
            return {};
        }
        case Phase::Attention: {
            // The last operation of a layer: nothing of it is needed any more.
            LayerState& layer = layerOf(op);
            PIPER_TRY(attentionWeightGrad(c, c.rows(layer.x), dw.of(op.layer), layer.attention));
            state.layers.erase(op.layer);
            return {};
        }
        default:
            return notRun(op);
    }
}

Status StageModel::expertWeightGrad(const Operation& op) {
    LayerState& layer = layerOf(op);
    LayerTensors& dw = m_parameters.gradients().of(op.layer);
    const BlockContext& c = m_context;
    MoeState& moe = layer.moe;
    const bool is_moe = m_parts.plan.model.isMoe(op.layer);
    if (is_moe && !op.key.shared_expert)
        return m_moe.expertWeightGrad(dw, moe.chunks[op.chunk.index()]);
    PIPER_TRY(mlpWeightGrad(c, c.rows(moe.dy), c.rows(moe.norm.y), is_moe ? dw.shared : dw.mlp,
                            moe.shared));
    if (is_moe) return {};
    PIPER_TRY(c.backend.rmsNormWeightGrad(c.rows(moe.d_norm), c.rows(layer.middle),
                                          moe.norm.inverse_rms.floats(), dw.mlp_norm));
    moe = MoeState{};
    return {};
}

/// Gradients are already summed over replicas. Every parameter counts once in the norm: dense ones
/// are the same on dp ranks, experts on edp ranks, both on the other copy of the pipeline.
Status StageModel::optimize() {
    const Layout& layout = m_parts.plan.layout;
    const auto copies = static_cast<double>(pipelineShape(m_parts.plan).modelCopies());
    PIPER_ASSIGN(const double dense,
                 m_parameters.squaredNorm(m_parts.backend, ParameterGroup::Dense));
    PIPER_ASSIGN(const double expert,
                 m_parameters.squaredNorm(m_parts.backend, ParameterGroup::Expert));
    std::array<double, 3> sums{dense / (copies * static_cast<double>(layout.dp)) +
                                   expert / (copies * static_cast<double>(layout.edp())),
                               m_loss_sum, m_aux_sum};
    PIPER_TRY(m_parts.world.allReduceSum(sums));
    m_result.gradient_norm = std::sqrt(sums[0]);
    m_result.loss = sums[1] / (static_cast<double>(m_parts.plan.global_batch_size) *
                               static_cast<double>(m_parts.plan.seq_len));
    m_result.aux_loss = sums[2] * microBatchShare();
    if (!std::isfinite(m_result.gradient_norm)) return nonFiniteGradient();
    AdamWParameters adam = m_parts.constants.adam;
    adam.step = ++m_updates;
    const double clip = m_parts.constants.clip_norm;
    if (clip > 0.0 && m_result.gradient_norm > clip)
        adam.gradient_scale *= clip / m_result.gradient_norm;
    return m_parameters.update(m_parts.backend, adam);
}

Status StageModel::nonFiniteGradient() {
    const std::int64_t layers = m_parts.plan.model.num_layers;
    PIPER_ASSIGN(const std::optional<std::int64_t> own,
                 m_parameters.nonFiniteLayer(m_parts.backend, layers));
    std::array<double, 1> first{-static_cast<double>(own.value_or(layers))};
    PIPER_TRY(m_parts.world.allReduceMax(first));
    const auto layer = static_cast<std::int64_t>(-first[0]);
    Error error = fail(
        ErrorCode::External,
        "the gradient of {} is not finite (NaN or infinity) in step {}; the loss "
        "was {}",
        layer < layers ? fmt::format("layer {}", layer) : std::string("the embedding or the head"),
        m_step, m_result.loss);
    error.hint = "lower the learning rate";
    return error;
}

}  // namespace piper
