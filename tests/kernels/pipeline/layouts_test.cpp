// SPDX-License-Identifier: Apache-2.0
// Every way of splitting the model trains like one rank: losses over many steps, and the gradient
// of every tensor in one.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "kernels/transport/local_transport.h"
#include "tests/kernels/support/mpi_main.h"
#include "tests/kernels/support/tiny_run.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

Plan basePlan(std::int64_t world) {
    Plan plan = test::tinyPlan();
    plan.model.num_layers = 4;
    plan.model.layers = {LayerKind::Dense, LayerKind::Moe, LayerKind::Moe, LayerKind::Dense};
    plan.model.moe->num_experts = 8;
    plan.model.moe->router_topk = 3;
    plan.micro_batch_size = 1;
    plan.seq_len = 8;
    plan.global_batch_size = 2 * world;
    plan.layout.dp = world;
    return plan;
}

/// The same training on one rank.
Plan oneRank(Plan plan) {
    plan.layout = {};
    plan.schedule = ScheduleKind::OneF1B;
    plan.stage_layers.clear();
    plan.zero_stage = 0;
    plan.recompute = {};
    plan.all_to_all = {};
    return plan;
}

TrainingOptions optionsOf(std::int64_t steps, const std::string& record,
                          const std::string& replay) {
    TrainingOptions options;
    options.steps = steps;
    options.record_routing = record;
    options.replay_routing = replay;
    return options;
}

std::vector<double> lossesOf(test::TinyRun& run, const TrainingOptions& options) {
    const Status status = run.train(options);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().text());
    return run.losses();
}

void expectLosses(const std::vector<double>& got, const std::vector<double>& expected,
                  std::size_t steps, double tolerance) {
    ASSERT_GE(got.size(), steps);
    for (std::size_t i = 0; i < steps; ++i)
        ASSERT_NEAR(got[i], expected[i], tolerance * expected[i]) << "step " << i;
}

/// One step without an update, so that the gradients stay: whole tensors by name.
class OneStep {
public:
    OneStep(Plan plan, std::optional<RoutingTrace> trace)
        : m_run(std::move(plan), m_alone), m_replay(std::move(trace)), m_trace(topk(), 8) {}
    OneStep(Plan plan, std::optional<RoutingTrace> trace, Transport& world)
        : m_run(std::move(plan), world), m_replay(std::move(trace)), m_trace(topk(), 8) {}

    void run() {
        m_groups = makeGroups(m_run.plan, *m_run.transport).value();
        TrainingConstants constants;
        constants.adam.learning_rate = 0.0;
        Result<std::unique_ptr<StageModel>> made = StageModel::create(
            {m_run.plan, *m_run.backend, m_run.transport->world(), m_groups, m_run.data, constants,
             m_replay ? nullptr : &m_trace, m_replay ? &*m_replay : nullptr});
        ASSERT_TRUE(made.ok()) << made.error().text();
        m_model = std::move(made).value();
        ProgramRunner runner(m_run.schedule.stages[m_groups.stage().index()], *m_model,
                             *m_run.backend, m_run.recorder, m_run.hooks());
        const Status status = runner.runStep(0);
        ASSERT_TRUE(status.ok()) << status.error().text();
    }
    ParameterStore& parameters() { return m_model->parameters(); }
    const RoutingTrace& trace() const { return m_trace; }
    const StepResult& result() const { return m_model->result(); }

private:
    std::int64_t topk() const {
        return m_run.plan.model.moe ? m_run.plan.model.moe->router_topk : 1;
    }

    std::unique_ptr<Transport> m_own = makeLocalTransport();
    Transport& m_alone = *m_own;
    test::TinyRun m_run;
    std::optional<RoutingTrace> m_replay;
    RoutingTrace m_trace;
    RankGroups m_groups;
    std::unique_ptr<StageModel> m_model;
};

std::map<std::string, std::vector<float>> wholeGradients(ParameterStore& store) {
    std::map<std::string, std::vector<float>> out;
    for (const ParameterEntry& entry : store.entries())
        for (const TensorPiece& piece : entry.pieces) {
            const Vector part =
                store.part(ParameterCopy::Gradient, entry.group, piece.offset, piece.size());
            out[piece.tensor].assign(part.begin(), part.end());
        }
    return out;
}

