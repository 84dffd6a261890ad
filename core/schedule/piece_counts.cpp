// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/piece_counts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace piper {
namespace {

/// Relative: bounds add up in another order than costs. What keeps the tighter one is never refused
/// at the end, or a search at the limit itself would try all counts.
constexpr double kLeafRounding = 2.0 * kRounding;

}  // namespace

double PieceGroup::memory(const std::vector<PieceCost>& pieces) const {
    double persistent = 0.0, transient = 0.0, held = 0.0;
    for (const PieceCost& piece : pieces) {
        persistent += piece.persistent;
        transient = std::max(transient, piece.transient);
    }
    for (const std::vector<double>& moment : moments) {
        double sum = 0.0;
        for (std::size_t i = 0; i < pieces.size(); ++i) sum += moment[i] * pieces[i].kept;
        held = std::max(held, sum);
    }
    return persistent + held + transient;
}

PieceCounts::PieceCounts(const PieceGroup& group, const std::vector<PieceSeat>& seats,
                         const std::vector<std::size_t>& most, bool bounded)
    : m_group(&group) {
    for (const std::size_t position : group.positions) {
        m_seats.push_back(&seats[position]);
        m_cap.push_back(most[position]);
    }
    if (bounded) addMoments();
    const std::size_t pieces = m_seats.size();
    m_least.assign(pieces + 1, 0);
    m_most.assign(pieces + 1, 0);
    m_transient.assign(pieces + 1, 0.0);
    for (std::size_t i = pieces; i-- > 0;) {
        m_least[i] = m_least[i + 1] + m_seats[i]->least;
        m_most[i] = m_most[i + 1] + m_cap[i];
        m_transient[i] =
            std::max(m_transient[i + 1], m_seats[i]->cost[m_seats[i]->least].transient);
    }
    for (std::size_t r = 0; r < m_resources; ++r) addResource(r);
}

void PieceCounts::addMoments() {
    m_moments = m_group->moments;
    const std::size_t count = m_moments.size();
    if (count > 1) {
        std::vector<double> mean(m_seats.size(), 0.0);
        for (const std::vector<double>& moment : m_group->moments)
            for (std::size_t i = 0; i < mean.size(); ++i)
                mean[i] += moment[i] / static_cast<double>(count);
        m_moments.push_back(std::move(mean));
    }
    m_resources += m_moments.size();
}

double PieceCounts::costOf(std::size_t resource, std::size_t piece, const PieceCost& c) const {
    if (resource == 0) return m_group->weight * c.time;
    return c.persistent + m_moments[resource - 1][piece] * c.kept;
}

void PieceCounts::addResource(std::size_t resource) {
    const std::size_t pieces = m_seats.size();
    std::vector<std::vector<double>>& table = m_cost.emplace_back(pieces + 1);
    table[pieces] = {0.0};
    for (std::size_t i = pieces; i-- > 0;) {
        const PieceSeat& seat = *m_seats[i];
        table[i].assign(m_most[i] - m_least[i] + 1, kInfinite);
        for (std::size_t x = seat.least; x <= m_cap[i]; ++x) {
            const double own = costOf(resource, i, seat.cost[x]);
            double* out = table[i].data() + (x - seat.least);
            for (std::size_t later = 0; later < table[i + 1].size(); ++later)
                out[later] = std::min(out[later], own + table[i + 1][later]);
        }
        for (std::size_t s = table[i].size() - 1; s-- > 0;)
            table[i][s] = std::min(table[i][s], table[i][s + 1]);
    }
}

class PieceCounts::Descent {
public:
    Descent(const PieceCounts& counts, const PieceLimits& limits, std::size_t& budget)
        : m_counts(counts), m_limits(limits), m_budget(budget) {}

    std::optional<std::vector<std::size_t>> run() {
        choose(std::vector<double>(m_counts.m_resources, 0.0), 0.0, 0);
        return std::move(m_best);
    }

private:
    /// The most repeats on the pieces from `piece` on, by each resource alone; nothing when not
    /// even their least fit.
    [[nodiscard]] std::optional<std::size_t> room(std::size_t piece,
                                                  const std::vector<double>& spent,
                                                  double transient) const {
        const double largest = std::max(transient, m_counts.m_transient[piece]);
        std::size_t out = m_counts.m_most[piece];
        for (std::size_t r = 0; r < spent.size(); ++r) {
            const double limit = r == 0 ? m_limits.time : m_limits.capacity - largest;
            const double left = limit + kRounding * std::abs(limit) - spent[r];
            const std::vector<double>& cost = m_counts.m_cost[r][piece];
            const auto fits = std::ranges::upper_bound(cost, left) - cost.begin();
            if (fits == 0) return std::nullopt;
            out = std::min(out, m_counts.m_least[piece] + static_cast<std::size_t>(fits) - 1);
        }
        return out;
    }

    void leaf(std::size_t sum) {
        if (m_best && sum <= m_best_sum) return;
        double time = 0.0;
        for (const PieceCost& piece : m_pieces) time += m_counts.m_group->weight * piece.time;
        if (time > m_limits.time * (1.0 + kLeafRounding)) return;
        if (m_counts.m_group->memory(m_pieces) > m_limits.capacity * (1.0 + kLeafRounding)) return;
        m_best = m_chosen;
        m_best_sum = sum;
    }

    /// A count of the next piece and the most that all may come to with it.
    struct Choice {
        std::size_t count = 0, bound = 0;
    };

    void choose(const std::vector<double>& spent, double transient, std::size_t sum) {
        const std::size_t i = m_chosen.size();
        if (i == m_counts.m_seats.size()) return leaf(sum);
        const PieceSeat& seat = *m_counts.m_seats[i];
        std::vector<double> then(spent.size());
        const auto take = [&](std::size_t count) {
            for (std::size_t r = 0; r < then.size(); ++r)
                then[r] = spent[r] + m_counts.costOf(r, i, seat.cost[count]);
            return std::max(transient, seat.cost[count].transient);
        };
        std::vector<Choice> choices;
        for (std::size_t x = m_counts.m_cap[i] + 1; x-- > seat.least;) {
            const double largest = take(x);
            if (const auto later = room(i + 1, then, largest))
                choices.push_back({x, sum + x + *later});
        }
        std::ranges::stable_sort(choices, std::greater<>(), &Choice::bound);
        for (const Choice& choice : choices) {
            if (m_budget == 0 || (m_best && choice.bound <= m_best_sum)) return;
            --m_budget;
            const double largest = take(choice.count);
            m_chosen.push_back(choice.count);
            m_pieces.push_back(seat.cost[choice.count]);
            choose(then, largest, sum + choice.count);
            m_chosen.pop_back();
            m_pieces.pop_back();
        }
    }

    const PieceCounts& m_counts;
    const PieceLimits& m_limits;
    std::size_t& m_budget;
    std::vector<std::size_t> m_chosen;
    std::vector<PieceCost> m_pieces;
    std::optional<std::vector<std::size_t>> m_best;
    std::size_t m_best_sum = 0;
};

std::optional<std::vector<std::size_t>> PieceCounts::most(const PieceLimits& limits,
                                                          std::size_t& budget) const {
    return Descent(*this, limits, budget).run();
}

}  // namespace piper
