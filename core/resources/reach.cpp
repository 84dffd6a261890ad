// SPDX-License-Identifier: Apache-2.0
#include "core/resources/reach.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/cast.h"

namespace piper {
namespace {

/// Coefficients of z^0 .. z^topk: sums over sets of experts by their size.
using Sets = std::vector<double>;
/// The same by number of nodes reached; a single row where that does not matter.
using SetsByNodes = std::vector<Sets>;

void multiply(Sets& sets, const Sets& other) {
    for (std::size_t j = sets.size(); j-- > 0;) {
        double sum = 0.0;
        for (std::size_t i = 0; i <= j; ++i) sum += sets[i] * other[j - i];
        sets[j] = sum;
    }
}

void addExpert(Sets& sets, double weight) {
    for (std::size_t j = sets.size() - 1; j > 0; --j) sets[j] += weight * sets[j - 1];
}

/// Products of all factors but one, for each: by what lies before and after it.
template <class Product, class Multiply>
std::vector<std::pair<Product, Product>> around(std::size_t n, const Product& one,
                                                const Multiply& times) {
    std::vector<std::pair<Product, Product>> out(n, {one, one});
    for (std::size_t i = 1; i < n; ++i) {
        out[i].first = out[i - 1].first;
        times(out[i].first, i - 1);
    }
    for (std::size_t i = n; i-- > 1;) {
        out[i - 1].second = out[i].second;
        times(out[i - 1].second, i);
    }
    return out;
}

double choose(std::int64_t n, std::int64_t k) {
    if (k < 0 || k > n) return 0.0;
    double out = 1.0;
    for (std::int64_t i = 0; i < k; ++i)
        out *= static_cast<double>(n - i) / static_cast<double>(i + 1);
    return out;
}

class Draw {
public:
    explicit Draw(const ReachProblem& problem)
        : m_problem(problem), m_nodes(*std::ranges::max_element(problem.node_of_rank) + 1) {
        const auto limit = problem.node_limit;
        m_limited = limit > 0 && limit < m_nodes;
        const std::int64_t most = m_limited ? std::min(limit, problem.topk) : 0;
        for (std::int64_t d = 0; d <= most; ++d)
            m_set_weight.push_back(m_limited ? choose(m_nodes - d, limit - d) : 1.0);
        m_none.assign(at(problem.topk) + 1, 0.0);
        m_none[0] = 1.0;
        m_experts.resize(problem.node_of_rank.size());
        for (std::size_t e = 0; e < problem.load.size(); ++e)
            m_experts[at(problem.rank_of_expert[e])].push_back(e);
        m_ranks.resize(at(m_nodes));
        for (std::size_t r = 0; r < problem.node_of_rank.size(); ++r)
            m_ranks[at(problem.node_of_rank[r])].push_back(r);
        const double topk = static_cast<double>(problem.topk);
        for (const double load : problem.load) {
            const double chance = std::min(topk * load, kSure);
            m_wanted.push_back(chance);
            m_weight.push_back(chance / (1.0 - chance));
        }
    }

    Reach reach() {
        for (int round = 0; round < kRounds; ++round) {
            if (spread(true) < kExact) break;
        }
        spread(false);
        return std::move(m_reach);
    }

private:
    static constexpr double kSure = 1.0 - 1e-8, kExact = 1e-6;
    static constexpr double kStep = 0.7;  ///< whole steps swing for ever under a node limit
    static constexpr int kRounds = 100;

