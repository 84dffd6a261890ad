// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/stage_split.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace piper {
namespace {

constexpr double kNoSplit = std::numeric_limits<double>::infinity();

/// One stage's best choice of recomputed layers.
struct StageChoice {
    double time = kNoSplit;
    double memory = kNoSplit;
    std::vector<LayerId> recomputed;
};

/// Layers of a stage that are the same to the split.
struct LayerGroup {
    const SplitPiece* piece = nullptr;
    std::vector<LayerId> layers;
};

/// A stage of layers [begin, end): the least time that fits, or the least memory of all.
class StageSolver {
public:
    StageSolver(const SplitProblem& problem, std::size_t stage, std::size_t begin, std::size_t end)
        : m_problem(problem), m_in_flight(static_cast<double>(problem.in_flight[stage])) {
        if (stage == 0) addEnd(problem.embedding);
        if (stage + 1 == problem.in_flight.size()) addEnd(problem.head);
        for (std::size_t l = begin; l < end; ++l) {
            const SplitPiece& piece = problem.layers[l];
            m_time += piece.time.value;
            m_persistent += piece.persistent.value;
            add(piece, LayerId(l), l == begin);
        }
    }

    StageChoice solve() {
        choose(0, {});
        return m_fits ? m_best : m_smallest;
    }
    [[nodiscard]] bool fits() const { return m_fits; }
    [[nodiscard]] double leastMemory() const { return m_smallest.memory; }

private:
    void addEnd(const SplitPiece& piece) {
        m_time += piece.time.value;
        m_persistent += piece.persistent.value;
        m_kept += piece.kept.value;
        m_transient = std::max(m_transient, piece.transient.value);
    }

    /// First: groups are runs of equal layers in order. Any: equal layers wherever they are.
    void add(const SplitPiece& piece, LayerId layer, bool first) {
        const bool in_order = m_problem.recompute == SplitRecompute::First;
        auto group = m_groups.end();
        if (in_order && !first && *m_groups.back().piece == piece) group = m_groups.end() - 1;
        if (!in_order)
            group = std::ranges::find_if(
                m_groups, [&piece](const LayerGroup& g) { return *g.piece == piece; });
        if (group == m_groups.end()) group = m_groups.insert(group, LayerGroup{&piece, {}});
        group->layers.push_back(layer);
    }

    /// How many of each group are recomputed; `counts` of the groups before.
    void choose(std::size_t group, std::vector<std::size_t> counts) {
        if (group == m_groups.size()) return consider(counts);
        const std::size_t most =
            m_problem.recompute == SplitRecompute::None ? 0 : m_groups[group].layers.size();
        // In order: a run is begun only when the runs before it are whole.
        const bool in_order = m_problem.recompute == SplitRecompute::First;
        const bool whole_before = group == 0 || counts.back() == m_groups[group - 1].layers.size();
        for (std::size_t n = 0; n <= (in_order && !whole_before ? 0 : most); ++n) {
            counts.push_back(n);
            choose(group + 1, counts);
            counts.pop_back();
        }
    }

    void consider(const std::vector<std::size_t>& counts) {
        double time = m_time, kept = m_kept, transient = m_transient;
        for (std::size_t g = 0; g < m_groups.size(); ++g) {
            const SplitPiece& p = *m_groups[g].piece;
            const auto again = static_cast<double>(counts[g]);
            const auto others = static_cast<double>(m_groups[g].layers.size() - counts[g]);
            time += again * p.recompute.value;
            kept += again * p.kept_recomputed.value + others * p.kept.value;
            if (others > 0.0) transient = std::max(transient, p.transient.value);
            if (again > 0.0)
                transient =
                    std::max(transient, p.transient.value + p.kept.value - p.kept_recomputed.value);
        }
        const double memory = m_persistent + m_in_flight * kept + transient;
        if (memory < m_smallest.memory) m_smallest = {time, memory, named(counts)};
        if (memory > m_problem.capacity.value || time >= m_best.time) return;
        m_fits = true;
        m_best = {time, memory, named(counts)};
    }

    [[nodiscard]] std::vector<LayerId> named(const std::vector<std::size_t>& counts) const {
        std::vector<LayerId> layers;
        for (std::size_t g = 0; g < m_groups.size(); ++g)
            layers.insert(layers.end(), m_groups[g].layers.begin(),
                          m_groups[g].layers.begin() + static_cast<std::ptrdiff_t>(counts[g]));
        std::ranges::sort(layers);
        return layers;
    }

    const SplitProblem& m_problem;
    double m_in_flight = 1.0;
    double m_time = 0.0, m_persistent = 0.0, m_kept = 0.0, m_transient = 0.0;
    std::vector<LayerGroup> m_groups;
    StageChoice m_best, m_smallest;
    bool m_fits = false;
};

/// The first stages up to some layer.
struct Prefix {
    double value = kNoSplit;
    std::size_t before = 0;  ///< layers of the stages before the last of these
};

/// Twice the same recurrence: first the least slowest stage, then the least sum of all stages none
/// of which is slower than that.
class Splitter {
public:
    explicit Splitter(const SplitProblem& problem)
        : m_problem(problem),
          m_stages(problem.in_flight.size()),
          m_layers(problem.layers.size()),
          m_least(static_cast<std::size_t>(std::max<std::int64_t>(0, problem.least_layers))),
          m_times(m_stages * (m_layers + 1) * (m_layers + 1), kNoSplit) {}