/// |difference| / |whole tensor| of what this rank holds (and has summed) of every tensor.
void expectGradients(ParameterStore& got, ParameterStore& expected) {
    const auto whole = wholeGradients(expected);
    for (const ParameterEntry& entry : got.entries()) {
        const ShardRange shard = got.shard(entry.group);
        for (const TensorPiece& p : entry.pieces) {
            const std::vector<float>& want = whole.at(p.tensor);
            const Vector have = got.part(ParameterCopy::Gradient, entry.group, p.offset, p.size());
            double norm = 0.0, difference = 0.0;
            for (const float w : want) norm += static_cast<double>(w) * w;
            for (std::int64_t r = 0; r < p.rows; ++r)
                for (std::int64_t c = 0; c < p.cols; ++c) {
                    const std::int64_t at = p.offset + r * p.cols + c;
                    if (at < shard.begin || at >= shard.end) continue;
                    const double d =
                        static_cast<double>(have[static_cast<std::size_t>(r * p.cols + c)]) -
                        want[static_cast<std::size_t>((p.first_row + r) * p.full_cols +
                                                      p.first_col + c)];
                    difference += d * d;
                }
            // A router's bias is moved by the load alone.
            if (p.tensor.ends_with("router bias")) continue;
            EXPECT_GT(norm, 0.0) << p.tensor;
            EXPECT_LE(std::sqrt(difference), 1e-5 * std::sqrt(norm)) << p.tensor;
        }
    }
}

struct Case {
    const char* name;
    void (*change)(Plan& plan, std::int64_t world);
    std::int64_t ranks = 2;  ///< at least
};

void noPipelines(Plan&, std::int64_t) {}

void recompute(Plan& plan, std::vector<std::string> modules) {
    plan.recompute.granularity =
        modules.empty() ? RecomputeGranularity::Full : RecomputeGranularity::Selective;
    plan.recompute.modules = std::move(modules);
}

void tensorParallel(Plan& plan, bool sequence, std::int64_t etp) {
    plan.layout.tp = 2;
    plan.layout.sp = sequence;
    plan.layout.etp = etp;
    plan.layout.dp /= 2;
}

const Case kCases[] = {
    {"replicas", noPipelines},
    {"experts_spread",
     [](Plan& p, std::int64_t world) {
         p.layout.ep = world;
         p.all_to_all.chunks = 2;
     }},
    {"sharded_optimizer", [](Plan& p, std::int64_t) { p.zero_stage = 1; }},
    {"sharded_optimizer_with_experts_spread",
     [](Plan& p, std::int64_t) {
         p.layout.ep = 2;
         p.zero_stage = 1;
     }},
    {"recompute_full",
     [](Plan& p, std::int64_t) {
         p.layout.ep = 2;
         recompute(p, {});
     }},
    {"recompute_one_layer",
     [](Plan& p, std::int64_t) {
         recompute(p, {});
         p.recompute.num_layers = 1;
     }},
    {"recompute_parts",
     [](Plan& p, std::int64_t) {
         p.layout.ep = 2;
         p.all_to_all.chunks = 2;
         recompute(p, {"moe_act", "layernorm", "core_attn", "mlp", "shared_experts"});
     }},
    {"recompute_moe",
     [](Plan& p, std::int64_t) {
         p.layout.ep = 2;
         recompute(p, {"moe", "layernorm"});
     }},
    {"tensor_parallel_dense",
     [](Plan& p, std::int64_t) {
         tensorParallel(p, false, 1);
         p.model.layers.assign(4, LayerKind::Dense);
         p.model.moe.reset();
         p.model.attention.qkv_bias = p.model.attention.output_bias = true;
     }},
    {"sequence_parallel",
     [](Plan& p, std::int64_t) {
         tensorParallel(p, true, 1);
         p.model.attention.qk_norm = true;
         p.model.attention.qkv_bias = p.model.attention.output_bias = true;
     }},
    {"sequence_parallel_experts_over_tp",
     [](Plan& p, std::int64_t world) {
         tensorParallel(p, true, 1);
         p.layout.ep = world;
         p.all_to_all.chunks = 2;
     }},
    {"sequence_parallel_experts_sliced",
     [](Plan& p, std::int64_t) {
         tensorParallel(p, true, 2);
         p.layout.ep = p.layout.dp;
         p.all_to_all.chunks = 2;
     }},
    {"sequence_parallel_recompute_sharded",
     [](Plan& p, std::int64_t) {
         tensorParallel(p, true, 2);
         p.zero_stage = 1;
         recompute(p, {});
     }},
    {"latent_attention",
     [](Plan& p, std::int64_t) {
         test::useLatentAttention(p);
         recompute(p, {"mla_up_proj", "layernorm"});
     }},
    {"latent_attention_tensor_parallel",
     [](Plan& p, std::int64_t) {
         test::useLatentAttention(p);
         tensorParallel(p, true, 1);
     }},
    {"sigmoid_router_with_bias_and_groups",
     [](Plan& p, std::int64_t world) {
         p.model.moe->scoring = ScoringFunction::Sigmoid;
         p.model.moe->expert_bias_routing = true;
         p.model.moe->norm_topk_prob = true;
         p.model.moe->num_groups = 4;
         p.model.moe->topk_groups = 2;
         p.model.moe->shared_gate = true;
         p.layout.ep = world;
     }},
    {"dropped_tokens",
     [](Plan& p, std::int64_t world) {
         p.capacity_factor = 1.0;
         p.layout.ep = world;
     }},
    {"layer_norm_positions_and_tied_embedding",
     [](Plan& p, std::int64_t world) {
         p.model.norm = NormKind::LayerNorm;
         p.model.position = PositionKind::Learned;
         p.model.tie_word_embeddings = true;
         p.model.mlp_bias = true;
         p.model.dense_mlp = p.model.moe->mlp = MlpKind::TwoMatrix;
         p.layout.pp = 2;
         p.layout.dp = world / 2;
         p.zero_stage = 1;
     }},
    {"tensor_parallel_pipeline",
     [](Plan& p, std::int64_t world) {
         tensorParallel(p, true, 1);
         p.layout.dp = world / 4;
         p.layout.pp = 2;
         p.layout.vpp = 2;
         p.schedule = ScheduleKind::ZbV;
     },
     4},
};

