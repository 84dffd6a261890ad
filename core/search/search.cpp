// SPDX-License-Identifier: Apache-2.0
#include "core/search/search.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>

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

/// Plans whose schedule is played for each plan asked for; the closed form ranks the others out.
constexpr std::size_t kFinalistsPerPlan = 8;
constexpr std::size_t kLeastFinalists = 160;
/// Plans between two reports of progress, which the caller's own thread makes.
constexpr std::size_t kBatch = 64;

/// What became of one plan of the space.
struct Outcome {
    std::optional<Prediction> prediction;
    double score = 0.0;
    std::string text;
    bool played = false;        ///< the schedule itself, not the closed form
    std::string rule, message;  ///< why it lost, empty while it has not
    double distance = 0.0;      ///< how far from passing, to name the nearest example
};

/// Higher is better.
double scoreOf(const SearchSpace& space, const Plan& plan, const Prediction& p) {
    const double devices = static_cast<double>(plan.layout.world());
    switch (space.objective) {
        case Objective::Mfu:
            return p.mfu;
        case Objective::TokensPerSecond:
            return p.tokens_per_second_per_device * devices;
        case Objective::CostPerToken:  // a device hour costs the same on every layout
            return p.tokens_per_second_per_device;
        case Objective::MemoryHeadroom:
            return 1.0 - p.memory.peak / p.memory.capacity;
    }
    return 0.0;
}

void rejectMemory(Outcome& out, const MemoryPrediction& memory, Bytes limit) {
    const Bytes over = memory.device_total - limit;
    out.rule = "memory";
    out.distance = over.value;
    out.message =
        fmt::format("stage {} needs {}, {} more than the {} of a device", memory.peak_stage.value,
                    humanBytes(memory.device_total), humanBytes(over), humanBytes(limit));
}

class Search {
public:
    Search(const SearchSpace& space, const ParallelFor& parallel_for, std::stop_token stop,
           const std::function<void(const SearchProgress&)>& progress)
        : m_space(space),
          m_parallel_for(parallel_for),
          m_stop(std::move(stop)),
          m_report(progress),
          m_plans(enumeratePlans(space)),
          m_outcomes(m_plans.size()),
          m_limit(space.base.cluster.device.memory * (1.0 - space.memory_margin)) {}

    Result<SearchResult> run() {
        m_total = m_plans.size() + std::min(m_plans.size(), finalistCount());
        std::vector<std::size_t> all(m_plans.size());
        std::iota(all.begin(), all.end(), std::size_t{0});
        PIPER_TRY(forEach(all, &Search::estimate));
        std::vector<std::size_t> order = ranked();
        const auto feasible = static_cast<std::int64_t>(order.size());
        order.resize(std::min(order.size(), finalistCount()));
        m_total = m_done + order.size();
        PIPER_TRY(forEach(order, &Search::play));
        return collect(feasible);
    }

private:
    std::size_t finalistCount() const {
        return std::max(kLeastFinalists, m_space.top * kFinalistsPerPlan);
    }

    /// `body` touches only the outcome of its own plan: batches need no lock.
    Status forEach(const std::vector<std::size_t>& plans, void (Search::*body)(std::size_t)) {
        for (std::size_t begin = 0; begin < plans.size(); begin += kBatch) {
            const std::size_t count = std::min(kBatch, plans.size() - begin);
            m_parallel_for(count, [&](std::size_t i) {
                if (!m_stop.stop_requested()) (this->*body)(plans[begin + i]);
            });
            if (m_stop.stop_requested())
                return fail(ErrorCode::Cancelled, "the search was stopped after {} of {} steps",
                            m_done, m_total);
            m_done += count;
            report(std::span(plans).subspan(begin, count));
        }
        return {};
    }

    void report(std::span<const std::size_t> batch) {
        if (!m_report) return;
        for (std::size_t i : batch)
            if (isPlayed(i) && (!m_best_index || better(i, *m_best_index))) {
                m_best_index = i;
                m_best = RankedPlan{m_plans[i], *m_outcomes[i].prediction};
            }
        m_report({static_cast<std::int64_t>(m_done), static_cast<std::int64_t>(m_total),
                  m_best ? &*m_best : nullptr});
    }

