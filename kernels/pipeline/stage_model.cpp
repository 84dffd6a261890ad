// SPDX-License-Identifier: Apache-2.0
// Making a StageModel, and its forward and recompute operations.
#include "kernels/pipeline/stage_model.h"

#include <algorithm>
#include <cmath>

#include "core/resources/exchange_choice.h"
#include "core/resources/shard.h"
#include "core/schedule/expand.h"
#include "kernels/pipeline/support.h"

namespace piper {
namespace {

std::vector<std::int64_t> ownersOrNone(const Plan& plan) {
    return plan.model.moe ? expertOwners(plan) : std::vector<std::int64_t>{};
}

static_assert(kByteVocabulary == ByteDataset::kVocabSize);

}  // namespace

StageModel::StageModel(Parts parts, std::vector<std::int64_t> owners)
    : m_parts(std::move(parts)),
      m_tensor(m_parts.groups.tp.get(), m_parts.plan.layout.sp, m_parts.backend),
      m_context{m_parts.plan, m_parts.backend, m_tensor},
      m_exchange(*m_parts.groups.ep, m_parts.backend.allocator(),
                 chooseExchange(m_parts.plan, m_parts.groups.ep->size(),
                                ExchangeTopology(m_parts.groups.ep->nodes()).numNodes())),
      m_moe(m_context, *m_parts.groups.ep, m_exchange,
            ExpertSlices(m_parts.groups.etp.get(), m_parts.backend, m_tensor), owners) {}

Result<std::unique_ptr<StageModel>> StageModel::create(Parts parts) {
    PIPER_TRY(canRun(parts.plan));
    const std::vector<std::int64_t> owners = ownersOrNone(parts.plan);
    std::unique_ptr<StageModel> model(new StageModel(std::move(parts), owners));
    if (model->m_parts.constants.local_rows) PIPER_TRY(model->m_exchange.moveLocally());
    const RankGroups& groups = model->m_parts.groups;
    ParameterPlace place{groups.stage(), {}, groups.place};
    for (std::size_t e = 0; e < owners.size(); ++e)
        if (owners[e] == groups.place.ep) place.experts.emplace_back(e);
    ShardGroups shards;
    if (model->m_parts.plan.zero_stage >= 1) shards = {groups.dp.get(), groups.edp.get()};
    PIPER_ASSIGN(model->m_parameters,
                 ParameterStore::create(model->m_parts.plan, place, model->m_parts.constants.seed,
                                        model->m_parts.backend, shards));
    return model;
}

Status StageModel::beginStep(std::int64_t step) {
    m_step = step;
    m_loss_sum = m_aux_sum = 0.0;
    m_dropped = 0;
    m_joined = false;
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
                                  g.ep.get(), g.dp.get(), g.edp.get(), g.tp.get(), g.etp.get()}) {
        if (c == nullptr) continue;
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
    state.tokens.resize(static_cast<std::size_t>(m_context.allTokens()));
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
        case OperationKind::Recompute:
        case OperationKind::Optimizer:
            PIPER_TRY(compute(op));
            return BegunOperation{};
        default:
            return communicate(op);
    }
}

Status StageModel::compute(const Operation& op) {
    switch (op.key.kind) {
        case OperationKind::Forward:
            return forward(op);
        case OperationKind::Recompute:
            return recompute(op);
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
            return embeddingForward(c, w, state.tokens, c.rows(state.hidden));
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
        case Phase::HeadLoss:
            if (state.targets.empty()) PIPER_TRY(loadSamples(op.micro_batch, state));
            PIPER_TRY(
                headForward(c, w, std::move(state.hidden), state.targets, m_loss_sum, state.head));
            if (std::isfinite(m_loss_sum)) return {};
            return fail(ErrorCode::External,
                        "the loss is not finite (NaN or infinity) in step {}, micro-batch {}, "
                        "after layer {}",
                        m_step, op.micro_batch.value, m_parts.plan.model.num_layers - 1);
        default:
            return notRun(op);
    }
}

