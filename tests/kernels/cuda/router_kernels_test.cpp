// SPDX-License-Identifier: Apache-2.0
// Router and permutation on emulated blocks against the reference and the host's permutation.
#include "kernels/cuda/router_kernels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/ops/permutation.h"
#include "tests/kernels/cuda/device_rows.h"
#include "tests/kernels/cuda/emulated_block.h"

namespace piper::cuda {
namespace {

using reference::Ids;
using reference::Tensor;
using test::DeviceRows;
using test::kThreads;
using test::runGrid;

struct RouterCase {
    const char* name;
    int num_experts, router_topk;
    bool sigmoid, normalize, bias;
    int num_groups, topk_groups, nodes, node_limit;
};
void PrintTo(const RouterCase& item, std::ostream* out) {
    *out << item.name;
}

class Router : public testing::TestWithParam<RouterCase> {
protected:
    static constexpr std::int64_t kTokens = 23;

    Router() : m_item(GetParam()), m_random(std::random_device{}()) {
        const int experts = m_item.num_experts;
        for (int e = 0; e < experts; ++e) {
            // Nodes of unequal size, not in the order of experts.
            m_node_of_expert.push_back(m_item.nodes > 0 ? (e * 7 % experts) % m_item.nodes : 0);
        }
        m_logits.fill(m_random, 3.0F);
        m_bias.fill(m_random, 0.3F);
        m_shape.num_experts = experts;
        m_shape.router_topk = m_item.router_topk;
        m_shape.scoring = m_item.sigmoid ? ScoringFunction::Sigmoid : ScoringFunction::Softmax;
        m_shape.norm_topk_prob = m_item.normalize;
        m_shape.routed_scaling_factor = 2.5;
        m_shape.num_groups = m_item.num_groups;
        m_shape.topk_groups = m_item.topk_groups;
        if (m_item.bias) m_shape.bias = {m_bias.data(), static_cast<std::size_t>(experts)};
        if (m_item.node_limit > 0) m_shape.node_of_expert = m_node_of_expert;
        m_shape.node_limit = m_item.node_limit;
    }

    [[nodiscard]] RouterArguments arguments(bool replay) {
        return {m_logits.data(),
                m_scores.data(),
                m_experts.data(),
                m_weights.data(),
                m_item.bias ? m_bias.data() : nullptr,
                m_item.node_limit > 0 ? m_node_of_expert.data() : nullptr,
                &m_bad,
                kTokens,
                m_item.num_experts,
                m_item.router_topk,
                m_item.num_groups,
                m_item.topk_groups,
                m_item.nodes,
                m_item.node_limit,
                2.5F,
                m_item.sigmoid,
                m_item.normalize,
                replay};
    }
    void run(const RouterArguments& a) {
        runGrid(2, kThreads, kThreads / 32 * routerWarpBytes(m_item.num_experts), m_random(),
                [&](auto& m) { routerBody(m, a); });
    }

