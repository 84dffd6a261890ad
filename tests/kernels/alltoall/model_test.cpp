// SPDX-License-Identifier: Apache-2.0
// The resource model's rows of an exchange are the mean of what the exchange's closed form counts.
#include <gtest/gtest.h>

#include <bit>

#include "core/resources/exchange.h"
#include "kernels/alltoall/token_exchange.h"
#include "kernels/alltoall/token_traffic.h"
#include "tests/core/resources/plans.h"

namespace piper {
namespace {

constexpr std::int64_t kRanks = 8, kExperts = 16, kTopk = 3;

Plan planOn(std::int64_t nodes, std::int64_t limit) {
    Plan plan = test::smallPlan({.ep = kRanks, .dp = kRanks});
    plan.model.moe->num_experts = kExperts;
    plan.model.moe->router_topk = kTopk;
    plan.cluster.nodes = nodes;
    plan.cluster.devices_per_node = kRanks / nodes;
    plan.all_to_all.node_limit = limit;
    return plan;
}

/// Tokens of every rank: every set of experts, as often as the draw of `limit` nodes and then of
/// experts on them gives it.
SlotOwners everyToken(std::int64_t nodes, std::int64_t limit) {
    std::vector<std::int64_t> tokens;
    for (unsigned allowed = 0; allowed < 1U << nodes; ++allowed) {
        if (std::popcount(allowed) != (limit > 0 ? limit : nodes)) continue;
        for (unsigned set = 0; set < 1U << kExperts; ++set) {
            if (std::popcount(set) != kTopk) continue;
            std::vector<std::int64_t> owners;
            for (std::int64_t e = 0; e < kExperts; ++e)
                if ((set >> e & 1U) != 0 && (allowed >> (e * nodes / kExperts) & 1U) != 0)
                    owners.push_back(e * kRanks / kExperts);
            if (std::ssize(owners) == kTopk)
                tokens.insert(tokens.end(), owners.begin(), owners.end());
        }
    }
    return SlotOwners(kRanks, tokens);
}

/// Rows of all ranks, of one exchange.
ExchangeTraffic counted(TokenAlgorithm algorithm, const std::vector<std::int64_t>& nodes,
                        const SlotOwners& owners) {
    ExchangeTraffic sum;
    if (deduplicates(algorithm)) {
        const auto tiers = dedupTiers(algorithm, nodes, {});
        for (const TokenTraffic& rank : tokenTraffic(*tiers, nodes, owners, kTopk, 1))
            sum += rank.spread;
        return sum;
    }
    for (const ExchangeTraffic& rank :
         exchangeTraffic(wayOf(algorithm), ExchangeTopology(nodes), slotRows(owners), 1))
        sum += rank;
    return sum;
}

TEST(ModelOfTheExchange, RowsAreTheMeanOverEveryRouting) {
    for (const std::int64_t nodes : {2, 4})
        for (const std::int64_t limit : {0, 2}) {
            const Plan plan = planOn(nodes, limit);
            std::vector<std::int64_t> node_of_rank;
            for (std::int64_t r = 0; r < kRanks; ++r) node_of_rank.push_back(r * nodes / kRanks);
            const SlotOwners owners = everyToken(nodes, limit);
            const double tokens = static_cast<double>(kRanks * std::ssize(owners[0]) / kTopk);
            for (const auto& [algorithm, modelled] :
                 {std::pair{TokenAlgorithm::Flat, AllToAllAlgorithm::Flat},
                  std::pair{TokenAlgorithm::Node, AllToAllAlgorithm::Node},
                  std::pair{TokenAlgorithm::Rail, AllToAllAlgorithm::Rail},
                  std::pair{TokenAlgorithm::NodePair, AllToAllAlgorithm::NodePair},
                  std::pair{TokenAlgorithm::NodeDedup, AllToAllAlgorithm::NodeDedup}}) {
                const ExchangeTraffic sum = counted(algorithm, node_of_rank, owners);
                const ExchangeRows rows = exchangeRows(plan, modelled, LayerId(0));
                EXPECT_NEAR(static_cast<double>(sum.inter_node_bytes), tokens * rows.between_nodes,
                            1e-6 * tokens)
                    << toText(algorithm) << ' ' << nodes << ' ' << limit;
                EXPECT_NEAR(static_cast<double>(sum.bytes), tokens * rows.total(), 1e-6 * tokens)
                    << toText(algorithm) << ' ' << nodes << ' ' << limit;
            }
        }
}

}  // namespace
}  // namespace piper
