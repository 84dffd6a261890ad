// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/resources/memory.h"
#include "core/resources/routing.h"

namespace piper {

namespace {

// Notation of arXiv 2605.05049: d hidden, L layers, E experts, k top-k, H heads, s tokens, b global
// batch, f expert width, PP, EP degrees, M micro-batches. 16 bytes of state per parameter, fp16
// activations. Each term is one layer's.

double attentionState(const PaperMemoryInput& in) {
    return 64.0 * in.hidden_size * in.hidden_size;
}

double expertState(const PaperMemoryInput& in) {
    return 16.0 * in.expert_matrices * in.num_experts * in.hidden_size * in.ffn;
}

double attentionActivation(const PaperMemoryInput& in) {
    const double square =
        in.attention_square ? 4.0 * in.global_batch * in.num_heads * in.seq_len * in.seq_len : 0.0;
    return 12.0 * in.global_batch * in.seq_len * in.hidden_size + square;
}

double expertActivation(const PaperMemoryInput& in) {
    return 2.0 * in.global_batch * in.seq_len * in.router_topk *
           (in.expert_matrices * in.ffn + in.hidden_size);
}

/// One micro-batch's activations of one layer on one rank.
double microBatchActivation(const PaperMemoryInput& in, PaperReading reading) {
    const double attention =
        attentionActivation(in) / (reading == PaperReading::Corrected ? in.ep : 1.0);
    return (attention + expertActivation(in) / in.ep) / in.num_microbatches;
}

double inFlight(const PaperMemoryInput& in, int stage, PaperReading reading) {
    const double published = in.pp - stage;
    return reading == PaperReading::Corrected ? std::min(in.num_microbatches, published)
                                              : published;
}

}  // namespace

Bytes paperUnpartitionedMemory(const PaperMemoryInput& in) {
    return Bytes(in.num_layers * (attentionState(in) + expertState(in) + attentionActivation(in) +
                                  expertActivation(in)));
}

Bytes paperExpertDataParallelMemory(const PaperMemoryInput& in, PaperReading reading) {
    const double attention =
        attentionActivation(in) / (reading == PaperReading::Corrected ? in.ep : 1.0);
    return Bytes(in.num_layers * (attentionState(in) + expertState(in) / in.ep + attention +
                                  expertActivation(in) / in.ep));
}

Bytes paperStageMemory(const PaperMemoryInput& in, int stage, PaperReading reading) {
    return Bytes(in.num_layers / in.pp *
                 (attentionState(in) + expertState(in) / in.ep +
                  inFlight(in, stage, reading) * microBatchActivation(in, reading)));
}

Bytes paperStageSkew(const PaperMemoryInput& in, PaperReading reading) {
    const int last = static_cast<int>(in.pp) - 1;
    const double more = inFlight(in, 0, reading) - inFlight(in, last, reading);
    return Bytes(in.num_layers / in.pp * more * microBatchActivation(in, reading));
}

template <>
std::span<const EnumName<PaperReading>> enumNames<PaperReading>() {
    static constexpr EnumName<PaperReading> rows[] = {{PaperReading::Corrected, "corrected"},
                                                      {PaperReading::AsPublished, "as_published"}};
    return rows;
}

PaperMemoryInput paperInput(const Plan& plan) {
    const ModelSpec& model = plan.model;
    const MoeSpec moe = model.moe.value_or(MoeSpec{});
    const auto real = [](std::int64_t n) { return static_cast<double>(n); };
    PaperMemoryInput in{};
    in.hidden_size = real(model.hidden_size);
    in.num_layers = real(model.num_layers);
    in.num_experts = real(moe.num_experts);
    in.router_topk = real(moe.router_topk);
    in.num_heads = real(model.attention.num_heads);
    in.seq_len = real(plan.seq_len);
    in.global_batch = real(plan.global_batch_size);
    in.ffn = real(model.moe ? moe.moe_ffn_hidden_size : model.ffn_hidden_size);
    in.pp = real(plan.layout.pp);
    in.ep = real(plan.layout.ep);
    in.num_microbatches = real(plan.numMicroBatches());
    in.expert_matrices = static_cast<int>(mlpMatrices(model.moe ? moe.mlp : model.dense_mlp));
    in.attention_square = false;
    return in;
}

double paperParameters(const PaperMemoryInput& in, bool with_router) {
    const double router = with_router ? in.hidden_size * in.num_experts : 0.0;
    return in.num_layers * (4.0 * in.hidden_size * in.hidden_size +
                            in.expert_matrices * in.num_experts * in.hidden_size * in.ffn + router);
}

Bytes xmoeLayerActivation(const PaperMemoryInput& in) {
    return Bytes(2.0 * 2.0 * in.router_topk * in.seq_len * (in.hidden_size + in.ffn));
}

Seconds paperAllToAllBound(const PaperMemoryInput& in, BytesPerSecond nic) {
    return Bytes(4.0 * in.global_batch * in.seq_len * in.router_topk * in.hidden_size / in.ep) /
           nic;
}

Bytes expertMigrationBytes(double num_experts, double hidden_size, double ffn, double group) {
    return Bytes(16.0 * 3.0 * num_experts * hidden_size * ffn / group);
}

double dispatchRedundancy(std::int64_t num_experts, std::int64_t router_topk, std::int64_t nodes) {
    return 1.0 - expectedNodes(num_experts, router_topk, nodes) / static_cast<double>(router_topk);
}

}  // namespace piper