class Layouts : public testing::TestWithParam<Case> {
protected:
    void SetUp() override {
        const std::int64_t world = test::transport().world().size();
        if (world < GetParam().ranks)
            GTEST_SKIP() << "needs " << GetParam().ranks << " ranks, " << world
                         << " started: see kernels_layouts.ranks_4";
    }
    static Plan plan() {
        const std::int64_t world = test::transport().world().size();
        Plan out = basePlan(world);
        GetParam().change(out, world);
        for (const Violation& broken : validatePlan(out)) ADD_FAILURE() << broken.message;
        return out;
    }
};

TEST_P(Layouts, FiftyStepsWithTheSameRoutingGiveTheSameLosses) {
    const Plan split = plan();
    const test::TemporaryDirectory directory;
    const std::string file = split.model.moe ? (directory.path() / "routing").string() : "";
    test::TinyRun alone(oneRank(split)), together(split, test::transport());
    const std::vector<double> expected = lossesOf(alone, optionsOf(50, file, ""));
    expectLosses(lossesOf(together, optionsOf(50, "", file)), expected, 50, 1e-5);
    const auto& counters = together.recorder.timeline().counters;
    ASSERT_EQ(counters.contains("dropped_rows"), split.capacity_factor.has_value());
    if (!split.capacity_factor) return;
    EXPECT_GT(std::stoll(counters.at("dropped_rows")), 0);
}

TEST(FreeRouting, StaysNear) {
    Plan split = basePlan(test::transport().world().size());
    tensorParallel(split, true, 1);
    split.layout.ep = 2;
    split.zero_stage = 1;
    test::TinyRun alone(oneRank(split)), together(split, test::transport());
    const std::vector<double> expected = lossesOf(alone, optionsOf(50, "", ""));
    const std::vector<double> got = lossesOf(together, optionsOf(50, "", ""));
    expectLosses(got, expected, 5, 1e-5);
    expectLosses(got, expected, 50, 1e-3);
}

TEST_P(Layouts, EveryGradientIsThatOfOneRank) {
    const Plan split = plan();
    OneStep alone(oneRank(split), std::nullopt);
    alone.run();
    OneStep together(split, alone.trace(), test::transport());
    together.run();
    if (HasFatalFailure()) return;
    EXPECT_NEAR(together.result().gradient_norm, alone.result().gradient_norm,
                1e-5 * alone.result().gradient_norm);
    EXPECT_NEAR(together.result().aux_loss, alone.result().aux_loss,
                1e-5 * alone.result().aux_loss);
    expectGradients(together.parameters(), alone.parameters());
}

