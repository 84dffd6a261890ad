// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/worker_memory.h"

#include <algorithm>

#include "core/base/cast.h"

namespace piper {
namespace {

constexpr double kWide = 4.0;  ///< bytes of a router's number
constexpr MemoryTerm kGradient = MemoryTerm::GradientActivation;

bool isMoe(const Operation& op) {
    return op.key.layer == LayerKind::Moe && op.layer.valid();
}

}  // namespace

WorkerTensors::WorkerTensors(const Plan& plan, double imbalance) {
    const Shard s = shardOf(plan);
    const ModelSpec& model = plan.model;
    const double e = s.element, h = asDouble(s.hidden), t = asDouble(s.tokens);
    splits_sums = plan.layout.tp > 1;
    splits_rows = splits_sums && plan.layout.sp;
    stream = Bytes(asDouble(s.local_tokens) * h * e);
    gathered = Bytes(t * h * e);
    mlp_activation = Bytes(t * asDouble(denseWidth(plan)) * e);
    mlp_up = Bytes(t * asDouble(preActivationWidth(denseWidth(plan), model.dense_mlp)) * e);
    const AttentionSpec& a = model.attention;
    const double q = asDouble(s.heads * s.qk_dim), k = asDouble(s.kv_heads * s.qk_dim),
                 v = asDouble(s.kv_heads * s.v_dim), out = asDouble(s.heads * s.v_dim);
    double held = (a.qk_norm ? 2.0 : 1.0) * (q + k) + v, peak = out + q + k + v;
    if (a.kind == AttentionKind::Mla) {
        const double both = asDouble(s.heads * (a.qk_nope_head_dim + s.v_dim));
        const double rotary = asDouble(a.qk_rope_head_dim);
        held = q + both + rotary + 2.0 * asDouble(a.kv_lora_rank + a.q_lora_rank);
        peak = std::max(peak, q + k + v + both + rotary);
        expanded = Bytes(t * both * e);
    }
    attention_held = Bytes(t * held * e) + stream * 2.0;
    attention_peak = std::max(Bytes(t * peak * e), attention_held);
    if (!plan.fused_attention) scores = Bytes(t * asDouble(s.heads * plan.seq_len) * 2.0 * e);
    if (!model.moe) return;
    const double chunks = asDouble(std::max<std::int64_t>(1, plan.all_to_all.chunks));
    const double rows = asDouble(s.received_rows) * imbalance / chunks;
    routed = Bytes(asDouble(s.routed_rows) / chunks * h * e);
    worked = Bytes(rows * h * e);
    received = worked / asDouble(std::max<std::int64_t>(1, plan.layout.etp));
    logits = Bytes(asDouble(s.local_tokens * model.moe->num_experts) * kWide);
    weights = Bytes(asDouble(s.routed_rows) * kWide);
    const auto up = [&](std::int64_t ffn) {
        return asDouble(preActivationWidth(ffn, model.moe->mlp)) * e;
    };
    expert_activation = Bytes(rows * asDouble(expertWidth(plan)) * e);
    expert_up = Bytes(rows * up(expertWidth(plan)));
    shared_activation = Bytes(t * asDouble(sharedExpertWidth(plan)) * e);
    shared_up = Bytes(t * up(sharedExpertWidth(plan)));
    by_token = plan.all_to_all.algorithm == AllToAllAlgorithm::NodeDedup;
}

namespace {

class WorkerWriter {
public:
    /// `sends`: the slot's hidden state goes to another rank.
    WorkerWriter(const Plan& plan, const WorkerTensors& tensors, const LayerRange& layers,
                 const std::vector<Operation>& operations, bool sends)
        : m_plan(plan), m(tensors), m_layers(layers), m_operations(operations) {
        if (layers.size() == 0) return;
        if (layers.end == m_plan.model.num_layers)
            m_output = MemoryTerm::HeadActivation;
        else if (sends)
            m_output = MemoryTerm::StageBoundary;
    }

