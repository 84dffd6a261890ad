// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/kernels/support/tiny_run.h"

namespace piper {
namespace {

/// One-rank executor whose weights the test moves: learning rate 0, routing fixed by a trace.
class GradientCheck {
public:
    explicit GradientCheck(Plan plan)
        : m_run(std::move(plan)),
          m_trace(m_run.plan.model.moe->router_topk, m_run.plan.seq_len),
          m_groups(makeGroups(m_run.plan, *m_run.transport).value()) {
        build(&m_trace, nullptr);
        EXPECT_TRUE(step().ok());
        build(nullptr, &m_trace);
        EXPECT_TRUE(step().ok());
    }

    ParameterStore& parameters() { return m_model->parameters(); }

    /// Cross-entropy and auxiliary loss of the same batch under the weights as they are.
    double loss() {
        EXPECT_TRUE(step().ok());
        return m_model->result().loss + m_model->result().aux_loss;
    }

    /// Derivative of the loss along a direction of unit length, by central differences.
    double slope(const ParameterEntry& entry, const std::vector<float>& direction, double epsilon) {
        const Vector weight = parameters().weight(entry);
        const std::vector<float> before(weight.begin(), weight.end());
        const auto moved = [&](double by) {
            for (std::size_t i = 0; i < before.size(); ++i)
                weight[i] = before[i] + static_cast<float>(by) * direction[i];
            return loss();
        };
        const auto central = [&](double by) { return (moved(by) - moved(-by)) / (2.0 * by); };
        // Richardson: the error of second order cancels.
        const double coarse = central(epsilon), fine = central(epsilon / 2.0);
        std::copy(before.begin(), before.end(), weight.begin());
        return (4.0 * fine - coarse) / 3.0;
    }

private:
    void build(RoutingTrace* record, const RoutingTrace* replay) {
        TrainingConstants constants;
        constants.adam.learning_rate = 0.0;
        constants.seed = 3;
        m_model = StageModel::create({m_run.plan, *m_run.backend, m_run.transport->world(),
                                      m_groups, m_run.data, constants, record, replay})
                      .value();
        m_runner.emplace(m_run.schedule.stages[0], *m_model, *m_run.backend, m_run.recorder,
                         m_run.hooks());
    }
    Status step() { return m_runner->runStep(0); }

    test::TinyRun m_run;
    RoutingTrace m_trace;
    RankGroups m_groups;
    std::unique_ptr<StageModel> m_model;
    std::optional<ProgramRunner> m_runner;
};

double norm(Vector x) {
    double sum = 0.0;
    for (const float v : x) sum += static_cast<double>(v) * v;
    return std::sqrt(sum);
}

/// Every tensor: along its own gradient the slope is the gradient's length, and along a random
/// direction it is their product.
void checkEveryTensor(const Plan& plan) {
    GradientCheck check(plan);
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (const ParameterEntry& entry : check.parameters().entries()) {
        if (entry.name.ends_with("router bias")) continue;  // moved by the load alone
        check.loss();
        const Vector now = check.parameters().gradient(entry);
        const std::vector<float> gradient(now.begin(), now.end());
        const double length = norm(now);
        ASSERT_GT(length, 1e-6) << entry.name << " has no gradient";
        std::vector<float> along(gradient), across(gradient.size());
        for (float& g : along) g /= static_cast<float>(length);
        for (float& g : across) g = normal(random);
        const double across_length = norm(across);
        double product = 0.0;
        for (std::size_t i = 0; i < across.size(); ++i) {
            across[i] /= static_cast<float>(across_length);
            product += static_cast<double>(across[i]) * gradient[i];
        }
        // A step that changes the loss by about 2e-3, so that f32 rounding stays below a percent.
        const double epsilon = std::min(0.02, 2e-3 / length);
        const double slope = check.slope(entry, along, epsilon);
        EXPECT_NEAR(slope, length, 0.02 * length + 2e-5) << entry.name;
        EXPECT_NEAR(check.slope(entry, across, epsilon), product, 0.02 * length + 2e-5)
            << entry.name << ", random direction";
    }
}

TEST(Gradient, EveryTensorAgainstFiniteDifferences) {
    checkEveryTensor(test::tinyPlan());
}

TEST(Gradient, WithQueryAndKeyNorms) {
    Plan plan = test::tinyPlan();
    plan.model.attention.qk_norm = true;
    // Without a norm or a rotation the softmax would not feel a key's bias.
    plan.model.attention.qkv_bias = true;
    plan.model.moe->norm_topk_prob = true;
    checkEveryTensor(plan);
    plan.model.attention.qk_norm_full = true;
    plan.model.moe->scoring = ScoringFunction::Sigmoid;
    checkEveryTensor(plan);
}

TEST(Gradient, LatentAttention) {
    Plan plan = test::tinyPlan();
    test::useLatentAttention(plan);
    checkEveryTensor(plan);
    plan.model.attention.q_lora_rank = 0;
    checkEveryTensor(plan);
}

TEST(Gradient, LayerNormPositionsBiasesAndTiedEmbedding) {
    Plan plan = test::tinyPlan();
    plan.model.norm = NormKind::LayerNorm;
    plan.model.position = PositionKind::Learned;
    plan.model.max_position_embeddings = 16;
    plan.model.tie_word_embeddings = true;
    plan.model.mlp_bias = true;
    plan.model.attention.output_bias = true;
    checkEveryTensor(plan);
}

TEST(Gradient, GatedSharedExpertsAndGroupLimitedBiasedRouter) {
    Plan plan = test::tinyPlan();
    plan.model.moe->scoring = ScoringFunction::Sigmoid;
    plan.model.moe->norm_topk_prob = true;
    plan.model.moe->expert_bias_routing = true;
    plan.model.moe->num_groups = 3;
    plan.model.moe->topk_groups = 2;
    plan.model.moe->shared_gate = true;
    checkEveryTensor(plan);
}

TEST(Gradient, DroppedTokensWithRoomLeft) {
    Plan plan = test::tinyPlan();
    plan.capacity_factor = 1.0;
    plan.all_to_all.chunks = 2;
    checkEveryTensor(plan);
}

TEST(Gradient, TwoMatrixMlpsInChunks) {
    Plan plan = test::tinyPlan();
    plan.model.dense_mlp = MlpKind::TwoMatrix;
    plan.model.moe->mlp = MlpKind::TwoMatrix;
    plan.all_to_all.chunks = 3;
    checkEveryTensor(plan);
}

}  // namespace
}  // namespace piper
