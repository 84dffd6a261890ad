// SPDX-License-Identifier: Apache-2.0
#include "core/search/expert_layout.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "core/base/cast.h"

namespace piper {
namespace {

/// Smaller differences are rounding.
constexpr double kLeastGain = 1e-12;

/// Loads as shares of one, so that layers count alike.
ExpertLoads shares(const ExpertLoads& loads) {
    const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
    ExpertLoads out = loads;
    for (double& load : out) load = sum > 0.0 ? load / sum : 0.0;
    return out;
}

/// Two copies that change places.
struct Swap {
    std::size_t first = 0, second = 0;  ///< experts
    std::int64_t first_rank = 0, second_rank = 0;
};

class Climber {
public:
    Climber(const std::vector<ExpertLoads>& rows, ExpertLayout layout, std::int64_t ep)
        : m_ep(ep), m_layout(std::move(layout)), m_held(at(ep)) {
        for (const ExpertLoads& row : rows) {
            m_rows.push_back(shares(row));
            m_loads.push_back(rankLoads(m_rows.back(), m_layout, ep));
        }
        for (std::size_t e = 0; e < m_layout.ranks.size(); ++e)
            for (const std::int64_t rank : m_layout.ranks[e]) m_held[at(rank)].push_back(e);
    }

    ClimbResult run(std::int64_t max_swaps) {
        ClimbResult out;
        while (out.swaps < max_swaps) {
            const std::optional<Swap> swap = m_rows.size() == 1 ? narrowing() : lowering();
            if (!swap) break;
            apply(*swap);
            ++out.swaps;
        }
        out.layout = std::move(m_layout);
        return out;
    }

private:
    /// What a copy of an expert brings its rank in a row.
    [[nodiscard]] double share(std::size_t row, std::size_t expert) const {
        return m_rows[row][expert] / static_cast<double>(m_layout.ranks[expert].size());
    }
    [[nodiscard]] bool allowed(const Swap& s) const {
        return !m_layout.holds(s.first, s.second_rank) && !m_layout.holds(s.second, s.first_rank);
    }
    /// Ranks in the order of a key, the lower index first among equals.
    template <class Key>
    [[nodiscard]] std::vector<std::int64_t> ranksBy(const Key& key) const {
        std::vector<std::int64_t> order(at(m_ep));
        std::iota(order.begin(), order.end(), std::int64_t{0});
        std::ranges::stable_sort(order, {}, key);
        return order;
    }
    template <class Visit>
    void forEachSwap(std::int64_t first, std::int64_t second, const Visit& visit) const {
        for (const std::size_t a : m_held[at(first)])
            for (const std::size_t b : m_held[at(second)]) {
                const Swap swap{a, b, first, second};
                if (a != b && allowed(swap)) visit(swap);
            }
    }

    /// The paper's: the hottest rank against the coldest, then the next colder ones.
    [[nodiscard]] std::optional<Swap> narrowing() const {
        const std::vector<double>& loads = m_loads.front();
        const auto order = ranksBy([&](std::int64_t rank) { return loads[at(rank)]; });
        const std::int64_t hottest =
            std::ranges::max_element(loads) - loads.begin();  // the first of equals
        for (const std::int64_t cold : order) {
            if (cold == hottest) continue;
            const double gap = loads[at(hottest)] - loads[at(cold)];
            std::optional<Swap> best;
            double least = gap - kLeastGain;
            forEachSwap(hottest, cold, [&](const Swap& s) {
                const double moved = share(0, s.first) - share(0, s.second);
                const double left = std::abs(gap - 2.0 * moved);
                if (moved <= 0.0 || left >= least) return;
                least = left;
                best = s;
            });
            if (best) return best;
        }
        return std::nullopt;
    }

