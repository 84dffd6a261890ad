// SPDX-License-Identifier: Apache-2.0
// The end of a StageModel's step: gradients brought together, the norm, the update.
#include <algorithm>
#include <cmath>

#include "core/plan/pipeline_shape.h"
#include "kernels/pipeline/stage_model.h"

namespace piper {
namespace {

/// The tied embedding's message on pp. Tags between stages count micro-batches and chunks and may
/// be the same in a long step: each end posts this message and its receive after all of those, and
/// messages of one tag between two ranks arrive in order.
constexpr int kTiedTag = 1 << 14;

}  // namespace

Status StageModel::reduceGradients(const Operation& op) {
    const bool dense = op.key.layer == LayerKind::Dense;
    const ParameterGroup group = dense ? ParameterGroup::Dense : ParameterGroup::Expert;
    if (op.key.kind == OperationKind::AllGather)
        return m_parameters.gatherWeights(group, m_parts.backend);
    PIPER_TRY(joinGradients());
    return m_parameters.reduceGradients(group, dense ? *m_parts.groups.dp : *m_parts.groups.edp,
                                        m_parts.backend);
}

Status StageModel::joinGradients() {
    if (std::exchange(m_joined, true)) return {};
    if (m_tensor.split())
        for (const ParameterEntry& entry : m_parameters.entries())
            if (entry.partial) PIPER_TRY(m_tensor.sum(m_parameters.gradient(entry)));
    return joinTiedEmbedding();
}

/// An embedding and a head that are one tensor on two stages have their gradients added up.
Status StageModel::joinTiedEmbedding() {
    const PipelineShape shape = pipelineShape(m_parts.plan);
    const StageId own = m_parts.groups.stage();
    const bool first = holdsEmbedding(shape, own), last = holdsHead(shape, own);
    if (!m_parts.plan.model.tie_word_embeddings || first == last) return {};
    Matrix gradient = first ? m_parameters.gradients().embedding : m_parameters.gradients().head;
    const std::int64_t other = first ? m_parts.plan.layout.pp - 1 : 0;
    PIPER_ASSIGN(const Buffer arrived,
                 m_context.floats(MemoryTerm::CommunicationBuffer, gradient.size()));
    Communicator& pp = *m_parts.groups.pp;
    PIPER_ASSIGN(const auto receive, pp.receive(arrived.as<std::byte>(), other, kTiedTag));
    PIPER_ASSIGN(const auto send, pp.send(std::as_bytes(gradient.span()), other, kTiedTag));
    PIPER_TRY(send->wait());
    PIPER_TRY(receive->wait());
    return m_parts.backend.add(arrived.floats(), gradient.span());
}

/// Gradients are already summed over replicas. Every parameter counts once in the norm: without a
/// sharded optimizer dense ones are the same on dp ranks, experts on edp ranks, both on the other
/// copy of the pipeline.
Status StageModel::optimize() {
    PIPER_TRY(joinGradients());
    const Layout& layout = m_parts.plan.layout;
    const auto copies = static_cast<double>(pipelineShape(m_parts.plan).modelCopies());
    const auto share = [&](ParameterGroup group, std::int64_t replicas) -> Result<double> {
        PIPER_ASSIGN(const double sum, m_parameters.squaredNorm(m_parts.backend, group, layout.tp));
        if (m_parameters.sharded(group)) return sum;
        return sum / (copies * static_cast<double>(replicas));
    };
    PIPER_ASSIGN(const double dense, share(ParameterGroup::Dense, layout.dp));
    PIPER_ASSIGN(const double expert, share(ParameterGroup::Expert, layout.edp()));
    // Every rank of a tensor-parallel group knows the whole loss.
    const double once = m_tensor.rank() == 0 ? 1.0 : 0.0;
    std::array<double, 3> sums{dense + expert, once * m_loss_sum, once * m_aux_sum};
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
    PIPER_TRY(m_parameters.update(m_parts.backend, adam));
    return moveRouterBiases();
}

/// Loss-free balancing (arXiv 2408.15664): an expert with more rows than the mean of the global
/// batch becomes a little harder to choose, one with fewer easier.
Status StageModel::moveRouterBiases() {
    const Plan& plan = m_parts.plan;
    if (!plan.model.moe || !plan.model.moe->expert_bias_routing) return {};
    const auto experts = static_cast<std::size_t>(plan.model.moe->num_experts);
    std::vector<double> rows;
    for (const LayerTensors& layer : m_parameters.weights().layers) {
        if (layer.router_bias.empty()) continue;
        std::vector<std::int64_t>& load = m_load[layer.layer];
        load.resize(experts);
        rows.insert(rows.end(), load.begin(), load.end());
    }
    PIPER_TRY(m_parts.groups.dp->allReduceSum(std::span<double>(rows)));
    if (m_tensor.splitsRows()) PIPER_TRY(m_tensor.sum(std::span<double>(rows)));
    std::size_t at = 0;
    std::vector<float> moves(experts);
    for (const LayerTensors& layer : m_parameters.weights().layers) {
        if (layer.router_bias.empty()) continue;
        const auto own = std::span(rows).subspan(at, experts);
        at += experts;
        double mean = 0.0;
        for (const double r : own) mean += r / static_cast<double>(experts);
        for (std::size_t e = 0; e < experts; ++e) {
            const double direction = own[e] < mean ? 1.0 : own[e] > mean ? -1.0 : 0.0;
            moves[e] = static_cast<float>(m_parts.constants.bias_update_rate * direction);
        }
        PIPER_ASSIGN(const Buffer step,
                     m_context.floats(MemoryTerm::Workspace, static_cast<std::int64_t>(experts)));
        PIPER_TRY(
            m_parts.backend.copyToDevice(std::as_bytes(std::span(moves)), step.as<std::byte>()));
        PIPER_TRY(m_parts.backend.add(step.floats(), layer.router_bias));
    }
    return {};
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
