// SPDX-License-Identifier: Apache-2.0
#include "core/search/peer_space.h"

#include <algorithm>

namespace piper {
namespace {

constexpr std::int64_t kNode = 8;

/// Kinds of exchange and of recompute that go together: reduce-scatter with all-gather, as one
/// collective, may gather again what recompute leaves.
struct PeerExchange {
    RecomputeGranularity recompute;
    bool sequence_parallel;
};
constexpr std::array<PeerExchange, 11> kExchanges = [] {
    using G = RecomputeGranularity;
    return std::array<PeerExchange, 11>{{{G::Full, false},
                                         {G::Full, true},
                                         {G::Full, true},
                                         {G::Selective, false},
                                         {G::Selective, true},
                                         {G::Selective, true},
                                         {G::Selective, true},
                                         {G::None, false},
                                         {G::None, true},
                                         {G::None, true},
                                         {G::None, true}}};
}();

/// Options of one grid, innermost loops.
void visitOptions(const PeerProblem& problem, PeerStrategy s,
                  const std::function<void(const PeerStrategy&)>& visit) {
    const auto networks = [](std::int64_t degree) { return degree > 1 ? 2 : 1; };
    const int tp_overlaps = problem.overlaps && s.tp > 1 ? 3 : 1;  // none, ring, pipe
    const int dp_overlaps = problem.overlaps && s.dp > 1 ? 2 : 1;
    for (const PeerExchange& exchange : kExchanges) {
        s.recompute = exchange.recompute;
        s.sequence_parallel = exchange.sequence_parallel;
        for (int sharding = 0; sharding < (s.dp > 1 ? 2 : 1); ++sharding)
            for (int tp = 0; tp < tp_overlaps; ++tp)
                for (int dp = 0; dp < dp_overlaps; ++dp) {
                    s.optimizer_sharding = sharding == 1;
                    s.tp_overlap = tp > 0;
                    s.dp_overlap = dp > 0;
                    for (s.network[0] = 0; s.network[0] < networks(s.tp); ++s.network[0])
                        for (s.network[1] = 0; s.network[1] < networks(s.pp); ++s.network[1])
                            for (s.network[2] = 0; s.network[2] < networks(s.dp); ++s.network[2])
                                visit(s);
                }
    }
}

}  // namespace

PeerProblem megatron22b() {
    return {"Megatron-22B on 8", 6144, 24576, 64, 48, 2048, 8, 4, false, 7018};
}

PeerProblem gpt175b() {
    return {"GPT-3 175B on 512", 12288, 49152, 96, 96, 2048, 512, 512, true, 952776};
}

void forEachPeerStrategy(const PeerProblem& problem,
                         const std::function<void(const PeerStrategy&)>& visit) {
    PeerStrategy s;
    for (s.tp = 1; s.tp <= problem.num_heads; ++s.tp) {
        if (problem.devices % s.tp != 0 || problem.num_heads % s.tp != 0) continue;
        for (s.pp = 1; s.pp <= problem.num_layers; ++s.pp) {
            if (problem.num_layers % s.pp != 0 || problem.devices / s.tp % s.pp != 0) continue;
            s.dp = problem.devices / (s.tp * s.pp);
            if (s.dp > problem.batch) continue;
            const std::int64_t local = problem.batch / s.dp;
            const std::int64_t layers = s.pp > 1 ? problem.num_layers / s.pp : 1;
            for (s.interleaving = 1; s.interleaving <= layers; ++s.interleaving) {
                if (layers % s.interleaving != 0) continue;
                for (s.micro_batch_size = 1; s.micro_batch_size <= local; ++s.micro_batch_size)
                    if (local % s.micro_batch_size == 0) visitOptions(problem, s, visit);
            }
        }
    }
}

bool overfillsNode(const PeerStrategy& s) {
    std::int64_t inside = 1;
    if (s.network[0] == 0) inside *= s.tp;
    if (s.network[1] == 0) inside *= s.pp;
    if (s.network[2] == 0) inside *= s.dp;
    return inside > kNode;
}

Result<Plan> peerBase(const PeerProblem& problem) {
    Plan plan;
    ModelSpec& m = plan.model;
    m.name = problem.name;
    m.model_type = "piper";
    m.hidden_size = problem.hidden_size;
    m.num_layers = problem.num_layers;
    m.layers.assign(static_cast<std::size_t>(problem.num_layers), LayerKind::Dense);
    m.ffn_hidden_size = problem.ffn_hidden_size;
    m.dense_mlp = MlpKind::TwoMatrix;
    m.norm = NormKind::LayerNorm;
    m.attention.num_heads = m.attention.num_kv_heads = problem.num_heads;
    m.attention.head_dim = problem.hidden_size / problem.num_heads;
    m.max_position_embeddings = problem.seq_len;
    PIPER_ASSIGN(plan.cluster, defaultCluster("A100 SXM 80GB", (problem.devices + 7) / kNode));
    plan.seq_len = problem.seq_len;
    plan.global_batch_size = problem.batch;
    plan.precision = Precision::Bf16;
    plan.fused_attention = false;
    plan.optimizer.gradients = StateFormat::Bf16;
    plan.memory.communication_buffer_bytes = plan.memory.context_bytes = 0.0;
    return plan;
}

void applyPeer(const PeerStrategy& s, Plan& plan) {
    Layout& l = plan.layout;
    l.tp = s.tp;
    l.sp = s.sequence_parallel && s.tp > 1;
    l.pp = s.pp;
    l.vpp = s.interleaving;
    l.dp = s.dp;
    plan.schedule = s.interleaving > 1 ? ScheduleKind::InterleavedOneF1B : ScheduleKind::OneF1B;
    plan.micro_batch_size = s.micro_batch_size;
    plan.recompute.granularity = s.recompute;
    if (s.recompute == RecomputeGranularity::Selective) {
        if (plan.recompute.modules.empty()) plan.recompute.modules = {"core_attn"};
    } else {
        plan.recompute.modules.clear();
    }
    plan.zero_stage = s.optimizer_sharding ? 1 : 0;
    if (!s.tp_overlap && !s.dp_overlap) {
        plan.overlap.reset();
        return;
    }
    Overlap overlap;
    overlap.tp = s.tp_overlap;
    overlap.dp_grad_reduce = s.dp_overlap;
    plan.overlap = overlap;
}

}  // namespace piper