    /// Sum over rows of the hottest rank after a swap less before; and of squares, which goes down
    /// while two ranks share the top.
    struct Change {
        double hottest = 0.0, squares = 0.0;
        [[nodiscard]] bool lowers() const {
            return hottest < -kLeastGain || (hottest <= kLeastGain && squares < -kLeastGain);
        }
        [[nodiscard]] bool before(const Change& other) const {
            if (hottest < other.hottest - kLeastGain) return true;
            return hottest <= other.hottest + kLeastGain && squares < other.squares - kLeastGain;
        }
    };

    /// The hottest load of each row without two ranks.
    [[nodiscard]] std::vector<double> othersHottest(std::int64_t first, std::int64_t second) const {
        std::vector<double> out(m_rows.size(), 0.0);
        for (std::size_t r = 0; r < m_rows.size(); ++r)
            for (std::int64_t rank = 0; rank < m_ep; ++rank)
                if (rank != first && rank != second)
                    out[r] = std::max(out[r], m_loads[r][at(rank)]);
        return out;
    }

    [[nodiscard]] Change changeOf(const Swap& s, const std::vector<double>& others) const {
        Change change;
        for (std::size_t r = 0; r < m_rows.size(); ++r) {
            const double a = m_loads[r][at(s.first_rank)], b = m_loads[r][at(s.second_rank)];
            const double moved = share(r, s.first) - share(r, s.second);
            change.hottest +=
                std::max({others[r], a - moved, b + moved}) - std::max({others[r], a, b});
            change.squares += 2.0 * moved * (moved - (a - b));
        }
        return change;
    }

    /// By rank: what its load costs where it is the hottest, over the mean.
    [[nodiscard]] std::vector<double> overloads() const {
        std::vector<double> out(at(m_ep), 0.0);
        for (const std::vector<double>& loads : m_loads) {
            const auto hottest = std::ranges::max_element(loads);
            out[static_cast<std::size_t>(hottest - loads.begin())] +=
                *hottest - 1.0 / static_cast<double>(m_ep);
        }
        return out;
    }

    [[nodiscard]] std::optional<Swap> lowering() const {
        const std::vector<double> over = overloads();
        for (const std::int64_t first : ranksBy([&](std::int64_t r) { return -over[at(r)]; })) {
            if (over[at(first)] <= kLeastGain) break;
            std::optional<Swap> best;
            Change least;
            for (std::int64_t second = 0; second < m_ep; ++second) {
                if (second == first) continue;
                const std::vector<double> others = othersHottest(first, second);
                forEachSwap(first, second, [&](const Swap& s) {
                    const Change change = changeOf(s, others);
                    if (!change.lowers() || (best && !change.before(least))) return;
                    least = change;
                    best = s;
                });
            }
            if (best) return best;
        }
        return std::nullopt;
    }

    void apply(const Swap& s) {
        for (std::size_t r = 0; r < m_rows.size(); ++r) {
            const double moved = share(r, s.first) - share(r, s.second);
            m_loads[r][at(s.first_rank)] -= moved;
            m_loads[r][at(s.second_rank)] += moved;
        }
        move(s.first, s.first_rank, s.second_rank);
        move(s.second, s.second_rank, s.first_rank);
    }
    void move(std::size_t expert, std::int64_t from, std::int64_t to) {
        std::ranges::replace(m_layout.ranks[expert], from, to);
        std::ranges::sort(m_layout.ranks[expert]);
        std::erase(m_held[at(from)], expert);
        m_held[at(to)].push_back(expert);
        std::ranges::sort(m_held[at(to)]);
    }

