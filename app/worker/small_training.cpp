// SPDX-License-Identifier: Apache-2.0
#include "app/worker/small_training.h"

#include <chrono>

#include "core/schedule/schedule.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/ops/counter_random.h"

namespace piper {
namespace {

Result<ByteDataset> someText(std::int64_t seq_len) {
    std::vector<std::uint8_t> bytes(1 << 16);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const std::uint64_t dice = mixBits(i);
        bytes[i] = static_cast<std::uint8_t>('a' + (dice & 31 & (dice >> 8)));
    }
    return ByteDataset::fromBytes(std::move(bytes), seq_len, 1);
}

}  // namespace

Plan replicas(const ClusterSpec& cluster, const SmallShape& shape) {
    Plan plan;
    ModelSpec& model = plan.model;
    model.name = "replicas";
    model.model_type = "piper";
    model.hidden_size = shape.hidden;
    model.num_layers = shape.layers;
    model.layers.assign(static_cast<std::size_t>(shape.layers), LayerKind::Moe);
    model.vocab_size = ByteDataset::kVocabSize;
    model.max_position_embeddings = shape.seq_len;
    model.attention.num_heads = shape.heads;
    model.attention.num_kv_heads = shape.heads / 2;
    model.attention.head_dim = shape.hidden / shape.heads;
    model.moe.emplace();
    model.moe->num_experts = 8;
    model.moe->router_topk = 2;
    model.moe->moe_ffn_hidden_size = shape.ffn;
    plan.cluster = cluster;
    plan.layout.dp = cluster.devices_per_node;
    plan.precision = Precision::Fp32;
    plan.micro_batch_size = shape.micro_batch_size;
    plan.global_batch_size = shape.micro_batches * shape.micro_batch_size * plan.layout.dp;
    plan.seq_len = shape.seq_len;
    return plan;
}

Status trainReplicas(Transport& transport, const Plan& plan, Recorder& recorder, std::int64_t steps,
                     std::function<Status(const StepProgress&)> progress) {
    PIPER_ASSIGN(const Schedule schedule, buildSchedule(plan));
    PIPER_ASSIGN(const ByteDataset data, someText(plan.seq_len));
    TaggedAllocator allocator(hostMemory(), std::nullopt);
    PIPER_ASSIGN(const std::unique_ptr<Backend> backend, makeCpuBackend(allocator));
    ProgramRunner::Hooks hooks;
    hooks.clock = [] {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
            .count();
    };
    TrainingOptions options;
    options.steps = steps;
    return train({plan, schedule, transport, *backend, recorder, data, hooks, std::move(progress)},
                 options);
}

}  // namespace piper
