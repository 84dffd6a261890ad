// SPDX-License-Identifier: Apache-2.0
#include "core/resources/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/resources/reach.h"
#include "core/resources/routing.h"
#include "core/resources/traffic.h"
#include "core/resources/work.h"
#include "tests/core/resources/plans.h"

namespace piper {
namespace {

using test::smallPlan;

TEST(ChooseAlgorithm, AutoFollowsTheNodes) {
    const auto chosen = [](AllToAllAlgorithm wanted, std::int64_t ranks, std::int64_t nodes) {
        return chooseAlgorithm(wanted, ranks, nodes).algorithm;
    };
    EXPECT_EQ(chosen(AllToAllAlgorithm::Auto, 2, 1), AllToAllAlgorithm::Flat);
    EXPECT_EQ(chosen(AllToAllAlgorithm::Auto, 4, 2), AllToAllAlgorithm::Node);
    EXPECT_EQ(chosen(AllToAllAlgorithm::Flat, 4, 2), AllToAllAlgorithm::Flat);
    EXPECT_EQ(chosen(AllToAllAlgorithm::Rail, 4, 2), AllToAllAlgorithm::Rail);
    EXPECT_EQ(chosen(AllToAllAlgorithm::NodeDedup, 4, 4), AllToAllAlgorithm::NodeDedup);
    EXPECT_EQ(chosen(AllToAllAlgorithm::NodeDedup, 4, 1), AllToAllAlgorithm::Flat);
    const AlgorithmChoice fallen = chooseAlgorithm(AllToAllAlgorithm::Node, 3, 3);
    EXPECT_EQ(fallen.algorithm, AllToAllAlgorithm::Flat);
    EXPECT_TRUE(fallen.fell_back);
    EXPECT_NE(fallen.reason.find("3 nodes"), std::string::npos);
    EXPECT_FALSE(chooseAlgorithm(AllToAllAlgorithm::Auto, 3, 3).fell_back);
}

// --- how far a token reaches ---------------------------------------------------------------------

ReachProblem evenProblem(std::int64_t experts, std::int64_t topk, std::int64_t ranks,
                         std::int64_t nodes, std::int64_t limit) {
    ReachProblem p;
    p.load.assign(static_cast<std::size_t>(experts), 1.0 / static_cast<double>(experts));
    p.topk = topk;
    p.node_limit = limit;
    for (std::int64_t e = 0; e < experts; ++e) p.rank_of_expert.push_back(e * ranks / experts);
    for (std::int64_t r = 0; r < ranks; ++r) p.node_of_rank.push_back(r * nodes / ranks);
    return p;
}

double sum(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(Reach, EvenLoadsAreTheDrawWithoutReplacement) {
    for (const std::int64_t limit : {0, 1, 2, 3, 8}) {
        const Reach reach = tokenReach(evenProblem(64, 6, 16, 8, limit));
        EXPECT_NEAR(sum(reach.node), expectedNodes(64, 6, 8, limit), 1e-9) << limit;
        EXPECT_NEAR(sum(reach.rank), expectedNodes(64, 6, 16, 2 * limit), 1e-9) << limit;
        for (const double chance : reach.node) EXPECT_NEAR(chance, reach.node[0], 1e-9);
    }
}

/// The same distribution with every set of experts listed, its weights found by scaling.
class Listed {
public:
    explicit Listed(const ReachProblem& p) : m_problem(p) {
        for (unsigned s = 0; s < 1U << p.load.size(); ++s)
            if (std::popcount(s) == p.topk && prior(s) > 0.0) m_sets.push_back(s);
        std::vector<double> weight(p.load.size(), 1.0);
        for (int round = 0; round < 3000; ++round) {
            draw(weight);
            for (std::size_t e = 0; e < weight.size(); ++e)
                weight[e] *= static_cast<double>(p.topk) * p.load[e] / chance(1U << e);
        }
        draw(weight);
    }
    /// That a token has one of these experts.
    [[nodiscard]] double chance(unsigned experts) const {
        double sum = 0.0;
        for (std::size_t i = 0; i < m_sets.size(); ++i)
            if ((m_sets[i] & experts) != 0) sum += m_chance[i];
        return sum;
    }
    [[nodiscard]] unsigned ofRank(std::int64_t rank) const {
        unsigned out = 0;
        for (std::size_t e = 0; e < m_problem.load.size(); ++e)
            if (m_problem.rank_of_expert[e] == rank) out |= 1U << e;
        return out;
    }

private:
    [[nodiscard]] double prior(unsigned s) const {
        const auto nodes = m_problem.node_of_rank.back() + 1;
        std::vector<bool> reached(static_cast<std::size_t>(nodes), false);
        for (std::size_t r = 0; r < m_problem.node_of_rank.size(); ++r)
            if ((s & ofRank(static_cast<std::int64_t>(r))) != 0)
                reached[static_cast<std::size_t>(m_problem.node_of_rank[r])] = true;
        const auto d = std::count(reached.begin(), reached.end(), true);
        if (m_problem.node_limit <= 0) return 1.0;
        // Ways to choose the nodes around these.
        double ways = 1.0;
        for (std::int64_t i = 0; i < m_problem.node_limit - d; ++i)
            ways *= static_cast<double>(nodes - d - i) / static_cast<double>(i + 1);
        return d > m_problem.node_limit ? 0.0 : ways;
    }
    void draw(const std::vector<double>& weight) {
        m_chance.clear();
        for (const unsigned s : m_sets) {
            double w = prior(s);
            for (std::size_t e = 0; e < weight.size(); ++e)
                if ((s >> e & 1U) != 0) w *= weight[e];
            m_chance.push_back(w);
        }
        const double all = sum(m_chance);
        for (double& c : m_chance) c /= all;
    }
    const ReachProblem& m_problem;
    std::vector<unsigned> m_sets;
    std::vector<double> m_chance;
};

TEST(Reach, UnevenLoadsAgainstEverySetListed) {
    for (const std::int64_t limit : {0, 2}) {
        ReachProblem p = evenProblem(8, 3, 8, 4, limit);
        p.load = {0.25, 0.2, 0.15, 0.1, 0.1, 0.1, 0.06, 0.04};
        const Listed listed(p);
        const Reach reach = tokenReach(p);
        for (std::int64_t r = 0; r < 8; ++r) {
            const auto i = static_cast<std::size_t>(r);
            EXPECT_NEAR(listed.chance(listed.ofRank(r)), 3 * p.load[i], 1e-6);
            EXPECT_NEAR(reach.rank[i], 3 * p.load[i], 1e-5) << "one expert a rank: its load";
        }
        for (std::int64_t n = 0; n < 4; ++n)
            EXPECT_NEAR(reach.node[static_cast<std::size_t>(n)],
                        listed.chance(listed.ofRank(2 * n) | listed.ofRank(2 * n + 1)), 1e-5)
                << "limit " << limit << " node " << n;
    }
}

TEST(Reach, ExpertsThatAlwaysOrNeverRun) {
    ReachProblem p = evenProblem(8, 2, 4, 2, 0);
    p.load = {0.5, 0.25, 0.25, 0, 0, 0, 0, 0};
    const Reach reach = tokenReach(p);
    EXPECT_NEAR(reach.rank[0], 1.0, 1e-4);
    EXPECT_NEAR(reach.node[1], 0.0, 1e-9);
    EXPECT_NEAR(sum(reach.node), 1.0, 1e-4);
}

// --- rows of an exchange -------------------------------------------------------------------------

/// ep 8 on two nodes of four.
Plan twoNodes() {
    Plan plan = smallPlan({.ep = 8, .dp = 8});
    plan.cluster.devices_per_node = 4;
    plan.cluster.nodes = 2;
    return plan;
}

TEST(ExchangeRows, ByHand) {
    Plan plan = twoNodes();
    const double k = 2;
    const auto rows = [&](AllToAllAlgorithm algorithm) {
        return exchangeRows(plan, algorithm, LayerId(0));
    };
    EXPECT_DOUBLE_EQ(rows(AllToAllAlgorithm::Flat).between_nodes, k / 2);
    EXPECT_DOUBLE_EQ(rows(AllToAllAlgorithm::Flat).inside_nodes, k * 3 / 8);
    // Of the rows that cross, three quarters are handed on.
    EXPECT_DOUBLE_EQ(rows(AllToAllAlgorithm::Node).inside_nodes, k * 3 / 8 + k / 2 * 3 / 4);
    EXPECT_DOUBLE_EQ(rows(AllToAllAlgorithm::NodePair).inside_nodes, k * 3 / 8 + k * 3 / 4);
    // Two of eight experts, four a node, one a rank: 2 (1 - 4/8 3/7) nodes, half of them away.
    EXPECT_DOUBLE_EQ(rows(AllToAllAlgorithm::NodeDedup).between_nodes, 1 - 12.0 / 56);
    EXPECT_DOUBLE_EQ(rows(AllToAllAlgorithm::NodeDedup).inside_nodes, k * 3 / 4);
    plan.all_to_all.node_limit = 1;
    EXPECT_DOUBLE_EQ(rows(AllToAllAlgorithm::NodeDedup).between_nodes, 0.5);
}

TEST(ExchangeRows, OperationsReportWhatIsHandedToTheTransport) {
    Plan plan = twoNodes();
    const auto exchange = [&](OperationKind kind, Phase phase, Pass pass) {
        OperationKey key{kind, phase, pass, LayerKind::Moe, false};
        return *operationWork(plan, key, StageId(0)).communication;
    };
    const auto dispatch = [&](Pass pass) {
        return exchange(OperationKind::Dispatch, Phase::Dispatch, pass);
    };
    const double tokens = 64, row = 64 * 4;
    const double flat = dispatch(Pass::Forward).flat_bytes.value;
    EXPECT_DOUBLE_EQ(flat, tokens * 2 * 7 / 8 * row);
    for (const AllToAllAlgorithm algorithm :
         {AllToAllAlgorithm::Flat, AllToAllAlgorithm::Node, AllToAllAlgorithm::NodeDedup}) {
        plan.all_to_all.algorithm = algorithm;
        const ExchangeRows rows = exchangeRows(plan, algorithm, LayerId(0));
        const CommunicationWork w = dispatch(Pass::Forward);
        EXPECT_DOUBLE_EQ(w.bytes.value, tokens * rows.total() * row);
        EXPECT_DOUBLE_EQ(w.between_nodes.value, tokens * rows.between_nodes * row);
        EXPECT_DOUBLE_EQ(w.flat_bytes.value, flat);
        EXPECT_DOUBLE_EQ(w.hottest_bytes.value, flat);
        const double combine =
            exchange(OperationKind::Combine, Phase::Combine, Pass::Forward).bytes.value;
        EXPECT_DOUBLE_EQ(combine, w.bytes.value);
    }
    // The gradient of each slot's weight travels like the slot's row would.
    const ExchangeRows slots = exchangeRows(plan, AllToAllAlgorithm::Node, LayerId(0));
    EXPECT_DOUBLE_EQ(dispatch(Pass::Backward).bytes.value,
                     dispatch(Pass::Forward).bytes.value + tokens * slots.total() * 4);
    // On one node tokens are not moved as tokens.
    plan.cluster.devices_per_node = 8;
    EXPECT_DOUBLE_EQ(dispatch(Pass::Forward).bytes.value, flat);
}

TEST(ExchangeRows, SkewBringsExpertsTogether) {
    Plan plan = twoNodes();
    plan.all_to_all.algorithm = AllToAllAlgorithm::NodeDedup;
    const double even = tokenTraffic(plan).between_nodes.value;
    plan.routing_load.kind = RoutingLoadKind::Zipf;
    plan.routing_load.zipf_exponent = 1.0;
    const double skewed = tokenTraffic(plan).between_nodes.value;
    EXPECT_LT(skewed, 0.98 * even);
    EXPECT_GT(skewed, 0.5 * even);
    plan.all_to_all.algorithm = AllToAllAlgorithm::Flat;
    EXPECT_GT(tokenTraffic(plan).between_nodes.value, even);
}

TEST(ExchangeRows, LayersOfAHistogramAreAveraged) {
    Plan plan = twoNodes();
    plan.routing_load.kind = RoutingLoadKind::Histogram;
    plan.routing_load.histogram = {{1, 1, 1, 1, 1, 1, 1, 1},
                                   {5, 5, 1, 1, 1, 1, 1, 1},
                                   {1, 1, 1, 1, 1, 1, 1, 1},
                                   {5, 5, 1, 1, 1, 1, 1, 1}};
    const auto rows = [&](std::int32_t layer) {
        return exchangeRows(plan, AllToAllAlgorithm::NodeDedup, LayerId(layer)).between_nodes;
    };
    EXPECT_LT(rows(1), rows(0));
    EXPECT_NEAR(stageExchangeRows(plan, AllToAllAlgorithm::NodeDedup, StageId(0)).between_nodes,
                (rows(0) + rows(1)) / 2, 1e-12);
}

}  // namespace
}  // namespace piper
