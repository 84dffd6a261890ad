// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <map>
#include <string>

#include "app/common/parallel.h"
#include "app/files/files.h"
#include "app/piperctl/bench.h"
#include "core/base/json.h"
#include "core/predict/plan_estimator.h"
#include "core/run/run.h"
#include "core/search/enumerate.h"
#include "core/search/peer_space.h"
#include "core/search/search.h"

namespace piper::app {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// CPU time of this thread.
double threadSeconds() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// What became of every strategy of a problem, none left out.
struct Decided {
    std::int64_t strategies = 0, overfill = 0, too_large = 0, feasible = 0;
    std::map<std::string, std::int64_t> rules;
    std::int64_t best_ns = 0;
    double cpu_seconds = 0.0;
};

void decide(PlanEstimator& estimator, const PeerStrategy& strategy, Decided& out) {
    ++out.strategies;
    if (overfillsNode(strategy)) {
        ++out.overfill;
        return;
    }
    Plan& plan = estimator.plan();
    applyPeer(strategy, plan);
    const std::vector<Violation> violations = validatePlan(plan);
    if (!violations.empty()) {
        ++out.rules[violations.front().rule];
        return;
    }
    const Result<PlanEstimate> estimate = estimator.estimate();
    if (!estimate.ok() || estimate->device_total > plan.cluster.device.memory) {
        ++out.too_large;
        return;
    }
    ++out.feasible;
    if (out.best_ns == 0 || estimate->step_ns < out.best_ns) out.best_ns = estimate->step_ns;
}

/// Strategies of one tensor degree: a share of a problem for one thread.
Decided decideShare(const PeerProblem& problem, const Plan& base, std::int64_t share,
                    std::int64_t shares) {
    Decided out;
    PlanEstimator estimator(base);
    const double begin = threadSeconds();
    std::int64_t grid = -1, last_tp = 0, last_pp = 0;
    forEachPeerStrategy(problem, [&](const PeerStrategy& s) {
        if (s.tp != last_tp || s.pp != last_pp) ++grid;
        last_tp = s.tp;
        last_pp = s.pp;
        if (grid % shares == share) decide(estimator, s, out);
    });
    out.cpu_seconds = threadSeconds() - begin;
    return out;
}

/// The estimator against predict() on strategies spread over the problem.
Result<std::int64_t> checkAgainstPrediction(const PeerProblem& problem, const Plan& base,
                                            double& reference_seconds) {
    PlanEstimator estimator(base);
    std::int64_t number = 0, checked = 0;
    std::string wrong;
    double spent = 0.0;
    forEachPeerStrategy(problem, [&](const PeerStrategy& s) {
        if (number++ % 37 != 0 || overfillsNode(s) || !wrong.empty()) return;
        Plan& plan = estimator.plan();
        applyPeer(s, plan);
        if (!validatePlan(plan).empty()) return;
        const Result<PlanEstimate> fast = estimator.estimate();
        const double begin = threadSeconds();
        const Result<Prediction> slow =
            predictUnchecked(plan, PredictMode::ClosedForm, PredictDetail::StepOnly);
        spent += threadSeconds() - begin;
        ++checked;
        if (fast.ok() && slow.ok() && fast->step_ns == inNs(slow->step)) return;
        wrong =
            fmt::format("strategy {} of {}: estimate and prediction differ", number, problem.name);
    });
    if (!wrong.empty()) return fail(ErrorCode::External, "{}", wrong);
    reference_seconds = checked > 0 ? spent / static_cast<double>(checked) : 0.0;
    return checked;
}

/// A whole search, timed.
struct TimedSearch {
    std::string name;
    double seconds = 0.0, first_seconds = 0.0;
    std::int64_t evaluated = 0, feasible = 0;
    std::string best;
};

Result<TimedSearch> timeSearch(std::string name, const SearchSpace& space) {
    TimedSearch out;
    out.name = std::move(name);
    const Clock::time_point begin = Clock::now();
    PIPER_ASSIGN(const SearchResult result,
                 searchPlans(space, threadedFor(), {}, [&](const SearchProgress& p) {
                     if (p.best != nullptr && out.first_seconds == 0.0)
                         out.first_seconds = secondsSince(begin);
                 }));
    out.seconds = secondsSince(begin);
    out.evaluated = result.evaluated;
    out.feasible = result.feasible;
    if (!result.plans.empty())
        out.best = fmt::format("{} ({:.1f} % MFU)", layoutText(result.plans[0].plan),
                               100.0 * result.plans[0].prediction.mfu);
    return out;
}

Result<SearchSpace> exampleSpace(const std::string& model, const std::string& device,
                                 std::int64_t nodes, std::int64_t seq_len, std::int64_t batch) {
    SearchSpace space;
    PIPER_ASSIGN(const std::filesystem::path file, bundledExample(model));
    PIPER_ASSIGN(space.base.model, loadModel(file));
    PIPER_ASSIGN(space.base.cluster, defaultCluster(device, nodes));
    space.base.seq_len = seq_len;
    space.base.global_batch_size = batch;
    space.top = 10;
    return space;
}

Result<SearchSpace> glamSpace() {
    PIPER_ASSIGN(SearchSpace glam, exampleSpace("models/glam-1.2t.json", "H200 SXM", 8, 2048, 512));
    glam.base.optimizer.kind = OptimizerKind::Adafactor;
    return glam;
}

Result<std::vector<TimedSearch>> timeSearches() {
    std::vector<TimedSearch> out;
    PIPER_ASSIGN(const SearchSpace glam, glamSpace());
    PIPER_ASSIGN(TimedSearch timed, timeSearch("GLaM-1.2T, 64 H200, Adafactor", glam));
    out.push_back(std::move(timed));
    PIPER_ASSIGN(SearchSpace deepseek,
                 exampleSpace("configs/DeepSeek-V3.json", "H100 SXM", 512, 4096, 15360));
    PIPER_ASSIGN(timed, timeSearch("DeepSeek-V3, 4096 H100", deepseek));
    out.push_back(std::move(timed));
    deepseek.base.framework = Framework::Megatron;
    PIPER_ASSIGN(timed, timeSearch("DeepSeek-V3, 4096 H100, Megatron", deepseek));
    out.push_back(std::move(timed));
    return out;
}

/// The best plan of all dimensions against the best that splits experts alone.
struct Saving {
    RankedPlan best, experts_only;

