// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/support/tiny_run.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/transport/local_transport.h"
#include "tests/support/paths.h"

namespace piper::test {

Plan tinyPlan() {
    ModelSpec model;
    model.name = "tiny";
    model.model_type = "piper";
    model.hidden_size = 24;
    model.num_layers = 3;
    model.vocab_size = 256;
    model.ffn_hidden_size = 40;
    model.attention.num_heads = 4;
    model.attention.num_kv_heads = 2;
    model.attention.head_dim = 8;
    model.layers = {LayerKind::Dense, LayerKind::Moe, LayerKind::Moe};
    model.max_position_embeddings = 64;
    MoeSpec moe;
    moe.num_experts = 6;
    moe.router_topk = 2;
    moe.moe_ffn_hidden_size = 20;
    moe.shared_ffn_hidden_size = 12;
    moe.aux_loss_coefficient = 0.02;
    model.moe = moe;

    Plan plan;
    plan.model = model;
    Result<ClusterSpec> cluster = readClusterText(
        readText(sourceDir() / "packaging/examples/clusters/local-cpu.json"), "local-cpu.json");
    EXPECT_TRUE(cluster.ok());
    plan.cluster = *cluster;
    plan.precision = Precision::Fp32;
    plan.micro_batch_size = 2;
    plan.global_batch_size = 4;
    plan.seq_len = 16;
    return plan;
}

void useLatentAttention(Plan& plan) {
    AttentionSpec& a = plan.model.attention;
    a.kind = AttentionKind::Mla;
    a.num_kv_heads = a.num_heads;
    a.q_lora_rank = 10;
    a.kv_lora_rank = 12;
    a.qk_nope_head_dim = 6;
    a.qk_rope_head_dim = 4;
    a.v_head_dim = 5;
}

TinyRun::TinyRun(Plan given, std::optional<std::int64_t> memory_limit)
    : TinyRun(std::move(given), makeLocalTransport(), nullptr, memory_limit) {}

TinyRun::TinyRun(Plan given, Transport& world)
    : TinyRun(std::move(given), nullptr, &world, std::nullopt) {}

TinyRun::TinyRun(Plan given, std::unique_ptr<Transport> own, Transport* world,
                 std::optional<std::int64_t> memory_limit)
    : plan(std::move(given)),
      local(std::move(own)),
      transport(world != nullptr ? world : local.get()),
      allocator(hostMemory(), memory_limit),
      data(ByteDataset::open((sourceDir() / "LICENSES/Apache-2.0.txt").string(), plan.seq_len, 7)
               .value()) {
    Result<Schedule> built = buildSchedule(plan);
    EXPECT_TRUE(built.ok()) << built.error().text();
    schedule = std::move(built).value();
    backend = makeCpuBackend(allocator).value();
}

ProgramRunner::Hooks TinyRun::hooks() {
    ProgramRunner::Hooks hooks;
    hooks.clock = [this] { return ++ticks * tick_ns; };
    return hooks;
}

Status TinyRun::train(const TrainingOptions& options) {
    return piper::train({plan, schedule, *transport, *backend, recorder, data, hooks(), {}},
                        options);
}

std::vector<double> TinyRun::losses() const {
    std::vector<double> out;
    for (const StepRecord& step : recorder.timeline().steps) out.push_back(step.loss);
    return out;
}

}  // namespace piper::test
