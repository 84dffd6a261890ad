// SPDX-License-Identifier: Apache-2.0
#include "core/search/search.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "core/run/run.h"
#include "core/search/core_search.h"
#include "core/search/enumerate.h"

namespace piper {

template <>
std::span<const EnumName<Objective>> enumNames<Objective>() {
    static constexpr EnumName<Objective> kNames[] = {
        {Objective::Mfu, "mfu"},
        {Objective::TokensPerSecond, "tokens_per_second"},
        {Objective::CostPerToken, "cost_per_token"},
        {Objective::MemoryHeadroom, "memory_headroom"},
    };
    return kNames;
}

ParallelFor sequentialFor() {
    return [](std::size_t n, const std::function<void(std::size_t)>& body) {
        for (std::size_t i = 0; i < n; ++i) body(i);
    };
}

namespace {

/// Cores between two looks at the best so far: the answer does not depend on the order in which
/// bodies of a batch run.
constexpr std::size_t kFirstBatch = 64, kBatch = 256;
/// Cores looked at before all others.
constexpr std::size_t kPromising = 64;
/// Independent searchers, each with parts priced of its own: so many threads work at most.
constexpr std::size_t kSearchers = 16;
/// Schedules played between two looks at the best so far.
constexpr std::size_t kPlayed = 8;

/// A found plan, and what playing its schedule says.
struct Candidate {
    FoundPlan found;
    std::string text;
    bool played = false, failed = false;
    std::int64_t step_ns = 0;  ///< played
    Bytes device_total;        ///< played
};

class Search {
public:
    Search(const SearchSpace& space, const ParallelFor& parallel_for, std::stop_token stop,
           const std::function<void(const SearchProgress&)>& progress)
        : m_space(space),
          m_parallel_for(parallel_for),
          m_stop(std::move(stop)),
          m_report(progress),
          m_choices(space),
          m_limit(space.base.cluster.device.memory * (1.0 - space.memory_margin)) {
        for (std::size_t i = 0; i < kSearchers; ++i)
            m_searchers.push_back(std::make_unique<CoreSearch>(m_space, m_choices, &m_moments));
    }

    Result<SearchResult> run() {
        m_total = 2 * m_choices.cores().size();
        PIPER_TRY(firstPlan());
        setMoments();
        PIPER_TRY(setFloors());
        PIPER_TRY(look(takePromising()));
        std::size_t batch = kFirstBatch;
        for (std::size_t begin = 0; begin < m_order.size(); begin += batch) {
            if (m_order[begin].floor_ns > limit()) break;
            if (begin > 0) batch = std::min(kBatch, 2 * batch);
            const std::size_t end = std::min(m_order.size(), begin + batch);
            std::vector<std::size_t> cores;
            for (std::size_t i = begin; i < end; ++i) cores.push_back(m_order[i].core);
            PIPER_TRY(look(cores));
        }
        return collect();
    }

private:
    struct Ordered {
        std::int64_t floor_ns = 0, expected_ns = 0;
        std::size_t core = 0;
    };

    [[nodiscard]] bool byMemory() const { return m_space.objective == Objective::MemoryHeadroom; }

    [[nodiscard]] Status stopped() const {
        if (!m_stop.stop_requested()) return {};
        return fail(ErrorCode::Cancelled, "the search was stopped after {} of {} steps", m_done,
                    m_total);
    }

    /// Plans with the same tensors go to the same searcher, which has them priced.
    [[nodiscard]] std::size_t searcherOf(const SearchCore& core) const {
        const Layout& l = core.layout;
        const auto mix = static_cast<std::size_t>(l.tp * 31 + l.cp * 17 + l.ep * 7 + l.etp * 3 +
                                                  core.micro_batch_size * 5);
        return mix % kSearchers;
    }

    /// Calls body(searcher, position in `cores`) for all of them.
    void forEachCore(const std::vector<std::size_t>& cores,
                     const std::function<void(CoreSearch&, std::size_t)>& body) {
        std::vector<std::vector<std::size_t>> shares(kSearchers);
        for (std::size_t i = 0; i < cores.size(); ++i)
            shares[searcherOf(m_choices.cores()[cores[i]])].push_back(i);
        m_parallel_for(kSearchers, [&](std::size_t s) {
            for (const std::size_t i : shares[s])
                if (!m_stop.stop_requested()) body(*m_searchers[s], i);
        });
    }