    void write(const Operation& op) {
        switch (op.key.kind) {
            case OperationKind::Forward:
            case OperationKind::Recompute:
                return forward(op);
            case OperationKind::Dispatch:
                return op.key.pass == Pass::Backward ? dispatchGrad(op) : dispatch(op);
            case OperationKind::Combine:
                return op.key.pass == Pass::Backward ? combineGrad(op) : combine(op);
            case OperationKind::InputGrad:
                return inputGrad(op);
            case OperationKind::WeightGrad:
                return weightGrad(op);
            case OperationKind::Send:
            case OperationKind::Receive:
                return message(op);
            default:
                return;
        }
    }
    std::vector<MemoryChange> take() { return std::move(m_changes); }

private:
    void begin(const Operation& op, MemoryTerm term, Bytes bytes) {
        if (bytes.value != 0.0) m_changes.push_back({op.id, false, term, bytes});
    }
    void end(const Operation& op, MemoryTerm term, Bytes bytes) {
        if (bytes.value != 0.0) m_changes.push_back({op.id, true, term, bytes * -1.0});
    }
    /// `peak` bytes while it runs, of which `kept` stay.
    void during(const Operation& op, MemoryTerm term, Bytes peak, Bytes kept = {}) {
        begin(op, term, peak);
        end(op, term, peak - kept);
    }
    /// The whole sequence of a hidden state, and the part of a sum.
    void gathers(const Operation& op) {
        if (m.splits_sums)
            during(op, MemoryTerm::CommunicationBuffer,
                   m.splits_rows ? m.gathered + m.stream : m.gathered);
    }
    /// Under sequence parallelism the weight gradient reads the gathered gradient again.
    [[nodiscard]] Bytes gatheredGradient() const { return m.splits_rows ? m.gathered : Bytes(); }

    // A layer's input counts as kept from its attention on; until then it is on its way, named
    // after who takes it.
    void makesHidden(const Operation& op) {
        const bool last = op.layer.value + 1 == m_layers.end;
        if (op.key.kind == OperationKind::Forward)
            begin(op, last ? m_output : MemoryTerm::AttentionActivation, m.stream);
    }
    void takesHidden(const Operation& op, MemoryTerm term) {
        if (op.key.kind == OperationKind::Forward) begin(op, term, m.stream * -1.0);
    }

    void forward(const Operation& op) {
        switch (op.key.phase) {
            case Phase::HeadLoss:
                if (m_layers.size() > 0) takesHidden(op, m_output);
                return;
            case Phase::Attention:
                if (op.layer.value > m_layers.begin)
                    takesHidden(op, MemoryTerm::AttentionActivation);
                gathers(op);
                return during(op, MemoryTerm::Workspace, m.expanded);
            case Phase::Router:
                during(op, MemoryTerm::RouterActivation, m.logits);
                return makesHidden(op);
            case Phase::Expert:
                if (!isMoe(op)) {
                    gathers(op);
                    return makesHidden(op);
                }
                if (op.key.shared_expert) return gathers(op);
                // A selective recompute of the activation alone multiplies nothing.
                if (op.key.kind == OperationKind::Recompute &&
                    m_plan.recompute.granularity == RecomputeGranularity::Selective &&
                    !recomputes(m_plan, "moe"))
                    return;
                if (m.by_token) return begin(op, MemoryTerm::CombineActivation, m.worked);
                return during(op, MemoryTerm::CombineActivation, m.worked + m.received, m.received);
            default:
                return;
        }
    }

    /// Rows in order of experts, as they arrive, and sorted by local expert: two at a time.
    void dispatch(const Operation& op) {
        if (!m.by_token)
            during(op, MemoryTerm::DispatchedRows,
                   std::max(m.routed + m.received, m.received + m.worked) - m.worked);
    }
    void combine(const Operation& op) {
        end(op, MemoryTerm::CombineActivation, m.by_token ? m.worked : m.received);
    }

    void combineGrad(const Operation& op) {
        if (op.chunk.value <= 0) begin(op, kGradient, m.weights + m.stream);
        if (m.by_token) return begin(op, kGradient, m.worked);
        during(op, kGradient, std::max(m.routed + m.received, m.received + m.worked), m.worked);
    }
    void dispatchGrad(const Operation& op) {
        const double chunks = asDouble(std::max<std::int64_t>(1, m_plan.all_to_all.chunks));
        during(op, kGradient, m.by_token ? m.stream / chunks : m.routed);
        end(op, kGradient, m.by_token ? m.worked : m.received);
    }