    /// Chances under the present weights; weights are moved towards the loads when `fits`.
    /// Returns the largest distance of a chance from what is wanted.
    double spread(bool fits) {
        std::vector<Sets> of_rank(m_experts.size(), m_none);
        for (std::size_t r = 0; r < m_experts.size(); ++r)
            for (const std::size_t e : m_experts[r]) addExpert(of_rank[r], m_weight[e]);
        std::vector<Sets> of_node(m_ranks.size(), m_none);
        for (std::size_t n = 0; n < m_ranks.size(); ++n)
            for (const std::size_t r : m_ranks[n]) multiply(of_node[n], of_rank[r]);
        SetsByNodes one(m_set_weight.size(), Sets(m_none.size(), 0.0));
        one[0] = m_none;
        const auto others = around(m_ranks.size(), one, [&](SetsByNodes& product, std::size_t n) {
            addNode(product, of_node[n]);
        });
        m_reach.node.assign(m_ranks.size(), 0.0);
        m_reach.rank.assign(m_experts.size(), 0.0);
        double off = 0.0;
        std::vector<double> weights = m_weight;
        for (std::size_t n = 0; n < m_ranks.size(); ++n) {
            const Sets beside = besideNode(others[n].first, others[n].second);
            const double all = total(beside, of_node[n]);
            if (all <= 0.0) continue;
            m_reach.node[n] = 1.0 - total(beside, m_none) / all;
            const auto mates = around(m_ranks[n].size(), m_none, [&](Sets& product, std::size_t i) {
                multiply(product, of_rank[m_ranks[n][i]]);
            });
            for (std::size_t i = 0; i < m_ranks[n].size(); ++i) {
                Sets without = mates[i].first;
                multiply(without, mates[i].second);
                m_reach.rank[m_ranks[n][i]] = 1.0 - total(beside, without) / all;
                if (fits) off = std::max(off, fit(m_ranks[n][i], without, beside, all, weights));
            }
        }
        if (fits) m_weight = std::move(weights);
        return off;
    }

    double fit(std::size_t rank, const Sets& mates, const Sets& beside, double all,
               std::vector<double>& weights) const {
        const std::vector<std::size_t>& experts = m_experts[rank];
        const auto rest = around(experts.size(), m_none, [&](Sets& product, std::size_t i) {
            addExpert(product, m_weight[experts[i]]);
        });
        double off = 0.0;
        for (std::size_t i = 0; i < experts.size(); ++i) {
            const double wanted = m_wanted[experts[i]];
            if (wanted <= 0.0) continue;
            Sets without = mates;
            multiply(without, rest[i].first);
            multiply(without, rest[i].second);
            const double chance = std::clamp(1.0 - total(beside, without) / all, 1e-12, kSure);
            off = std::max(off, std::abs(chance - wanted));
            const double odds = wanted / (1.0 - wanted) * (1.0 - chance) / chance;
            weights[experts[i]] *= std::pow(odds, kStep);
        }
        return off;
    }

    void addNode(SetsByNodes& product, const Sets& sets) const {
        if (!m_limited) return multiply(product[0], sets);
        Sets some = sets;
        some[0] -= 1.0;  // none of the node's experts: it is not reached
        for (std::size_t d = product.size() - 1; d > 0; --d) {
            Sets reached = product[d - 1];
            multiply(reached, some);
            for (std::size_t j = 0; j < reached.size(); ++j) product[d][j] += reached[j];
        }
    }

    /// [j]: weight of all that the other nodes add to j experts of this node.
    [[nodiscard]] Sets besideNode(const SetsByNodes& before, const SetsByNodes& after) const {
        Sets out(m_none.size(), 0.0);
        const std::size_t topk = m_none.size() - 1;
        for (std::size_t j = 0; j <= topk; ++j) {
            const std::size_t own = m_limited && j > 0 ? 1 : 0;
            for (std::size_t a = 0; a < before.size(); ++a)
                for (std::size_t b = 0; a + b + own < m_set_weight.size(); ++b) {
                    double sets = 0.0;
                    for (std::size_t i = 0; i <= topk - j; ++i)
                        sets += before[a][i] * after[b][topk - j - i];
                    out[j] += m_set_weight[a + b + own] * sets;
                }
        }
        return out;
    }
    [[nodiscard]] static double total(const Sets& beside, const Sets& own) {
        return std::inner_product(beside.begin(), beside.end(), own.begin(), 0.0);
    }

    const ReachProblem& m_problem;
    std::int64_t m_nodes;
    bool m_limited = false;
    std::vector<double> m_set_weight;                          ///< by number of nodes reached
    Sets m_none;                                               ///< the empty set alone
    std::vector<std::vector<std::size_t>> m_experts, m_ranks;  ///< of each rank, of each node
    std::vector<double> m_wanted, m_weight;                    ///< [experts]
    Reach m_reach;
};

}  // namespace

Reach tokenReach(const ReachProblem& problem) {
    return Draw(problem).reach();
}

}  // namespace piper