    RouterCase m_item;
    std::mt19937 m_random;
    RouterShape m_shape;
    Ids m_node_of_expert;
    DeviceRows<float> m_logits{kTokens, m_item.num_experts};
    DeviceRows<float> m_scores{kTokens, m_item.num_experts};
    DeviceRows<float> m_weights{kTokens, m_item.router_topk};
    DeviceRows<float> m_bias{1, m_item.num_experts};
    Ids m_experts = Ids(static_cast<std::size_t>(kTokens * m_item.router_topk), -1);
    std::int32_t m_bad = -1;
};

TEST_P(Router, ChoosesAndWeighsAsTheReference) {
    run(arguments(false));
    const auto wanted = reference::router(m_shape, m_logits.tensor(), {});
    EXPECT_EQ(m_experts, wanted.experts);
    m_scores.expectNear(wanted.scores, 1e-5, 1e-7);
    m_weights.expectNear(wanted.weights, 1e-5, 1e-7);
    EXPECT_EQ(m_bad, -1);
}

TEST_P(Router, ReplaysGivenExperts) {
    for (std::size_t slot = 0; slot < m_experts.size(); ++slot) {
        const auto topk = static_cast<std::size_t>(m_item.router_topk);
        const auto token = slot / topk;
        m_experts[slot] = static_cast<std::int32_t>((token * 5 + slot % topk) %
                                                    static_cast<std::size_t>(m_item.num_experts));
    }
    const Ids given = m_experts;
    run(arguments(true));
    EXPECT_EQ(m_experts, given);
    m_weights.expectNear(reference::router(m_shape, m_logits.tensor(), given).weights, 1e-5, 1e-7);
}

TEST_P(Router, GradientFollowsScoresAndWeights) {
    run(arguments(false));
    DeviceRows<float> dweights(kTokens, m_item.router_topk);
    DeviceRows<float> dscore(1, m_item.num_experts);
    DeviceRows<float> dlogits(kTokens, m_item.num_experts);
    dweights.fill(m_random);
    dscore.fill(m_random, 0.1F);
    const RouterGradArguments a{m_scores.data(),    m_experts.data(),   dweights.data(),
                                dscore.data(),      dlogits.data(),     kTokens,
                                m_item.num_experts, m_item.router_topk, 2.5F,
                                m_item.sigmoid,     m_item.normalize};
    runGrid(2, kThreads, 16, m_random(), [&](auto& m) { routerGradBody(m, a); });
    const reference::RouterResult forward{m_scores.tensor(), m_weights.tensor(), m_experts};
    dlogits.expectNear(reference::routerGrad(m_shape, forward, dweights.tensor(), dscore.tensor()),
                       1e-4, 1e-6);
}

TEST_P(Router, ARowThatIsNotFiniteIsNamed) {
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
        m_logits.data()[7 * m_item.num_experts + 1] = bad;
        m_bad = -1;
        run(arguments(false));
        EXPECT_EQ(m_bad, 7) << bad;
    }
    for (const std::int32_t expert : m_experts) {
        EXPECT_TRUE(expert >= 0 && expert < m_item.num_experts);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Router,
    testing::Values(RouterCase{"softmax", 64, 8, false, false, false, 1, 1, 0, 0},
                    RouterCase{"softmax_normalized", 60, 4, false, true, false, 1, 1, 0, 0},
                    RouterCase{"sigmoid_bias_groups", 64, 6, true, true, true, 8, 4, 0, 0},
                    RouterCase{"groups_of_best", 40, 3, false, false, false, 5, 2, 0, 0},
                    RouterCase{"nodes", 48, 6, true, true, true, 1, 1, 5, 2},
                    RouterCase{"groups_and_nodes", 64, 4, true, false, true, 4, 3, 4, 2},
                    RouterCase{"a_node_with_one_left", 12, 3, true, false, false, 6, 3, 3, 2},
                    RouterCase{"few_experts", 3, 2, false, true, false, 1, 1, 0, 0}),
    [](const auto& info) { return std::string(info.param.name); });

class Permutation : public testing::TestWithParam<std::tuple<int, int, int>> {};

TEST_P(Permutation, EqualsTheHostsAndKeepsTheOrderOfTokens) {
    const auto [slots, num_experts, chunk] = GetParam();
    std::mt19937 random(std::random_device{}());
    Ids experts(static_cast<std::size_t>(slots));
    // Skewed: expert 0 gets half.
    for (auto& e : experts) {
        e = random() % 2 == 0
                ? 0
                : static_cast<std::int32_t>(random() % static_cast<unsigned>(num_experts));
    }
    const auto size = static_cast<std::size_t>(slots);
    Ids slot_of_row(size, -7);
    Ids row_of_slot(size, -7);
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(num_experts) + 1, -7);
    const int chunks = ceilDiv(slots, chunk);
    Ids counts(static_cast<std::size_t>(chunks * num_experts), -7);
    std::int32_t bad = -1;
    const PermutationArguments a{experts.data(),
                                 counts.data(),
                                 offsets.data(),
                                 slot_of_row.data(),
                                 row_of_slot.data(),
                                 &bad,
                                 slots,
                                 num_experts,
                                 chunk,
                                 chunks};
    const int blocks = rowBlocks(chunks, kThreads / 32, chunks);
    const int shared = kThreads / 32 * num_experts * 4;
    runGrid(blocks, kThreads, shared, random(), [&](auto& m) { permutationCountBody(m, a); });
    runGrid(1, kThreads, num_experts * 4, random(), [&](auto& m) { permutationScanBody(m, a); });
    runGrid(blocks, kThreads, shared, random(), [&](auto& m) { permutationPlaceBody(m, a); });
    Ids host_slots(size);
    Ids host_rows(size);
    std::vector<std::int64_t> host_offsets(offsets.size());
    ASSERT_TRUE(makePermutation(experts, num_experts, host_slots, host_rows, host_offsets).ok());
    EXPECT_EQ(offsets, host_offsets);
    EXPECT_EQ(slot_of_row, host_slots);
    EXPECT_EQ(row_of_slot, host_rows);
    EXPECT_EQ(bad, -1);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Permutation,
                         testing::Values(std::tuple{1000, 64, 128}, std::tuple{129, 7, 128},
                                         std::tuple{31, 300, 32}, std::tuple{1, 1, 32},
                                         std::tuple{640, 5, 64}));

TEST(PermutationPlan, ChunksStayWithinTheScratch) {
    for (const std::int64_t slots : {1L, 128L, 131072L, 131073L, 1L << 25, (1L << 30) - 1}) {
        const std::int64_t chunk = permutationChunk(slots);
        EXPECT_EQ(chunk % 32, 0);
        EXPECT_LE(ceilDiv<std::int64_t>(slots, chunk), 1025) << slots;
    }
}

TEST(PermutationPlan, AnExpertOutOfRangeIsNamedAndHasNoRow) {
    const Ids experts{0, 5, 1, -1, 1};
    Ids slot_of_row(5, -7);
    Ids row_of_slot(5, -7);
    Ids counts(2, 0);
    std::vector<std::int64_t> offsets(3, -7);
    std::int32_t bad = -1;
    const PermutationArguments a{experts.data(),
                                 counts.data(),
                                 offsets.data(),
                                 slot_of_row.data(),
                                 row_of_slot.data(),
                                 &bad,
                                 5,
                                 2,
                                 32,
                                 1};
    runGrid(1, 32, 8, 1, [&](auto& m) { permutationCountBody(m, a); });
    runGrid(1, 32, 8, 1, [&](auto& m) { permutationScanBody(m, a); });
    runGrid(1, 32, 8, 1, [&](auto& m) { permutationPlaceBody(m, a); });
    EXPECT_TRUE(bad == 1 || bad == 3) << bad;
    EXPECT_EQ(row_of_slot, (Ids{0, -1, 1, -1, 2}));
    EXPECT_EQ(offsets, (std::vector<std::int64_t>{0, 1, 3}));
}

}  // namespace
}  // namespace piper::cuda
