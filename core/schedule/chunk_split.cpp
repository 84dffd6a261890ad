// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/chunk_split.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

namespace piper {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;  ///< relative
constexpr std::size_t kMostLeading = 12, kLongestPattern = 4;

/// One piece of the model on a rank, with the first n layers recomputed.
struct ChunkCost {
    double time = 0.0, persistent = 0.0, kept = 0.0, transient = 0.0;
};

/// Ranks with the same pieces: one, or the two mirrored ones of a bidirectional pipeline.
struct Group {
    std::vector<std::size_t> positions;
    std::vector<std::vector<double>> moments;  ///< micro-batches held by piece
    double weight = 1.0;                       ///< share of the micro-batches that pass each piece
};

std::vector<Group> groupsOf(const ChunkSplitProblem& p) {
    const bool both = placementOf(p.shape.kind) == ChunkPlacement::Bidirectional;
    std::vector<Group> out(static_cast<std::size_t>(both ? p.shape.pp / 2 : p.shape.pp));
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(p.shape.pp); ++rank) {
        const std::size_t mirror = static_cast<std::size_t>(p.shape.pp) - 1 - rank;
        Group& group = out[both ? std::min(rank, mirror) : rank];
        if (both) group.weight = 0.5;
        std::vector<std::size_t> here;
        for (std::size_t c = 0; c < static_cast<std::size_t>(p.shape.chunks()); ++c)
            here.push_back(
                static_cast<std::size_t>(positionOf(p.shape, {StageId(rank), ModelChunkId(c)})));
        if (group.positions.empty()) group.positions = here;
        for (const std::vector<std::int64_t>& held : p.in_flight[rank]) {
            std::vector<double> moment(here.size());
            for (std::size_t c = 0; c < here.size(); ++c) {
                const auto at = std::ranges::find(group.positions, here[c]);
                moment[static_cast<std::size_t>(at - group.positions.begin())] =
                    static_cast<double>(held[c]);
            }
            group.moments.push_back(std::move(moment));
        }
    }
    return out;
}

ChunkCost costOf(const ChunkSplitProblem& p, std::size_t position, std::size_t begin,
                 std::size_t end, std::size_t recompute) {
    ChunkCost out;
    const auto add = [&out](const SplitPiece& piece, bool again) {
        out.time += piece.time.value + (again ? piece.recompute.value : 0.0);
        out.persistent += piece.persistent.value;
        out.kept += again ? piece.kept_recomputed.value : piece.kept.value;
        out.transient = std::max(
            out.transient,
            piece.transient.value + (again ? piece.kept.value - piece.kept_recomputed.value : 0.0));
    };
    if (position == 0) add(p.embedding, false);
    for (std::size_t l = begin; l < end; ++l) add(p.layers[l], l - begin < recompute);
    if (position + 1 == static_cast<std::size_t>(p.shape.positions())) add(p.head, false);
    return out;
}

double memoryOf(const Group& group, const std::vector<ChunkCost>& pieces) {
    double persistent = 0.0, transient = 0.0, held = 0.0;
    for (const ChunkCost& piece : pieces) {
        persistent += piece.persistent;
        transient = std::max(transient, piece.transient);
    }
    for (const std::vector<double>& moment : group.moments) {
        double sum = 0.0;
        for (std::size_t i = 0; i < pieces.size(); ++i) sum += moment[i] * pieces[i].kept;
        held = std::max(held, sum);
    }
    return persistent + held + transient;
}

/// Layers as a lead and repeats of a pattern.
struct Pattern {
    std::size_t lead = 0, length = 1, repeats = 0, rest = 0;  ///< rest: layers after the last
};

std::optional<Pattern> patternOf(const std::vector<SplitPiece>& layers, std::size_t positions) {
    for (std::size_t length = 1; length <= kLongestPattern; ++length) {
        std::size_t lead = layers.size();
        while (lead > 0 &&
               (lead + length > layers.size() || layers[lead - 1] == layers[lead - 1 + length]))
            --lead;
        const std::size_t behind = layers.size() - lead;
        const Pattern pattern{lead, length, behind / length, behind % length};
        // A pattern of several layers is cut whole: every chunk needs one.
        const std::size_t pieces = pattern.repeats + (length == 1 ? lead : 0);
        if (lead <= kMostLeading && pieces >= positions) return pattern;
    }
    return std::nullopt;
}

/// The best split for one number of recomputed layers and one way the lead falls.
class CountSolver {
public:
    CountSolver(const ChunkSplitProblem& problem, const std::vector<Group>& groups,
                const Pattern& pattern, const std::vector<std::size_t>& lead, std::size_t recompute)
        : m_problem(problem), m_groups(groups), m_pattern(pattern), m_seats(lead.size()) {
        std::size_t left = pattern.lead;
        for (std::size_t p = 0; p < m_seats.size(); ++p) {
            Seat& seat = m_seats[p];
            const std::size_t begin = pattern.lead - left;
            left -= lead[p];
            const bool last = p + 1 == m_seats.size();
            seat.layers = lead[p] + (last ? pattern.rest : 0);
            seat.least = seat.layers > 0 ? 0 : 1;
            seat.most = left > 0 ? 0 : pattern.repeats;
            for (std::size_t x = 0; x <= seat.most; ++x)
                seat.cost.push_back(
                    costOf(problem, p, begin, begin + seat.layers + x * pattern.length, recompute));
            m_least += seat.least;
        }
    }