    Result<StageSplit> solve() {
        findTimes();
        const auto larger = [](double a, double b) { return std::max(a, b); };
        const double slowest = recur(kNoSplit, larger);
        if (slowest == kNoSplit) return doesNotFit();
        recur(slowest, std::plus<>());
        return trace();
    }

private:
    template <class Visit>
    void forEachStage(const Visit& visit) const {
        for (std::size_t s = 0; s < m_stages; ++s)
            for (std::size_t end = 0; end <= m_layers; ++end)
                for (std::size_t begin = 0; begin + m_least <= end; ++begin) visit(s, begin, end);
    }
    [[nodiscard]] std::size_t at(std::size_t stage, std::size_t begin, std::size_t end) const {
        return (stage * (m_layers + 1) + begin) * (m_layers + 1) + end;
    }

    void findTimes() {
        forEachStage([this](std::size_t s, std::size_t begin, std::size_t end) {
            StageSolver solver(m_problem, s, begin, end);
            const StageChoice choice = solver.solve();
            if (solver.fits()) m_times[at(s, begin, end)] = choice.time;
        });
    }

    /// `join` of stage times, the least over splits whose stages take `most` at most.
    template <class Join>
    double recur(double most, const Join& join) {
        m_best.assign(m_stages + 1, std::vector<Prefix>(m_layers + 1));
        m_best[0][0].value = 0.0;
        forEachStage([&](std::size_t s, std::size_t begin, std::size_t end) {
            const double time = m_times[at(s, begin, end)], before = m_best[s][begin].value;
            if (time > most || time == kNoSplit || before == kNoSplit) return;
            Prefix& best = m_best[s + 1][end];
            if (const double value = join(before, time); value < best.value) best = {value, begin};
        });
        return m_best[m_stages][m_layers].value;
    }

    StageSplit trace() const {
        StageSplit out;
        std::size_t end = m_layers;
        for (std::size_t s = m_stages; s-- > 0;) {
            const std::size_t begin = m_best[s + 1][end].before;
            StageChoice choice = StageSolver(m_problem, s, begin, end).solve();
            out.stage_layers.push_back(static_cast<std::int64_t>(end - begin));
            out.recomputed.push_back(std::move(choice.recomputed));
            out.time.emplace_back(choice.time);
            out.memory.emplace_back(choice.memory);
            end = begin;
        }
        std::ranges::reverse(out.stage_layers);
        std::ranges::reverse(out.recomputed);
        std::ranges::reverse(out.time);
        std::ranges::reverse(out.memory);
        return out;
    }

    /// The same recurrence over memory: the least capacity that lets every stage fit.
    Error doesNotFit() const {
        std::vector<std::vector<double>> least(m_stages + 1,
                                               std::vector<double>(m_layers + 1, kNoSplit));
        least[0][0] = 0.0;
        forEachStage([&](std::size_t s, std::size_t begin, std::size_t end) {
            if (least[s][begin] >= least[s + 1][end]) return;
            StageSolver solver(m_problem, s, begin, end);
            static_cast<void>(solver.solve());
            least[s + 1][end] =
                std::min(least[s + 1][end], std::max(least[s][begin], solver.leastMemory()));
        });
        Error error = fail(ErrorCode::RuleBroken,
                           "no split of {} layers over {} stages fits {:.3f} GiB a rank; the "
                           "smallest needs {:.3f} GiB",
                           m_layers, m_stages, m_problem.capacity.value / gib(1).value,
                           least[m_stages][m_layers] / gib(1).value);
        error.hint = "raise pp, recompute more or shard the optimizer";
        return error;
    }

    const SplitProblem& m_problem;
    std::size_t m_stages, m_layers, m_least;
    std::vector<double> m_times;              ///< [stages][begin][end], kNoSplit: does not fit
    std::vector<std::vector<Prefix>> m_best;  ///< [stages][layers]
};

}  // namespace

Seconds StageSplit::slowest() const {
    return time.empty() ? Seconds() : std::ranges::max(time);
}

Result<StageSplit> splitStages(const SplitProblem& problem) {
    const auto stages = static_cast<std::int64_t>(problem.in_flight.size());
    const auto layers = static_cast<std::int64_t>(problem.layers.size());
    if (stages < 1 || layers < stages * problem.least_layers)
        return fail(ErrorCode::InvalidInput,
                    "{} layers over {} stages: each needs at least {}; legal pp: up to {}", layers,
                    stages, problem.least_layers,
                    layers / std::max<std::int64_t>(1, problem.least_layers));
    return Splitter(problem).solve();
}

}  // namespace piper