    [[nodiscard]] double share() const {
        return 1.0 - best.prediction.step / experts_only.prediction.step;
    }
    /// Seconds of a step that the best plan spends less, by what they are spent on; they add up.
    [[nodiscard]] std::vector<std::pair<std::string, Seconds>> terms() const {
        const Prediction &a = experts_only.prediction, &b = best.prediction;
        const auto exposed = [](const Prediction& p, std::initializer_list<Phase> phases) {
            Seconds sum;
            for (const Phase phase : phases) sum += p.exposed[static_cast<std::size_t>(phase)];
            return sum;
        };
        std::vector<std::pair<std::string, Seconds>> out;
        out.emplace_back("compute", a.compute - b.compute);
        const auto add = [&](std::string name, std::initializer_list<Phase> phases) {
            out.emplace_back(std::move(name), exposed(a, phases) - exposed(b, phases));
        };
        add("exposed dispatch and combine", {Phase::Dispatch, Phase::Combine});
        add("other exposed communication",
            {Phase::TpComm, Phase::CpComm, Phase::PpComm, Phase::DpComm});
        Seconds rest = a.step - b.step;
        for (const auto& [name, seconds] : out) rest = rest - seconds;
        out.emplace_back("bubble and the rest", rest);
        return out;
    }
};

Result<RankedPlan> bestOf(const SearchSpace& space) {
    PIPER_ASSIGN(SearchResult result, searchPlans(space, threadedFor()));
    if (result.plans.empty()) return fail(ErrorCode::NotFound, "no plan of the space fits");
    return std::move(result.plans.front());
}

/// The claim of arXiv 2605.05049: 45 % of GLaM-1.2T's step, against expert parallelism alone with
/// the vendor's exchange and nothing hidden.
Result<Saving> savingOf(SearchSpace space) {
    Saving out;
    space.top = 1;
    PIPER_ASSIGN(out.best, bestOf(space));
    Plan& base = space.base;
    base.layout = {};
    base.schedule = ScheduleKind::OneF1B;
    base.all_to_all = {};
    base.all_to_all.algorithm = AllToAllAlgorithm::Vendor;
    base.overlap = Overlap{};
    space.fixed = {"tp", "sp", "cp", "pp", "vpp", "etp", "schedule", "chunks", "algorithm"};
    PIPER_ASSIGN(out.experts_only, bestOf(space));
    return out;
}

Json savingJson(const Saving& saving) {
    Json terms = Json::object();
    for (const auto& [name, seconds] : saving.terms()) terms[name] = seconds.value;
    return {{"experts_only", layoutText(saving.experts_only.plan)},
            {"experts_only_seconds", saving.experts_only.prediction.step.value},
            {"best", layoutText(saving.best.plan)},
            {"best_seconds", saving.best.prediction.step.value},
            {"saving", saving.share()},
            {"saving_claimed", 0.45},
            {"seconds_saved_by", terms}};
}

void printSaving(const Saving& saving) {
    fmt::print(
        "GLaM-1.2T, 64 H200: best with expert parallelism alone, vendor's exchange, nothing "
        "hidden: {}, {}\nbest of all dimensions: {}, {}; {:.1f} % less (45 % claimed by "
        "arXiv 2605.05049)\n",
        humanSeconds(saving.experts_only.prediction.step), layoutText(saving.experts_only.plan),
        humanSeconds(saving.best.prediction.step), layoutText(saving.best.plan),
        100.0 * saving.share());
    const double whole = (saving.experts_only.prediction.step - saving.best.prediction.step).value;
    for (const auto& [name, seconds] : saving.terms())
        fmt::print("  {:<30} {:>8.2f} s less, {:>6.1f} % of the saving\n", name, seconds.value,
                   100.0 * seconds.value / whole);
}

double peakMegabytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1000.0;
}