    bool isPlayed(std::size_t i) const {
        return m_outcomes[i].played && m_outcomes[i].prediction.has_value();
    }

    /// Rules, memory, closed form.
    void estimate(std::size_t i) {
        const Plan& plan = m_plans[i];
        Outcome& out = m_outcomes[i];
        out.text = layoutText(plan);
        const std::vector<Violation> violations = validatePlan(plan);
        if (!violations.empty()) {
            out.rule = violations.front().rule;
            out.message = violations.front().message;
            out.distance = static_cast<double>(violations.size());
            return;
        }
        const MemoryPrediction memory = predictMemory(plan);
        if (memory.device_total > m_limit) return rejectMemory(out, memory, m_limit);
        settle(i, predict(plan, PredictMode::ClosedForm, PredictDetail::StepOnly));
    }

    void play(std::size_t i) {
        m_outcomes[i].played = true;
        settle(i, predict(m_plans[i]));
    }

    void settle(std::size_t i, Result<Prediction> prediction) {
        Outcome& out = m_outcomes[i];
        out.prediction.reset();
        if (!prediction.ok()) {
            out.rule = "prediction";
            out.message = prediction.error().text();
            return;
        }
        if (prediction->memory.device_total > m_limit)
            return rejectMemory(out, prediction->memory, m_limit);
        out.prediction = std::move(prediction).value();
        out.score = scoreOf(m_space, m_plans[i], *out.prediction);
    }

    bool better(std::size_t a, std::size_t b) const {
        const Outcome &x = m_outcomes[a], &y = m_outcomes[b];
        return x.score != y.score ? x.score > y.score : x.text < y.text;
    }

    std::vector<std::size_t> ranked() const {
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < m_outcomes.size(); ++i)
            if (m_outcomes[i].prediction) order.push_back(i);
        std::ranges::sort(order, [this](std::size_t a, std::size_t b) { return better(a, b); });
        return order;
    }

    SearchResult collect(std::int64_t feasible) {
        SearchResult result;
        result.evaluated = static_cast<std::int64_t>(m_plans.size());
        result.feasible = feasible;
        std::vector<std::size_t> order = ranked();
        // What was not played cannot be ranked among what was.
        std::erase_if(order, [this](std::size_t i) { return !isPlayed(i); });
        for (std::size_t i : order) {
            if (result.plans.size() == m_space.top) {
                rejectSlower(result, i, order.front());
                break;
            }
            result.plans.push_back({m_plans[i], *m_outcomes[i].prediction});
        }
        addRejections(result);
        return result;
    }

    void rejectSlower(SearchResult& result, std::size_t i, std::size_t best) const {
        result.rejections.push_back({m_outcomes[i].text, "slower",
                                     fmt::format("a step takes {}, the best plan's {}",
                                                 humanSeconds(m_outcomes[i].prediction->step),
                                                 humanSeconds(m_outcomes[best].prediction->step))});
    }

    /// The example of each rule that came nearest to passing.
    void addRejections(SearchResult& result) const {
        std::map<std::string, std::size_t> nearest;
        for (std::size_t i = 0; i < m_outcomes.size(); ++i) {
            const Outcome& out = m_outcomes[i];
            if (out.rule.empty()) continue;
            const auto [at, added] = nearest.try_emplace(out.rule, i);
            const Outcome& known = m_outcomes[at->second];
            if (!added && std::tie(out.distance, out.text) < std::tie(known.distance, known.text))
                at->second = i;
        }
        std::vector<Rejection> found;
        for (const auto& [rule, i] : nearest)
            found.push_back({m_outcomes[i].text, rule, m_outcomes[i].message});
        std::ranges::stable_sort(found, {}, [](const Rejection& r) { return r.rule != "memory"; });
        result.rejections.insert(result.rejections.begin(), found.begin(), found.end());
    }

    const SearchSpace& m_space;
    const ParallelFor& m_parallel_for;
    std::stop_token m_stop;
    const std::function<void(const SearchProgress&)>& m_report;
    std::vector<Plan> m_plans;
    std::vector<Outcome> m_outcomes;
    Bytes m_limit;
    std::size_t m_done = 0, m_total = 0;
    std::optional<std::size_t> m_best_index;
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