    std::int64_t m_ep;
    ExpertLayout m_layout;
    std::vector<ExpertLoads> m_rows;
    std::vector<std::vector<double>> m_loads;      ///< [row][ep]
    std::vector<std::vector<std::size_t>> m_held;  ///< [ep] experts, ascending
};

}  // namespace

ExpertLayout ExpertLayout::of(const std::vector<std::int64_t>& placement, std::int64_t num_experts,
                              std::int64_t ep) {
    ExpertLayout out;
    for (std::int64_t e = 0; e < num_experts; ++e)
        out.ranks.push_back({placement.empty() ? e * ep / num_experts : placement[at(e)]});
    return out;
}

bool ExpertLayout::holds(std::size_t expert, std::int64_t rank) const {
    return std::ranges::binary_search(ranks[expert], rank);
}

std::vector<std::int64_t> ExpertLayout::counts(std::int64_t ep) const {
    std::vector<std::int64_t> out(at(ep), 0);
    for (const std::vector<std::int64_t>& holders : ranks)
        for (const std::int64_t rank : holders) ++out[at(rank)];
    return out;
}

std::vector<double> rankLoads(const ExpertLoads& loads, const ExpertLayout& layout,
                              std::int64_t ep) {
    std::vector<double> out(at(ep), 0.0);
    for (std::size_t e = 0; e < layout.ranks.size(); ++e)
        for (const std::int64_t rank : layout.ranks[e])
            out[at(rank)] += loads[e] / static_cast<double>(layout.ranks[e].size());
    return out;
}

double loadImbalance(const ExpertLoads& loads, const ExpertLayout& layout, std::int64_t ep) {
    const std::vector<double> ranks = rankLoads(loads, layout, ep);
    const double sum = std::accumulate(ranks.begin(), ranks.end(), 0.0);
    return sum > 0.0 ? std::ranges::max(ranks) * static_cast<double>(ep) / sum : 1.0;
}

ExpertLayout withReplicas(const std::vector<ExpertLoads>& rows, ExpertLayout layout,
                          std::int64_t ep, std::int64_t replicas) {
    ExpertLoads sum(layout.ranks.size(), 0.0);
    for (const ExpertLoads& row : rows) {
        const ExpertLoads share = shares(row);
        for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += share[e];
    }
    std::vector<std::int64_t> room(at(ep), (replicas + ep - 1) / ep);
    for (std::int64_t added = 0; added < replicas; ++added) {
        const std::vector<double> loads = rankLoads(sum, layout, ep);
        std::optional<std::pair<std::size_t, std::int64_t>> best;
        double hottest = -1.0;
        for (std::size_t e = 0; e < sum.size(); ++e) {
            const double each = sum[e] / static_cast<double>(layout.ranks[e].size());
            if (each <= hottest) continue;
            std::int64_t coldest = -1;
            for (std::int64_t rank = 0; rank < ep; ++rank)
                if (room[at(rank)] > 0 && !layout.holds(e, rank) &&
                    (coldest < 0 || loads[at(rank)] < loads[at(coldest)]))
                    coldest = rank;
            if (coldest < 0) continue;
            hottest = each;
            best = {e, coldest};
        }
        if (!best) break;
        std::vector<std::int64_t>& holders = layout.ranks[best->first];
        holders.insert(std::ranges::upper_bound(holders, best->second), best->second);
        --room[at(best->second)];
    }
    return layout;
}

ClimbResult climb(const std::vector<ExpertLoads>& rows, ExpertLayout layout, std::int64_t ep,
                  std::int64_t max_swaps) {
    if (rows.empty() || ep < 2) return {std::move(layout), 0};
    return Climber(rows, std::move(layout), ep).run(max_swaps);
}

ClimbResult climbWithReplicas(const std::vector<ExpertLoads>& rows, const ExpertLayout& layout,
                              std::int64_t ep, std::int64_t replicas, std::int64_t max_swaps) {
    const auto hottest = [&](const ExpertLayout& l) {
        double sum = 0.0;
        for (const ExpertLoads& row : rows) sum += loadImbalance(row, l, ep);
        return sum;
    };
    ClimbResult alone = climb(rows, layout, ep, max_swaps);
    if (replicas == 0) return alone;
    ClimbResult more = climb(rows, withReplicas(rows, layout, ep, replicas), ep, max_swaps);
    return hottest(more.layout) < hottest(alone.layout) - kLeastGain ? more : alone;
}

}  // namespace piper