    void inputGrad(const Operation& op) {
        switch (op.key.phase) {
            case Phase::HeadLoss: {
                const Bytes copy = m.splits_rows ? m.stream : Bytes();
                return during(op, kGradient, m.gathered * 2.0 + copy, m.gathered + m.stream);
            }
            case Phase::Expert:
                return expertInputGrad(op);
            case Phase::Router:
                return begin(op, kGradient, m.logits + m.stream);
            case Phase::Attention:
                gathers(op);
                begin(op, MemoryTerm::CommunicationBuffer, gatheredGradient());
                return during(op, kGradient, m.attention_peak + m.scores, m.attention_held);
            default:
                return;
        }
    }
    void expertInputGrad(const Operation& op) {
        if (isMoe(op) && !op.key.shared_expert) {
            const Bytes rows_in = m.by_token ? m.worked : m.received;
            return during(op, kGradient,
                          m.expert_up + std::max(m.expert_activation,
                                                 m.by_token ? m.worked : m.worked + m.received),
                          m.expert_up + rows_in);
        }
        gathers(op);
        begin(op, MemoryTerm::CommunicationBuffer, gatheredGradient());
        if (isMoe(op)) return during(op, kGradient, m.shared_up + m.shared_activation, m.shared_up);
        during(op, kGradient, m.mlp_up + m.stream + std::max(m.mlp_activation, m.stream),
               m.mlp_up + m.stream * 2.0);
    }

    void weightGrad(const Operation& op) {
        switch (op.key.phase) {
            case Phase::Embedding:
                return end(op, kGradient, m.stream);
            case Phase::HeadLoss:
                return end(op, kGradient, m.gathered);
            case Phase::Expert:
                if (isMoe(op) && !op.key.shared_expert)
                    return end(op, kGradient, m.worked + m.expert_up);
                end(op, MemoryTerm::CommunicationBuffer, gatheredGradient());
                return end(op, kGradient, isMoe(op) ? m.shared_up : m.mlp_up + m.stream * 2.0);
            case Phase::Router:  // with it go the gradients of the block's output and of its norm
                return end(op, kGradient, m.logits + m.weights + m.stream * 2.0);
            case Phase::Attention:
                end(op, MemoryTerm::CommunicationBuffer, gatheredGradient());
                return end(op, kGradient, m.attention_held);
            default:
                return;
        }
    }

    /// A hand-over counts as a message: what waits between two slots of a rank is left out.
    void message(const Operation& op) {
        const bool forward = op.key.pass == Pass::Forward;
        if (op.key.kind == OperationKind::Send) {
            if (!forward || m_layers.size() > 0) end(op, forward ? m_output : kGradient, m.stream);
        } else if (!forward) {
            // Posted when the program comes to it, before what follows.
            const auto next = static_cast<std::size_t>(op.id) + 1;
            begin(next < m_operations.size() ? m_operations[next] : op, kGradient, m.stream);
        }
    }

    const Plan& m_plan;
    const WorkerTensors& m;
    LayerRange m_layers;
    const std::vector<Operation>& m_operations;
    MemoryTerm m_output = MemoryTerm::AttentionActivation;  ///< of the last layer's output
    std::vector<MemoryChange> m_changes;
};

}  // namespace

std::vector<MemoryChange> workerChanges(const Plan& plan, const WorkerTensors& tensors,
                                        const LayerRange& layers,
                                        const std::vector<Operation>& operations) {
    const bool sends = std::ranges::any_of(operations, [](const Operation& op) {
        return op.key.kind == OperationKind::Send && op.key.pass == Pass::Forward &&
               !isHandOver(op);
    });
    WorkerWriter writer(plan, tensors, layers, operations, sends);
    for (const Operation& op : operations) writer.write(op);
    return writer.take();
}

std::vector<MemoryChange> workerTailChanges(WorkTable& work, StageId stage,
                                            const std::vector<Operation>& operations) {
    std::vector<MemoryChange> changes;
    if (work.plan().zero_stage < 1) return changes;
    for (const Operation& op : operations) {
        const auto& moved = work.of(op.key, stage).communication;
        if (op.key.phase != Phase::DpComm || !moved || moved->group_size < 2) continue;
        // A rank's own part of the gradients or weights, beside the buffer of all of them.
        const double calls = asDouble(std::max<std::int64_t>(1, moved->calls));
        const Bytes own = moved->bytes / (asDouble(moved->group_size - 1) * calls);
        changes.push_back({op.id, false, MemoryTerm::CommunicationBuffer, own});
        changes.push_back({op.id, true, MemoryTerm::CommunicationBuffer, own * -1.0});
    }
    return changes;
}

}  // namespace piper
