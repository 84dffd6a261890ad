// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/chunk_split.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "core/schedule/piece_counts.h"

namespace piper {
namespace {

constexpr std::size_t kMostLeading = 12, kLongestPattern = 4;

/// Counts tried for one split, over all its bounds: some seconds.
constexpr std::size_t kMostTried = 2'000'000;

std::vector<PieceGroup> groupsOf(const ChunkSplitProblem& p) {
    const bool both = placementOf(p.shape.kind) == ChunkPlacement::Bidirectional;
    std::vector<PieceGroup> out(static_cast<std::size_t>(both ? p.shape.pp / 2 : p.shape.pp));
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(p.shape.pp); ++rank) {
        const std::size_t mirror = static_cast<std::size_t>(p.shape.pp) - 1 - rank;
        PieceGroup& group = out[both ? std::min(rank, mirror) : rank];
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

/// Of one piece, with the first `recompute` layers recomputed.
PieceCost costOf(const ChunkSplitProblem& p, std::size_t position, std::size_t begin,
                 std::size_t end, std::size_t recompute) {
    PieceCost out;
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
    /// `budget`: counts that may still be tried; what is found without any left is not the best.
    CountSolver(const ChunkSplitProblem& problem, const std::vector<PieceGroup>& groups,
                const Pattern& pattern, const std::vector<std::size_t>& lead, std::size_t recompute,
                std::size_t& budget)
        : m_problem(problem),
          m_groups(groups),
          m_pattern(pattern),
          m_seats(lead.size()),
          m_budget(budget) {
        std::size_t left = pattern.lead;
        for (std::size_t p = 0; p < m_seats.size(); ++p) {
            PieceSeat& seat = m_seats[p];
            const std::size_t begin = pattern.lead - left;
            left -= lead[p];
            const bool last = p + 1 == m_seats.size();
            seat.layers = lead[p] + (last ? pattern.rest : 0);
            seat.least = seat.layers > 0 ? 0 : 1;
            seat.most = left > 0 ? 0 : pattern.repeats;
            m_least += seat.least;
            m_begin.push_back(begin);
        }
        if (m_least > pattern.repeats) return;
        for (std::size_t p = 0; p < m_seats.size(); ++p) {
            PieceSeat& seat = m_seats[p];  // the others take their least
            seat.most = std::min(seat.most, pattern.repeats - (m_least - seat.least));
            for (std::size_t x = 0; x <= seat.most; ++x)
                seat.cost.push_back(costOf(problem, p, m_begin[p],
                                           m_begin[p] + seat.layers + x * pattern.length,
                                           recompute));
        }
        m_counts = *countsUnder(kInfinite);
    }

    /// The least time of the slowest rank; infinite when nothing fits.
    double slowestRank() {
        if (m_least > m_pattern.repeats || !feasible(m_counts, kInfinite)) return kInfinite;
        return least([this](double bound) { return feasible(m_counts, bound); });
    }
    double slowestChunk(double rank_bound) {
        return least([&](double bound) {
            const std::optional<std::vector<PieceCounts>> counts = countsUnder(bound);
            return counts && feasible(*counts, rank_bound);
        });
    }

    /// Layers by position under both bounds.
    std::vector<std::int64_t> layers(double rank_bound, double chunk_bound) {
        std::vector<std::size_t> counts(m_seats.size(), 0);
        std::size_t sum = 0;
        const std::vector<PieceCounts> under = *countsUnder(chunk_bound);
        for (std::size_t g = 0; g < m_groups.size(); ++g) {
            const std::optional<std::vector<std::size_t>> most = mostOf(under[g], rank_bound);
            if (!most) return {};  // the budget ended
            for (std::size_t i = 0; i < most->size(); ++i) {
                counts[m_groups[g].positions[i]] = (*most)[i];
                sum += (*most)[i];
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
    template <class Holds>
    double least(const Holds& holds) {
        double low = 0.0, high = 0.0;
        for (const PieceSeat& seat : m_seats) high += seat.cost.back().time;
        for (int i = 0; i < 64 && high - low > 1e-15 * high; ++i) {
            const double middle = 0.5 * (low + high);
            (holds(middle) ? high : low) = middle;
        }
        return high;
    }

    /// By group; nothing when a chunk's least takes longer.
    [[nodiscard]] std::optional<std::vector<PieceCounts>> countsUnder(double chunk_bound) const {
        std::vector<std::size_t> most;
        for (const PieceSeat& seat : m_seats) {
            std::size_t x = seat.most;
            while (x > seat.least && seat.cost[x].time > chunk_bound) --x;
            if (seat.cost[x].time > chunk_bound) return std::nullopt;
            most.push_back(x);
        }
        std::vector<PieceCounts> out;
        for (const PieceGroup& group : m_groups)
            out.emplace_back(group, m_seats, most, m_problem.capacity.value < kInfinite);
        return out;
    }

    bool feasible(const std::vector<PieceCounts>& counts, double rank_bound) {
        std::size_t sum = 0;
        for (const PieceCounts& group : counts) {
            const auto most = mostOf(group, rank_bound);
            if (!most) return false;
            sum += std::accumulate(most->begin(), most->end(), std::size_t{0});
        }
        return sum >= m_pattern.repeats;
    }

    std::optional<std::vector<std::size_t>> mostOf(const PieceCounts& counts, double rank_bound) {
        return counts.most({m_problem.capacity.value, rank_bound}, m_budget);
    }

    const ChunkSplitProblem& m_problem;
    const std::vector<PieceGroup>& m_groups;
    Pattern m_pattern;
    std::vector<PieceSeat> m_seats;
    std::vector<std::size_t> m_begin;  ///< first layer of the lead, [positions]
    std::vector<PieceCounts> m_counts;
    std::size_t m_least = 0;
    std::size_t& m_budget;
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

/// No layers: nothing fits, or the budget ended.
Candidate bestSplit(const ChunkSplitProblem& problem, const std::vector<PieceGroup>& groups,
                    const Pattern& pattern, std::size_t& budget) {
    Candidate best;
    const auto positions = static_cast<std::size_t>(problem.shape.positions());
    const auto most = static_cast<std::size_t>(problem.most_recompute);
    double unbounded = 0.0;  // of the last number tried, were memory no limit
    ChunkSplitProblem roomy = problem;
    roomy.capacity = Bytes(kInfinite);
    for (auto n = static_cast<std::size_t>(problem.least_recompute);
         n <= most && unbounded < best.rank; ++n) {
        unbounded = kInfinite;
        forEachLead(pattern.lead, positions, [&](const std::vector<std::size_t>& lead) {
            if (budget == 0) return;
            const double free = CountSolver(roomy, groups, pattern, lead, n, budget).slowestRank();
            unbounded = std::min(unbounded, free);
            if (free > best.rank * (1.0 + kRounding)) return;
            CountSolver solver(problem, groups, pattern, lead, n, budget);
            const double rank = solver.slowestRank();
            if (rank == kInfinite || rank > best.rank * (1.0 + kRounding)) return;
            const double chunk = solver.slowestChunk(rank);
            if (!best.worseThan(rank, chunk)) return;
            best = {rank, chunk, solver.layers(rank, chunk), n};
        });
    }
    return best;
}

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
    std::vector<PieceCost> costs;
    std::size_t begin = 0;
    for (std::size_t p = 0; p < stage_layers.size(); ++p) {
        const std::size_t end = begin + static_cast<std::size_t>(stage_layers[p]);
        costs.push_back(costOf(problem, p, begin, end, static_cast<std::size_t>(recompute_layers)));
        out.chunk_time.emplace_back(costs.back().time);
        begin = end;
    }
    const std::vector<PieceGroup> groups = groupsOf(problem);
    out.rank_time.resize(static_cast<std::size_t>(problem.shape.pp));
    out.memory.resize(out.rank_time.size());
    for (std::size_t rank = 0; rank < out.rank_time.size(); ++rank) {
        const PieceGroup& group =
            groups[rank < groups.size() ? rank : out.rank_time.size() - 1 - rank];
        std::vector<PieceCost> pieces;
        for (const std::size_t p : group.positions) {
            pieces.push_back(costs[p]);
            out.rank_time[rank] += Seconds(group.weight * costs[p].time);
        }
        out.memory[rank] = Bytes(group.memory(pieces));
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
    const std::vector<PieceGroup> groups = groupsOf(problem);
    std::size_t budget = kMostTried;
    const Candidate best = bestSplit(problem, groups, *pattern, budget);
    if (budget == 0) {
        Error error =
            fail(ErrorCode::Unsupported,
                 "{} layers over {} stage chunks (pp {}, vpp {}): more than {} counts to "
                 "try",
                 problem.layers.size(), positions, problem.shape.pp, problem.shape.vpp, kMostTried);
        error.hint = "lower vpp, or give stage_layers yourself";
        return error;
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