MemoryTerm StageModel::outputTerm(const Operation& op) const {
    // Named after who keeps it, as the model's table does: the head, the next layer's attention, or
    // the message to the next stage.
    const Plan& plan = m_parts.plan;
    if (op.layer.value + 1 == plan.model.num_layers) return MemoryTerm::HeadActivation;
    const ChunkSeat seat{m_parts.groups.stage(), op.model_chunk};
    const auto next = seatAfter(pipelineShape(plan), seat);
    const bool last = op.layer.value + 1 == stageLayers(plan, seat.stage, seat.chunk).end;
    return last && next && next->stage != seat.stage ? MemoryTerm::StageBoundary
                                                     : MemoryTerm::AttentionActivation;
}

Status StageModel::router(const Operation& op) {
    LayerState& layer = layerOf(op);
    PIPER_ASSIGN(layer.y, m_context.copyOf(layer.middle, outputTerm(op)));
    return chooseExperts(op, layer, false);
}

namespace {

/// What of a sample lies in a rank's slice of a micro-batch's tokens.
struct SampleSlice {
    std::int64_t sample = 0;           ///< of the micro-batch
    std::int64_t first_position = 0;   ///< in the sample
    std::size_t first = 0, count = 0;  ///< slots in the slice
};

std::vector<SampleSlice> sampleSlices(const BlockContext& c, std::int64_t topk) {
    std::vector<SampleSlice> out;
    const std::int64_t length = c.plan.seq_len, begin = c.tensor.firstRow(c.allTokens());
    for (std::int64_t row = begin; row < begin + c.tokens();) {
        const std::int64_t next = std::min(begin + c.tokens(), (row / length + 1) * length);
        out.push_back({row / length, row % length, static_cast<std::size_t>((row - begin) * topk),
                       static_cast<std::size_t>((next - row) * topk)});
        row = next;
    }
    return out;
}

}  // namespace

Status StageModel::chooseExperts(const Operation& op, LayerState& layer, bool again) {
    const MoeSpec& moe = *m_parts.plan.model.moe;
    const std::vector<SampleSlice> slices = sampleSlices(m_context, moe.router_topk);
    std::vector<std::int32_t> given;
    if (m_parts.experts != nullptr) {
        given.resize(static_cast<std::size_t>(m_context.tokens() * moe.router_topk));
        for (const SampleSlice& s : slices)
            PIPER_TRY(m_parts.experts->choose(m_step, op.layer, sampleOf(op.micro_batch, s.sample),
                                              std::span(given).subspan(s.first, s.count),
                                              s.first_position));
    }
    PIPER_TRY(m_moe.routerForward(m_parameters.weights().of(op.layer), m_context.rows(layer.middle),
                                  given, layer.moe, again ? nullptr : &m_aux_sum));
    if (again) return {};
    const Indices chosen = layer.moe.experts.as<std::int32_t>();
    std::vector<std::int64_t>& load = m_load[op.layer];
    load.resize(static_cast<std::size_t>(moe.num_experts));
    for (const std::int32_t e : chosen) ++load[static_cast<std::size_t>(e)];
    m_dropped += layer.moe.dropped;
    if (m_parts.record == nullptr) return {};
    for (const SampleSlice& s : slices)
        m_parts.record->record(m_step, op.layer, sampleOf(op.micro_batch, s.sample),
                               chosen.subspan(s.first, s.count), s.first_position);
    return {};
}

Status StageModel::denseForward(const Operation& op, LayerState& layer, Buffer& y) {
    const BlockContext& c = m_context;
    const LayerTensors& w = m_parameters.weights().of(op.layer);
    PIPER_ASSIGN(y, c.copyOf(layer.middle, outputTerm(op)));
    if (layer.moe.norm.y.empty())
        PIPER_TRY(normForward(c, c.rows(layer.middle), w.mlp_norm, MemoryTerm::ExpertIntermediate,
                              layer.moe.norm));
    return mlpForward(c, m_parts.plan.model.dense_mlp, w.mlp, {}, c.rows(layer.moe.norm.y),
                      c.rows(y), layer.moe.shared);
}