    /// A plan to show at once: the first that fits of those that split the model most.
    Status firstPlan() {
        if (!m_report) return {};
        const std::vector<SearchCore>& cores = m_choices.cores();
        std::vector<std::size_t> order(cores.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        const auto rank = [&cores](std::size_t i) {
            const Layout& l = cores[i].layout;
            return std::tuple(-l.pp * l.ep * l.etp, cores[i].micro_batch_size, l.tp, i);
        };
        constexpr std::ptrdiff_t kTries = 24;
        const auto middle = order.begin() + std::min<std::ptrdiff_t>(kTries, std::ssize(order));
        std::ranges::partial_sort(order, middle, {}, rank);
        CoreSearch searcher(m_space, m_choices, nullptr);
        for (auto at = order.begin(); at != middle; ++at) {
            PIPER_TRY(stopped());
            std::vector<FoundPlan> found;
            searcher.refine(cores[*at], {}, CoreSearch::kNoLimit, found);
            if (found.empty()) continue;
            Candidate first;
            first.found = found.front();
            first.text = layoutText(m_choices.plan(first.found.point));
            playOne(first);
            if (first.failed) continue;
            m_candidates.push_back(std::move(first));
            report();
            m_candidates.clear();
            break;
        }
        return {};
    }

    void setMoments() {
        std::set<PipelineShape> all;
        Plan plan = m_space.base;
        for (const SearchCore& core : m_choices.cores())
            for (const PipelineChoice& pipeline : m_choices.pipelines(core)) {
                m_choices.apply({core, pipeline, m_space.base.all_to_all, {}}, plan);
                all.insert(pipelineShape(plan));
            }
        const std::vector<PipelineShape> shapes(all.begin(), all.end());
        std::vector<SlotMomentsTable::Moments> made(shapes.size());
        m_parallel_for(shapes.size(), [&](std::size_t i) {
            if (m_stop.stop_requested()) return;
            if (auto moments = slotMoments(shapes[i]); moments.ok())
                made[i] = std::move(moments).value();
        });
        for (std::size_t i = 0; i < shapes.size(); ++i)
            m_moments.add(shapes[i], std::move(made[i]));
    }

    Status setFloors() {
        std::vector<std::size_t> all(m_choices.cores().size());
        std::iota(all.begin(), all.end(), std::size_t{0});
        m_outlooks.resize(all.size());
        forEachCore(all, [&](CoreSearch& searcher, std::size_t i) {
            m_outlooks[i] = searcher.outlook(m_choices.cores()[i]);
        });
        PIPER_TRY(stopped());
        for (std::size_t i = 0; i < m_outlooks.size(); ++i)
            if (const auto& outlook = m_outlooks[i])
                m_order.push_back({byMemory() ? 0 : outlook->floor_ns, outlook->expected_ns, i});
        m_total = all.size() + m_order.size();
        m_done = all.size();
        report();
        return {};
    }

    /// Takes the cores out of the order whose plans are expected to be good: a low limit saves
    /// looking at the others.
    std::vector<std::size_t> takePromising() {
        const std::size_t count = std::min(m_order.size(), kPromising);
        const auto end = m_order.begin() + static_cast<std::ptrdiff_t>(count);
        std::ranges::partial_sort(
            m_order, end, {}, [](const Ordered& o) { return std::pair(o.expected_ns, o.core); });
        std::vector<std::size_t> cores;
        for (auto at = m_order.begin(); at != end; ++at) cores.push_back(at->core);
        m_order.erase(m_order.begin(), end);
        std::ranges::sort(m_order, {},
                          [](const Ordered& o) { return std::pair(o.floor_ns, o.core); });
        return cores;
    }

    /// Refines cores and plays what was found.
    Status look(const std::vector<std::size_t>& cores) {
        PIPER_TRY(refine(cores));
        PIPER_TRY(play());
        m_done += cores.size();
        report();
        return {};
    }

    Status refine(const std::vector<std::size_t>& cores) {
        std::vector<std::vector<FoundPlan>> found(cores.size());
        const std::int64_t limit_ns = limit();
        forEachCore(cores, [&](CoreSearch& searcher, std::size_t i) {
            const std::size_t core = cores[i];
            searcher.refine(m_choices.cores()[core], *m_outlooks[core], limit_ns, found[i]);
        });
        PIPER_TRY(stopped());
        for (std::vector<FoundPlan>& plans : found)
            for (const FoundPlan& plan : plans) {
                Candidate& candidate = m_candidates.emplace_back();
                candidate.found = plan;
                candidate.text = layoutText(m_choices.plan(plan.point));
            }
        return {};
    }

    void playOne(Candidate& candidate) const {
        const Plan plan = m_choices.plan(candidate.found.point);
        const Result<Prediction> played =
            predictUnchecked(plan, PredictMode::Simulated, PredictDetail::StepOnly);
        candidate.played = true;
        candidate.failed = !played.ok() || played->memory.device_total > m_limit;
        if (candidate.failed) return;
        candidate.step_ns = inNs(played->step);
        candidate.device_total = played->memory.device_total;
    }

    /// Plays schedules, the most promising first, until no bound is below the last of the best.
    Status play() {
        const auto promise = [this](const Candidate& c) {
            return std::tuple(c.played,
                              byMemory()
                                  ? static_cast<std::int64_t>(c.found.estimate.device_total.value)
                                  : c.found.estimate.step_ns,
                              std::string_view(c.text));
        };
        std::ranges::sort(m_candidates, {}, promise);
        std::vector<std::size_t> waiting;
        for (std::size_t i = 0; i < m_candidates.size() && !m_candidates[i].played; ++i)
            waiting.push_back(i);
        for (std::size_t begin = 0; begin < waiting.size();) {
            const std::int64_t limit_ns = limit();
            std::vector<std::size_t> now;
            for (; begin < waiting.size() && now.size() < kPlayed; ++begin)
                if (byMemory() || m_candidates[waiting[begin]].found.estimate.bound_ns <= limit_ns)
                    now.push_back(waiting[begin]);
            m_parallel_for(now.size(), [&](std::size_t i) { playOne(m_candidates[now[i]]); });
            for (const std::size_t i : now) note(m_candidates[i]);
            PIPER_TRY(stopped());
        }
        return {};
    }

    /// Played steps of the best, as many as are asked for.
    void note(const Candidate& candidate) {
        if (candidate.failed || byMemory()) return;
        const auto at = std::ranges::upper_bound(m_best_steps, candidate.step_ns);
        m_best_steps.insert(at, candidate.step_ns);
        if (m_best_steps.size() > m_space.top) m_best_steps.pop_back();
    }
    /// A plan with a longer step cannot be among the best.
    [[nodiscard]] std::int64_t limit() const {
        return m_best_steps.size() < m_space.top ? CoreSearch::kNoLimit : m_best_steps.back();
    }

    [[nodiscard]] bool better(const Candidate& a, const Candidate& b) const {
        if (byMemory() && a.device_total != b.device_total) return a.device_total < b.device_total;
        return a.step_ns != b.step_ns ? a.step_ns < b.step_ns : a.text < b.text;
    }

    void report() {
        if (!m_report) return;
        const Candidate* best = nullptr;
        for (const Candidate& c : m_candidates)
            if (c.played && !c.failed && (best == nullptr || better(c, *best))) best = &c;
        if (best != nullptr && best->text != m_best_text) {
            m_best_text = best->text;
            Plan plan = m_choices.plan(best->found.point);
            Result<Prediction> prediction = predictUnchecked(plan);
            if (prediction.ok())
                m_best = RankedPlan{std::move(plan), std::move(prediction).value()};
        }
        m_report({static_cast<std::int64_t>(m_done), static_cast<std::int64_t>(m_total),
                  m_best ? &*m_best : nullptr});
    }

    Result<SearchResult> collect() {
        std::erase_if(m_candidates, [](const Candidate& c) { return !c.played || c.failed; });
        std::ranges::sort(m_candidates,
                          [this](const auto& a, const auto& b) { return better(a, b); });
        SearchResult result;
        const std::size_t count = std::min(m_space.top, m_candidates.size());
        std::vector<std::optional<RankedPlan>> plans(count);
        m_parallel_for(count, [&](std::size_t i) {
            Plan plan = m_choices.plan(m_candidates[i].found.point);
            Result<Prediction> prediction =
                predictUnchecked(plan, PredictMode::Simulated, PredictDetail::WithBottlenecks);
            if (prediction.ok())
                plans[i] = RankedPlan{std::move(plan), std::move(prediction).value()};
        });
        PIPER_TRY(stopped());
        for (std::optional<RankedPlan>& plan : plans)
            if (plan) result.plans.push_back(std::move(*plan));
        addPareto(result);
        addRejections(result);
        return result;
    }

    void addPareto(SearchResult& result) const {
        std::vector<ParetoPlan> played;
        Bytes least;
        for (const Candidate& c : m_candidates) {  // fastest first: only what holds less is new
            if (!byMemory() && !played.empty() && c.device_total >= least) continue;
            least = c.device_total;
            played.push_back({m_choices.plan(c.found.point),
                              nanoseconds(static_cast<double>(c.step_ns)), c.device_total});
        }
        result.pareto = undominated(std::move(played));
    }

    void addRejections(SearchResult& result) const {
        SearchTally tally;
        for (const auto& searcher : m_searchers) tally.add(searcher->tally());
        result.evaluated = tally.evaluated;
        result.feasible = tally.feasible;
        if (const auto& nearest = tally.too_large ? tally.too_large : tally.beyond)
            result.rejections.push_back(
                {layoutText(m_choices.plan(nearest->point)), "memory",
                 fmt::format("stage {} needs {}{}, {} more than the {} of a device",
                             nearest->stage.value, tally.too_large ? "" : "at least ",
                             humanBytes(nearest->total), humanBytes(nearest->total - m_limit),
                             humanBytes(m_limit))});
        for (const auto& [rule, example] : tally.broken)
            result.rejections.push_back({example.layout, rule, example.message});
        if (m_candidates.size() <= m_space.top) return;
        const Candidate& next = m_candidates[m_space.top];
        result.rejections.push_back(
            {next.text, "slower",
             fmt::format(
                 "a step takes {}, the best plan's {}",
                 humanSeconds(nanoseconds(static_cast<double>(next.step_ns))),
                 humanSeconds(nanoseconds(static_cast<double>(m_candidates.front().step_ns))))});
    }

    const SearchSpace& m_space;
    const ParallelFor& m_parallel_for;
    std::stop_token m_stop;
    const std::function<void(const SearchProgress&)>& m_report;
    SearchChoices m_choices;
    Bytes m_limit;
    SlotMomentsTable m_moments;  ///< of every pipeline of the space
    std::vector<std::unique_ptr<CoreSearch>> m_searchers;
    std::vector<std::optional<CoreOutlook>> m_outlooks;  ///< [core], of those with a legal plan
    /// Cores with a legal plan, lowest floor first once the promising are taken.
    std::vector<Ordered> m_order;
    std::vector<Candidate> m_candidates;
    std::vector<std::int64_t> m_best_steps;  ///< ascending, at most `top`
    std::size_t m_done = 0, m_total = 0;
    std::string m_best_text;
    std::optional<RankedPlan> m_best;
};

}  // namespace

Result<SearchResult> searchPlans(const SearchSpace& space, const ParallelFor& parallel_for,
                                 std::stop_token stop,
                                 const std::function<void(const SearchProgress&)>& progress) {
    PIPER_TRY(checkFixed(space));
    if (space.base.cluster.numDevices() < 1)
        return fail(ErrorCode::InvalidInput, "the cluster has no device to search on");
    return Search(space, parallel_for, std::move(stop), progress).run();
}

}  // namespace piper