    /// The least time of the slowest rank; infinite when nothing fits.
    double slowestRank() {
        if (m_least > m_pattern.repeats || !feasible(kInfinite, kInfinite)) return kInfinite;
        return least([this](double bound) { return feasible(bound, kInfinite); });
    }
    double slowestChunk(double rank_bound) {
        return least([&](double bound) { return feasible(rank_bound, bound); });
    }

    /// Layers by position under both bounds.
    std::vector<std::int64_t> layers(double rank_bound, double chunk_bound) {
        std::vector<std::size_t> counts(m_seats.size(), 0);
        std::size_t sum = 0;
        for (const Group& group : m_groups) {
            const std::vector<std::size_t> most = *mostOf(group, rank_bound, chunk_bound);
            for (std::size_t i = 0; i < most.size(); ++i) {
                counts[group.positions[i]] = most[i];
                sum += most[i];
            }
        }
        for (; sum > m_pattern.repeats; --sum) {  // the slowest chunk gives one up
            std::size_t slowest = m_seats.size();
            for (std::size_t p = 0; p < m_seats.size(); ++p)
                if (counts[p] > m_seats[p].least &&
                    (slowest == m_seats.size() ||
                     m_seats[p].cost[counts[p]].time > m_seats[slowest].cost[counts[slowest]].time))
                    slowest = p;
            --counts[slowest];
        }
        std::vector<std::int64_t> out;
        for (std::size_t p = 0; p < m_seats.size(); ++p)
            out.push_back(
                static_cast<std::int64_t>(m_seats[p].layers + counts[p] * m_pattern.length));
        return out;
    }

private:
    struct Seat {
        std::size_t layers = 0;  ///< of the lead (and the rest), fixed
        std::size_t least = 1, most = 0;
        std::vector<ChunkCost> cost;  ///< [repeats]
    };

    template <class Holds>
    double least(const Holds& holds) {
        double low = 0.0, high = 0.0;
        for (const Seat& seat : m_seats) high += seat.cost.back().time;
        for (int i = 0; i < 64 && high - low > 1e-15 * high; ++i) {
            const double middle = 0.5 * (low + high);
            (holds(middle) ? high : low) = middle;
        }
        return high;
    }

    bool feasible(double rank_bound, double chunk_bound) {
        std::size_t sum = 0;
        for (const Group& group : m_groups) {
            const auto most = mostOf(group, rank_bound, chunk_bound);
            if (!most) return false;
            sum += std::accumulate(most->begin(), most->end(), std::size_t{0});
        }
        return sum >= m_pattern.repeats;
    }

    /// The most repeats a group takes; nothing when not even the least fit.
    std::optional<std::vector<std::size_t>> mostOf(const Group& group, double rank_bound,
                                                   double chunk_bound) const {
        std::optional<std::vector<std::size_t>> best;
        std::size_t best_sum = 0;
        std::vector<std::size_t> counts;
        std::vector<ChunkCost> pieces;
        std::vector<std::size_t> room(group.positions.size() + 1, 0);  // of the pieces from i on
        for (std::size_t i = group.positions.size(); i-- > 0;)
            room[i] = room[i + 1] + m_seats[group.positions[i]].most;
        const std::function<void(double, std::size_t)> choose = [&](double time, std::size_t sum) {
            const std::size_t i = counts.size();
            if (i == group.positions.size()) {
                if (memoryOf(group, pieces) > m_problem.capacity.value) return;
                if (best && sum <= best_sum) return;
                best = counts;
                best_sum = sum;
                return;
            }
            const Seat& seat = m_seats[group.positions[i]];
            for (std::size_t x = seat.most + 1; x-- > seat.least;) {
                if (best && sum + x + room[i + 1] <= best_sum) break;
                const ChunkCost& cost = seat.cost[x];
                const double then = time + group.weight * cost.time;
                if (cost.time > chunk_bound || then > rank_bound) continue;
                counts.push_back(x);
                pieces.push_back(cost);
                choose(then, sum + x);
                counts.pop_back();
                pieces.pop_back();
            }
        };
        choose(0.0, 0);
        return best;
    }

    const ChunkSplitProblem& m_problem;
    const std::vector<Group>& m_groups;
    Pattern m_pattern;
    std::vector<Seat> m_seats;
    std::size_t m_least = 0;
};