Status StageModel::expertForward(const Operation& op) {
    LayerState& layer = layerOf(op);
    const LayerTensors& w = m_parameters.weights().of(op.layer);
    const BlockContext& c = m_context;
    if (!m_parts.plan.model.isMoe(op.layer)) {
        PIPER_TRY(denseForward(op, layer, layer.y));
        return layerDone(op, stateOf(op), layer);
    }
    if (!op.key.shared_expert) return m_moe.expertForward(w, layer.moe.chunks[op.chunk.index()]);
    return mlpForward(c, m_parts.plan.model.moe->mlp, w.shared, w.shared_gate,
                      c.rows(layer.moe.norm.y), c.rows(layer.y), layer.moe.shared);
}

Status StageModel::layerDone(const Operation& op, MicroBatchState& state, LayerState& layer) {
    PIPER_TRY(checkFinite(layer.y, op));
    state.hidden = std::move(layer.y);
    const Plan& plan = m_parts.plan;
    const LayerRange range = stageLayers(plan, m_parts.groups.stage(), op.model_chunk);
    if (!isRecomputed(plan, range, op.layer.value)) return {};
    if (plan.recompute.granularity == RecomputeGranularity::Full) {
        Buffer input = std::move(layer.x);
        layer = LayerState{};
        layer.x = std::move(input);
        return {};
    }
    dropAttention(m_context, layer.attention);
    if (plan.model.isMoe(op.layer)) {
        m_moe.drop(layer.moe);
        return {};
    }
    if (recomputes(plan, "layernorm")) layer.moe.norm.y.reset();
    if (recomputes(plan, "mlp")) layer.moe.shared = MlpState{};
    return {};
}

Status StageModel::recompute(const Operation& op) {
    LayerState& layer = layerOf(op);
    const BlockContext& c = m_context;
    const LayerTensors& w = m_parameters.weights().of(op.layer);
    switch (op.key.phase) {
        case Phase::Attention: {
            if (m_parts.plan.recompute.granularity == RecomputeGranularity::Selective)
                return attentionRecompute(c, w, c.rows(layer.x), layer.attention);
            PIPER_ASSIGN(layer.middle, c.hiddenState(MemoryTerm::AttentionActivation));
            return attentionForward(c, w, c.rows(layer.x), c.rows(layer.middle), layer.attention);
        }
        case Phase::Router:
            return chooseExperts(op, layer, true);
        case Phase::Expert:
            return recomputeExpert(op);
        default:
            return notRun(op);
    }
}

/// Runs the whole MLP again, as frameworks do and as the schedule counts it: its output goes
/// nowhere.
Status StageModel::recomputeExpert(const Operation& op) {
    LayerState& layer = layerOf(op);
    const LayerTensors& w = m_parameters.weights().of(op.layer);
    const BlockContext& c = m_context;
    Buffer unused;
    if (!m_parts.plan.model.isMoe(op.layer)) return denseForward(op, layer, unused);
    if (!op.key.shared_expert) {
        MoeChunk& chunk = layer.moe.chunks[op.chunk.index()];
        return chunk.up.empty() ? m_moe.expertForward(w, chunk)
                                : m_moe.recomputeActivation(w, chunk);
    }
    PIPER_ASSIGN(unused, c.hiddenState(MemoryTerm::ExpertIntermediate));
    PIPER_TRY(c.backend.fill(unused.floats(), 0.0F));
    return mlpForward(c, m_parts.plan.model.moe->mlp, w.shared, w.shared_gate,
                      c.rows(layer.moe.norm.y), c.rows(unused), layer.moe.shared);
}

}  // namespace piper