TEST(Recomputed, ChangesNoBitWithExpertsSpread) {
    Plan plan = basePlan(test::transport().world().size());
    plan.layout.ep = 2;
    test::TinyRun keeping(plan, test::transport());
    const std::vector<double> expected = lossesOf(keeping, optionsOf(5, "", ""));
    recompute(plan, {});
    test::TinyRun whole(plan, test::transport());
    EXPECT_EQ(lossesOf(whole, optionsOf(5, "", "")), expected);
    recompute(plan, {"moe", "layernorm"});
    test::TinyRun parts(plan, test::transport());
    EXPECT_EQ(lossesOf(parts, optionsOf(5, "", "")), expected);
}

/// Bytes of the exchanges of tensor parallelism inside the layers, by kind.
using ByKind = std::map<OperationKind, double>;

ByKind measuredTensorBytes(const RankTimeline& timeline) {
    ByKind out;
    for (const Event& event : timeline.events)
        if (event.phase == Phase::TpComm && event.layer.valid())
            out[event.kind] += static_cast<double>(event.bytes);
    return out;
}
ByKind scheduledTensorBytes(const StageProgram& program) {
    ByKind out;
    for (const Operation& op : program.operations)
        if (op.key.phase == Phase::TpComm) out[op.key.kind] += op.bytes.value;
    return out;
}

TEST(TensorParallel, MovesTheBytesOfTheSchedule) {
    Transport& transport = test::transport();
    const std::int64_t world = transport.world().size();
    for (const std::int64_t etp : {1, 2}) {
        Plan plan = basePlan(world);
        tensorParallel(plan, true, etp);
        plan.layout.ep = world / etp;
        // Every rank counts its own rows, the schedule their mean: let the experts get equal loads.
        plan.capacity_factor = 1.0;
        test::TinyRun run(plan, transport);
        ASSERT_EQ(lossesOf(run, optionsOf(1, "", "")).size(), 1U);
        const ByKind measured = measuredTensorBytes(run.recorder.timeline());
        const ByKind scheduled = scheduledTensorBytes(run.schedule.stages[0]);
        for (const OperationKind kind : {OperationKind::AllGather, OperationKind::ReduceScatter})
            EXPECT_NEAR(measured.at(kind), scheduled.at(kind), 1e-6 * scheduled.at(kind))
                << toText(kind) << " with etp " << etp;
    }
}

/// A folder that every rank of this launch names alike.
std::filesystem::path sharedFolder() {
    return std::filesystem::temp_directory_path() /
           ("piper-layouts-" + std::to_string(::getppid()));
}

TEST(Resumed, OnTheSameLayoutToTheBitAndOnOneRankClosely) {
    Transport& transport = test::transport();
    Plan split = basePlan(transport.world().size());
    tensorParallel(split, true, 2);
    split.layout.ep = split.layout.dp;
    split.zero_stage = 1;
    const std::filesystem::path folder = sharedFolder();
    std::filesystem::create_directories(folder);
    TrainingOptions options = optionsOf(6, (folder / "routing").string(), "");
    options.checkpoint_directory = (folder / "checkpoints").string();
    options.checkpoint_every = 3;
    test::TinyRun whole(split, transport);
    const std::vector<double> expected = lossesOf(whole, options);
    ASSERT_EQ(expected.size(), 6U);

    options = optionsOf(6, "", "");
    options.resume = (folder / "checkpoints" / "step-3").string();
    test::TinyRun same(split, transport);
    const std::vector<double> again = lossesOf(same, options);
    ASSERT_EQ(again.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(again[i], expected[3 + i]) << i;

    options.replay_routing = (folder / "routing").string();
    test::TinyRun alone(oneRank(split));
    const std::vector<double> other = lossesOf(alone, options);
    ASSERT_EQ(other.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(other[i], expected[3 + i], 1e-5 * expected[3 + i]) << i;
    ASSERT_TRUE(transport.world().barrier().ok());
    std::error_code ignored;
    if (transport.world().rank() == 0) std::filesystem::remove_all(folder, ignored);
}

INSTANTIATE_TEST_SUITE_P(All, Layouts, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace piper