Result<double> decideAll(const PeerProblem& problem, std::int64_t& strategies) {
    PIPER_ASSIGN(const Plan base, peerBase(problem));
    constexpr std::int64_t kShares = 16;
    std::vector<Decided> parts(kShares);
    const Clock::time_point begin = Clock::now();
    threadedFor()(kShares, [&](std::size_t i) {
        parts[i] = decideShare(problem, base, static_cast<std::int64_t>(i), kShares);
    });
    const double seconds = secondsSince(begin);
    strategies = 0;
    for (const Decided& part : parts) strategies += part.strategies;
    return seconds;
}

Json reportJson(const Decided& all, double batch) {
    return {{"format_version", 1},
            {"bench", "search"},
            {"strategies", all.strategies},
            {"feasible", all.feasible},
            {"overfill_node", all.overfill},
            {"too_large", all.too_large},
            {"broken_rules", all.rules},
            {"strategies_per_second", static_cast<double>(all.strategies) / all.cpu_seconds},
            {"feasible_per_second", static_cast<double>(all.feasible) / all.cpu_seconds},
            {"best_rate_per_second", batch / (static_cast<double>(all.best_ns) * 1e-9)}};
}

void printReport(const Json& out, const std::vector<TimedSearch>& searches) {
    for (const auto& [key, value] : out.items())
        if (!value.is_array() && key != "claim" && key != "slider")
            fmt::print("{:<40} {}\n", key, value.dump());
    TextTable table({"search of all dimensions", "first plan", "whole", "decided", "fit", "best"});
    for (const TimedSearch& s : searches)
        table.add({s.name, humanSeconds(Seconds(s.first_seconds)), humanSeconds(Seconds(s.seconds)),
                   std::to_string(s.evaluated), std::to_string(s.feasible), s.best});
    fmt::print("{}", table.text());
}

}  // namespace

Outcome benchSearch(const BenchOptions&, bool json) {
    const PeerProblem small = megatron22b(), large = gpt175b();
    PIPER_ASSIGN(const Plan base, peerBase(small));
    double reference = 0.0;
    PIPER_ASSIGN(const std::int64_t checked, checkAgainstPrediction(small, base, reference));
    const Decided all = decideShare(small, base, 0, 1);
    if (all.strategies != small.strategies)
        return fail(ErrorCode::External, "{} strategies of {}, {} expected", all.strategies,
                    small.name, small.strategies);
    Json out = reportJson(all, static_cast<double>(small.batch));
    out["checked_against_prediction"] = checked;
    out["reference_strategies_per_second"] = reference > 0.0 ? 1.0 / reference : 0.0;
    SearchSpace pruned;
    pruned.base = base;
    pruned.top = 1;
    PIPER_ASSIGN(const TimedSearch quick, timeSearch("pruned", pruned));
    out["pruned_strategies_per_second"] = static_cast<double>(small.strategies) / quick.seconds;
    std::int64_t strategies = 0;
    PIPER_ASSIGN(const double seconds, decideAll(large, strategies));
    out["gpt175b_strategies"] = strategies;
    out["gpt175b_seconds"] = seconds;
    PIPER_ASSIGN(const std::vector<TimedSearch> searches, timeSearches());
    out["peak_megabytes"] = peakMegabytes();
    PIPER_ASSIGN(const std::vector<SliderTimes> slider, timeSlider());
    out["slider"] = sliderJson(slider);
    PIPER_ASSIGN(const SearchSpace glam, glamSpace());
    PIPER_ASSIGN(const Saving saving, savingOf(glam));
    out["claim"] = savingJson(saving);
    out["searches"] = Json::array();
    for (const TimedSearch& s : searches)
        out["searches"].push_back({{"name", s.name},
                                   {"seconds", s.seconds},
                                   {"first_seconds", s.first_seconds},
                                   {"evaluated", s.evaluated},
                                   {"feasible", s.feasible},
                                   {"best", s.best}});
    if (json) {
        printJson(out);
        return 0;
    }
    printReport(out, searches);
    fmt::print("{}", sliderText(slider));
    printSaving(saving);
    return 0;
}

}  // namespace piper::app
