// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/schedule/schedule.h"
#include "kernels/ops/dataset.h"
#include "kernels/pipeline/groups.h"
#include "kernels/pipeline/moe_block.h"
#include "kernels/pipeline/routing_trace.h"

namespace piper {

/// An operation that was begun. `transfer` is null for one that is already done; `finish` takes in
/// what arrived and is called once, with `held`, when the transfer is done.
struct BegunOperation {
    Buffer held;  ///< a message under way; outlives the transfer
    std::unique_ptr<PendingTransfer> transfer;
    std::function<Status(Buffer& held)> finish;
    /// Stands for exchanges that happen inside other operations and are recorded with them.
    bool elsewhere = false;
};

/// What a schedule asks for and no block does.
[[nodiscard]] inline Error notRun(const Operation& op) {
    return fail(ErrorCode::Unsupported, "the CPU worker does not run {}", describe(op));
}

struct TrainingConstants {
    AdamWParameters adam{.learning_rate = 1e-3};
    double clip_norm = 1.0;  ///< gradient norm above it is scaled down; 0 for none
    /// What a router's bias of an expert moves in a step, down for more load than the mean
    /// (DeepSeek-V3's speed).
    double bias_update_rate = 1e-3;
    std::uint64_t seed = 1;
    /// Experts work on copies of their own rank's rows instead of rows of others: a step of the
    /// same work without its traffic. What it trains is worth nothing.
    bool local_rows = false;
};

/// What a step came to, the same on every rank after the optimizer.
struct StepResult {
    double loss = 0.0;      ///< mean cross-entropy over the global batch
    double aux_loss = 0.0;  ///< mean auxiliary loss over its micro-batches, summed over layers
    double gradient_norm = 0.0;
};

/// The layers of one rank: executes single operations of a program, whatever their order, and keeps
/// what later ones need by micro-batch and model chunk.
class StageModel {
public:
    struct Parts {
        const Plan& plan;
        Backend& backend;
        Communicator& world;
        RankGroups& groups;
        const ByteDataset& data;
        TrainingConstants constants;
        RoutingTrace* record = nullptr;
        const ExpertSource* experts = nullptr;  ///< null: the router chooses
    };
    [[nodiscard]] static Result<std::unique_ptr<StageModel>> create(Parts parts);

    /// Clears gradients and sums.
    Status beginStep(std::int64_t step);
    /// Runs or begins one operation of the stage's program.
    [[nodiscard]] Result<BegunOperation> begin(const Operation& operation);
    /// Gives up what the step's micro-batches still hold.
    void endStep();

    [[nodiscard]] const StepResult& result() const { return m_result; }
    [[nodiscard]] ParameterStore& parameters() { return m_parameters; }
    /// Optimizer steps done, which the moments' corrections go by.
    [[nodiscard]] std::int64_t updates() const { return m_updates; }
    void setUpdates(std::int64_t updates) { m_updates = updates; }
    [[nodiscard]] const AllToAll& exchange() const { return m_exchange; }
    [[nodiscard]] TensorGroup& tensor() { return m_tensor; }
    /// Rows this rank routed in the step: layer -> [num_experts].
    [[nodiscard]] const std::map<LayerId, std::vector<std::int64_t>>& expertLoad() const {
        return m_load;
    }
    /// Of those, the ones beyond an expert's capacity.
    [[nodiscard]] std::int64_t droppedRows() const { return m_dropped; }
    /// Payload this rank handed to all of its groups so far.
    [[nodiscard]] TransportCounters transferred() const;

private:
    struct LayerState {
        Buffer x, middle, y;  ///< input, after attention, output under way
        AttentionState attention;
        MoeState moe;  ///< of a dense layer: norm, dy, d_norm and the MLP in `shared`
    };
    struct MicroBatchState {
        Buffer hidden, gradient;  ///< between the last operation and the next
        std::map<LayerId, LayerState> layers;
        HeadState head;
        std::vector<std::int32_t> tokens, targets;
    };

    StageModel(Parts parts, std::vector<std::int64_t> owners);

    MicroBatchState& stateOf(const Operation& op);
    LayerState& layerOf(const Operation& op) { return stateOf(op).layers[op.layer]; }
    /// The memory term of a layer's output.
    [[nodiscard]] MemoryTerm outputTerm(const Operation& op) const;
    [[nodiscard]] std::int64_t sampleOf(MicroBatchId micro_batch, std::int64_t index) const;
    Status loadSamples(MicroBatchId micro_batch, MicroBatchState& state) const;

    // ---- stage_exchange.cpp
    [[nodiscard]] Result<BegunOperation> communicate(const Operation& op);
    [[nodiscard]] Result<BegunOperation> dispatch(const Operation& op);
    [[nodiscard]] Result<BegunOperation> combine(const Operation& op);
    [[nodiscard]] Result<BegunOperation> combineGradient(const Operation& op);
    [[nodiscard]] Result<BegunOperation> send(const Operation& op);
    [[nodiscard]] Result<BegunOperation> receive(const Operation& op);

    // ---- stage_model.cpp
    Status compute(const Operation& op);
    Status forward(const Operation& op);
    Status recompute(const Operation& op);
    Status router(const Operation& op);
    Status chooseExperts(const Operation& op, LayerState& layer, bool again);
    Status expertForward(const Operation& op);
    Status recomputeExpert(const Operation& op);
    Status denseForward(const Operation& op, LayerState& layer, Buffer& y);
    /// The layer's output is there: passes it on and gives up what recompute makes again.
    Status layerDone(const Operation& op, MicroBatchState& state, LayerState& layer);
    Status checkFinite(const Buffer& hidden, const Operation& op);

    // ---- stage_backward.cpp
    Status inputGrad(const Operation& op);
    Status weightGrad(const Operation& op);
    Status expertInputGrad(const Operation& op);
    Status expertWeightGrad(const Operation& op);
    Status denseInputGrad(const Operation& op);

    // ---- stage_optimizer.cpp
    Status reduceGradients(const Operation& op);
    /// Sums what a tensor-parallel group or a tied embedding has apart; once a step.
    Status joinGradients();
    Status joinTiedEmbedding();
    Status optimize();
    Status moveRouterBiases();
    /// The fault of a step whose gradient norm is not finite, the same on every rank.
    Status nonFiniteGradient();
    [[nodiscard]] double microBatchShare() const;

    Parts m_parts;
    TensorGroup m_tensor;
    BlockContext m_context;
    AllToAll m_exchange;
    MoeBlock m_moe;
    ParameterStore m_parameters;
    std::int64_t m_step = 0, m_updates = 0, m_dropped = 0;
    bool m_joined = false;
    std::map<std::pair<std::int32_t, std::int32_t>, MicroBatchState> m_states;
    std::map<LayerId, std::vector<std::int64_t>> m_load;
    double m_loss_sum = 0.0, m_aux_sum = 0.0;
    StepResult m_result;
};

}  // namespace piper