/// Calls visit for every way the leading layers fall on the first positions, one at least on each.
void forEachLead(std::size_t lead, std::size_t positions,
                 const std::function<void(const std::vector<std::size_t>&)>& visit) {
    std::vector<std::size_t> counts(positions, 0);
    const std::function<void(std::size_t, std::size_t)> fill = [&](std::size_t p,
                                                                   std::size_t left) {
        if (left == 0) return visit(counts);
        if (p == positions) return;
        for (std::size_t n = 1; n <= left; ++n) {
            counts[p] = n;
            fill(p + 1, left - n);
        }
        counts[p] = 0;
    };
    fill(0, lead);
}

struct Candidate {
    double rank = kInfinite, chunk = kInfinite;
    std::vector<std::int64_t> layers;
    std::size_t recompute = 0;
    [[nodiscard]] bool worseThan(double other_rank, double other_chunk) const {
        if (other_rank < rank * (1.0 - kRounding)) return true;
        return other_rank <= rank * (1.0 + kRounding) && other_chunk < chunk * (1.0 - kRounding);
    }
};

}  // namespace

Seconds ChunkSplit::slowestRank() const {
    return rank_time.empty() ? Seconds() : std::ranges::max(rank_time);
}
Seconds ChunkSplit::slowestChunk() const {
    return chunk_time.empty() ? Seconds() : std::ranges::max(chunk_time);
}

ChunkSplit evaluateSplit(const ChunkSplitProblem& problem,
                         const std::vector<std::int64_t>& stage_layers,
                         std::int64_t recompute_layers) {
    ChunkSplit out;
    out.stage_layers = stage_layers;
    out.recompute_layers = recompute_layers;
    std::vector<ChunkCost> costs;
    std::size_t begin = 0;
    for (std::size_t p = 0; p < stage_layers.size(); ++p) {
        const std::size_t end = begin + static_cast<std::size_t>(stage_layers[p]);
        costs.push_back(costOf(problem, p, begin, end, static_cast<std::size_t>(recompute_layers)));
        out.chunk_time.emplace_back(costs.back().time);
        begin = end;
    }
    const std::vector<Group> groups = groupsOf(problem);
    out.rank_time.resize(static_cast<std::size_t>(problem.shape.pp));
    out.memory.resize(out.rank_time.size());
    for (std::size_t rank = 0; rank < out.rank_time.size(); ++rank) {
        const Group& group = groups[rank < groups.size() ? rank : out.rank_time.size() - 1 - rank];
        std::vector<ChunkCost> pieces;
        for (const std::size_t p : group.positions) {
            pieces.push_back(costs[p]);
            out.rank_time[rank] += Seconds(group.weight * costs[p].time);
        }
        out.memory[rank] = Bytes(memoryOf(group, pieces));
    }
    return out;
}

Result<ChunkSplit> splitChunks(const ChunkSplitProblem& problem) {
    const auto positions = static_cast<std::size_t>(problem.shape.positions());
    if (problem.layers.size() < positions)
        return fail(ErrorCode::InvalidInput,
                    "{} layers over {} stage chunks (pp {}, vpp {}): each needs at least one",
                    problem.layers.size(), positions, problem.shape.pp, problem.shape.vpp);
    const std::optional<Pattern> pattern = patternOf(problem.layers, positions);
    if (!pattern)
        return fail(ErrorCode::Unsupported,
                    "the {} layers follow no pattern of up to {} kinds: give stage_layers yourself",
                    problem.layers.size(), kLongestPattern);
    const std::vector<Group> groups = groupsOf(problem);
    Candidate best;
    const auto most = static_cast<std::size_t>(problem.most_recompute);
    double unbounded = 0.0;  // of the last number tried, were memory no limit
    ChunkSplitProblem roomy = problem;
    roomy.capacity = Bytes(kInfinite);
    for (auto n = static_cast<std::size_t>(problem.least_recompute);
         n <= most && unbounded < best.rank; ++n) {
        unbounded = kInfinite;
        forEachLead(pattern->lead, positions, [&](const std::vector<std::size_t>& lead) {
            unbounded =
                std::min(unbounded, CountSolver(roomy, groups, *pattern, lead, n).slowestRank());
            CountSolver solver(problem, groups, *pattern, lead, n);
            const double rank = solver.slowestRank();
            if (rank == kInfinite || rank > best.rank * (1.0 + kRounding)) return;
            const double chunk = solver.slowestChunk(rank);
            if (!best.worseThan(rank, chunk)) return;
            best = {rank, chunk, solver.layers(rank, chunk), n};
        });
    }
    if (best.layers.empty()) {
        Error error = fail(ErrorCode::RuleBroken, "no split of {} layers over {} chunks fits {}",
                           problem.layers.size(), positions, humanBytes(problem.capacity));
        error.hint = "raise pp, shard the optimizer or off-load";
        return error;
    }
    return evaluateSplit(problem, best.layers, static_cast<std::int64_t>(best.recompute));
}

}  // namespace piper
