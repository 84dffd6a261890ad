// SPDX-License-Identifier: Apache-2.0
#include "core/search/core_search.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "core/plan/pipeline_shape.h"
#include "core/plan/validated.h"
#include "core/predict/predict.h"
#include "core/run/run.h"
#include "core/search/enumerate.h"

namespace piper {
namespace {

/// Layouts that one searcher keeps priced: sixteen searchers and what goes with it hold 455 MB at
/// most then (`piperctl bench search`).
constexpr std::size_t kMostPriced = 1200;

/// What N chunks hide of an exchange at most.
double hiddenBy(std::int64_t chunks) {
    return 1.0 - 1.0 / static_cast<double>(std::max<std::int64_t>(1, chunks));
}

/// Its stages are those of 1f1b.
bool isPlainLoop(const PipelineChoice& pipeline) {
    return placementOf(pipeline.schedule) == ChunkPlacement::Loop && pipeline.vpp == 1;
}

}  // namespace

void SearchTally::add(const SearchTally& other) {
    evaluated += other.evaluated;
    feasible += other.feasible;
    for (const auto& [rule, example] : other.broken) {
        const auto [known, added] = broken.try_emplace(rule, example);
        if (!added && std::tie(example.rules, example.layout) <
                          std::tie(known->second.rules, known->second.layout))
            known->second = example;
    }
    const auto take = [](std::optional<TooLarge>& known, const std::optional<TooLarge>& more) {
        if (more) keepSmaller(known, more->point, {more->total, more->stage});
    };
    take(too_large, other.too_large);
    take(beyond, other.beyond);
}

void SearchTally::keepSmaller(std::optional<TooLarge>& known, const SearchPoint& point,
                              const DeviceFloor& needed) {
    if (!known || needed.total < known->total) known = {point, needed.total, needed.stage};
}

CoreSearch::CoreSearch(const SearchSpace& space, const SearchChoices& choices,
                       const SlotMomentsTable* moments)
    : m_space(space),
      m_choices(choices),
      m_base_faults(validateModelAndCluster(space.base)),
      m_estimator(space.base, moments),
      m_limit(space.base.cluster.device.memory * (1.0 - space.memory_margin)) {}

/// Between cores: cores of a searcher share tensors, and most of what is dropped does not come
/// again.
void CoreSearch::keepWithinMemory() {
    if (m_estimator.numPriced() > kMostPriced) m_estimator.forget();
}

void CoreSearch::refuse(const SearchPoint& point, const std::vector<Violation>& violations) {
    const Violation& first = violations.front();
    const auto [known, added] = m_tally.broken.try_emplace(first.rule);
    if (!added && known->second.rules <= violations.size()) return;
    known->second = {layoutText(m_choices.plan(point)), first.message, violations.size()};
}

void CoreSearch::tooLarge(const SearchPoint& point, const PlanEstimate& estimate) {
    SearchTally::keepSmaller(m_tally.too_large, point,
                             {estimate.device_total, estimate.peak_stage});
}

bool CoreSearch::legal(const SearchPoint& point) {
    m_choices.apply(point, m_estimator.plan());
    const std::vector<Violation> violations =
        m_base_faults.empty() ? validateChoices(m_estimator.plan()) : m_base_faults;
    if (violations.empty()) return true;
    ++m_tally.evaluated;
    refuse(point, violations);
    return false;
}

std::vector<int> CoreSearch::legalZeroStages(SearchPoint point) {
    std::vector<int> out;
    for (int stage : m_choices.zeroStages()) {
        point.saving.zero_stage = stage;
        if (legal(point)) out.push_back(stage);
    }
    return out;
}

/// Pairs of slots cost most to put together and hide at most the shorter of compute and exchanges:
/// the same settings under 1f1b, which are priced already, say what is left at least, and then the
/// pairs' own slots one by one. Where all layers are computed again it is the fewest that count.
bool CoreSearch::pairsAreSlower(SearchPoint point) {
    if (point.saving.recomputed_layers == 0)
        point.saving.recomputed_layers = m_choices.recomputedLayers(point).back();
    const PipelineChoice pairs = std::exchange(point.pipeline, {ScheduleKind::OneF1B, 1});
    m_choices.apply(point, m_estimator.plan());
    const Result<PlanEstimate> whole = m_estimator.estimate();
    if (whole.ok() && sharedFloorNs(*whole) > m_limit_ns) return true;
    point.pipeline = pairs;
    m_choices.apply(point, m_estimator.plan());
    return m_estimator.pairsFloorNs() > m_limit_ns;
}

/// Of the plan at hand. What cannot be put together from parts is predicted, without a bound; so is
/// the memory where the parts leave open whether it fits.
Result<PlanEstimate> CoreSearch::answer() {
    Result<PlanEstimate> out = m_estimator.estimate();
    const bool open = out.ok() && !fits(*out) && out->device_total_low <= m_limit;
    if (out.ok() ? !open : out.error().code != ErrorCode::Unsupported) return out;
    PIPER_ASSIGN(
        const Prediction exact,
        predictUnchecked(m_estimator.plan(), PredictMode::ClosedForm, PredictDetail::StepOnly));
    PlanEstimate estimate;
    estimate.step_ns = inNs(exact.step);
    if (open) estimate = *out;
    estimate.device_total = estimate.device_total_low = exact.memory.device_total;
    estimate.peak_stage = exact.memory.peak_stage;
    return estimate;
}

std::optional<PlanEstimate> CoreSearch::estimate(const SearchPoint& point, bool slow_too) {
    ++m_tally.evaluated;
    if (!slow_too && pairsSlots(point.pipeline.schedule) && m_limit_ns != kNoLimit &&
        pairsAreSlower(point))
        return std::nullopt;
    m_choices.apply(point, m_estimator.plan());
    Result<PlanEstimate> out = answer();
    if (!out.ok()) return std::nullopt;
    if (fits(*out)) ++m_tally.feasible;
    return std::move(out).value();
}

/// 1f1b with nothing saved, its exchange whole and no message waited for: no schedule of the core
/// has less in its slots.
std::optional<PlanEstimate> CoreSearch::wholeSlots(const SearchCore& core) {
    Plan& plan = m_estimator.plan();
    SearchPoint point{core, {}, m_space.base.all_to_all, {}};
    point.saving.zero_stage = m_choices.zeroStages().front();
    m_choices.apply(point, plan);
    ++m_tally.evaluated;
    plan.overlap = effectiveOverlap(plan);
    plan.overlap->pp = true;
    Result<PlanEstimate> out = m_estimator.estimate();
    plan.overlap = m_space.base.overlap;
    if (!out.ok()) return std::nullopt;
    return std::move(out).value();
}

/// What is left of a step when all that can be hidden is. A framework's own overlap of the exchange
/// hides more the more chunks a rank has, and another algorithm may exchange faster: then compute
/// alone is sure.
std::int64_t CoreSearch::sharedFloorNs(const PlanEstimate& whole) const {
    const bool known = !effectiveOverlap(m_space.base).ep && !m_choices.searchesAlgorithms();
    return known ? std::max(whole.compute_ns, whole.exchange_ns) : whole.compute_ns;
}

std::optional<CoreOutlook> CoreSearch::outlook(const SearchCore& core) {
    keepWithinMemory();
    SearchPoint point{core, {}, m_space.base.all_to_all, {}};
    const bool legal =
        std::ranges::any_of(m_choices.pipelines(core), [&](const PipelineChoice& pipeline) {
            point.pipeline = pipeline;
            return !legalZeroStages(point).empty();
        });
    if (!legal) return std::nullopt;
    CoreOutlook out;
    out.whole = wholeSlots(core);
    if (!out.whole) return out;
    out.loop_floors = loopFloors(core);
    // Chunks and pairs of slots hide exchanges behind compute, nothing else does.
    out.floor_ns = m_choices.hidesExchanges() ? sharedFloorNs(*out.whole) : out.whole->slots_ns;
    constexpr double kRecompute = 4.0 / 3.0;  // a second forward pass
    out.expected_ns = static_cast<std::int64_t>(static_cast<double>(out.whole->step_ns) *
                                                (fits(*out.whole) ? 1.0 : kRecompute));
    return out;
}

bool CoreSearch::offer(const SearchPoint& point, const PlanEstimate& estimate, Best& best) {
    if (!legal(point)) return false;
    if (!best || estimate.step_ns < best->estimate.step_ns) best = FoundPlan{point, estimate};
    return true;
}

/// Full recompute of fewer layers is faster and holds more.
void CoreSearch::fewestRecomputed(SearchPoint point, Best& best) {
    const std::vector<std::int64_t> layers = m_choices.recomputedLayers(point);
    std::size_t fitting = 0, beyond = layers.size();
    while (beyond - fitting > 1) {
        const std::size_t middle = (fitting + beyond) / 2;
        point.saving.recomputed_layers = layers[middle];
        // A slow one that fits leads to a faster one that fits.
        const auto found = needsMore(point, m_limit) ? std::nullopt : estimate(point, true);
        const bool good = found && fits(*found);
        if (good) (void)offer(point, *found, best);
        (good ? fitting : beyond) = middle;
    }
}

/// By what is held without anything priced.
bool CoreSearch::needsMore(const SearchPoint& point, Bytes than) {
    m_choices.apply(point, m_estimator.plan());
    for (const HeldPart part : {HeldPart::States, HeldPart::Kept, HeldPart::Slots}) {
        const DeviceFloor floor = m_estimator.deviceFloor(part);
        if (floor.total <= than) continue;
        ++m_tally.evaluated;
        SearchTally::keepSmaller(m_tally.beyond, point, floor);
        return true;
    }
    return false;
}

/// Drops the ZeRO stages under which the pipeline does not fit whatever else is saved, with none of
/// the exchanges. As long as no plan was found the smallest that does not fit is looked for: what
/// is larger is dropped.
void CoreSearch::dropTooLarge(SearchPoint point, const std::vector<AllToAllChoice>& exchanges,
                              std::vector<int>& zero_stages) {
    Bytes enough = m_limit;
    if (m_limit_ns == kNoLimit && !pairsSlots(point.pipeline.schedule)) {
        if (!m_tally.too_large) return;
        enough = std::max(m_limit, m_tally.too_large->total);
    }
    std::erase_if(zero_stages, [&](int stage) {
        point.saving = mostSaved(stage);
        return std::ranges::all_of(exchanges, [&](const AllToAllChoice& exchange) {
            point.exchange = exchange;
            return needsMore(point, enough);
        });
    });
}

SavingChoice CoreSearch::mostSaved(int zero_stage) const {
    const auto last = static_cast<std::uint32_t>(m_choices.recomputes().size() - 1);
    return {last, 0, zero_stage, m_choices.offloads().back()};
}

/// The fastest saving of memory that fits: within one ZeRO stage and place of the optimizer state
/// each recompute takes longer than the one before.
void CoreSearch::chooseSaving(SearchPoint point, Best& best) {
    const auto last = static_cast<std::uint32_t>(m_choices.recomputes().size() - 1);
    if (!pairsSlots(point.pipeline.schedule)) {
        point.saving = mostSaved(point.saving.zero_stage);
        const auto least = estimate(point);
        if (!least) return;
        if (!fits(*least)) return tooLarge(point, *least);
    }
    for (const bool offload : m_choices.offloads()) {
        point.saving.offload = offload;
        for (std::uint32_t r = 0; r <= last; ++r) {
            point.saving.recompute = r;
            if (needsMore(point, m_limit)) continue;
            const auto found = estimate(point);
            if (!found || !fits(*found) || !offer(point, *found, best)) continue;
            if (r > 0) fewestRecomputed(point, best);
            if (r == 0) return;  // off-loading cannot be faster
            break;
        }
    }
}

/// Of each ZeRO stage the recompute that holds least and breaks no rule.
void CoreSearch::smallest(SearchPoint point, const std::vector<int>& zero_stages, Best& best) {
    point.saving.offload = m_choices.offloads().back();
    for (const int stage : zero_stages) {
        point.saving.zero_stage = stage;
        for (std::size_t r = m_choices.recomputes().size(); r-- > 0;) {
            point.saving.recompute = static_cast<std::uint32_t>(r);
            if (pairsSlots(point.pipeline.schedule) && needsMore(point, m_limit)) break;
            const auto found = estimate(point);
            if (!found) continue;
            if (!fits(*found)) {
                tooLarge(point, *found);
                break;
            }
            if (!legal(point)) continue;
            if (!best || found->device_total < best->estimate.device_total)
                best = FoundPlan{point, *found};
            break;
        }
    }
}

/// Of schedules on the stages of wholeSlots(), which was estimated last.
std::vector<ChunkFloor> CoreSearch::loopFloors(const SearchCore& core) const {
    std::vector<ChunkFloor> out;
    if (m_space.base.all_to_all.chunks > 1) return out;
    for (const AllToAllChoice& exchange : m_choices.exchanges(core, {ScheduleKind::ZbH1, 1}))
        if (std::ranges::find(out, exchange.chunks, &ChunkFloor::chunks) == out.end())
            out.push_back(
                {exchange.chunks, m_estimator.boundHidingNs(hiddenBy(exchange.chunks), true)});
    return out;
}

/// From the slots of 1f1b without chunks: chunks hide at most their share of the exchanges, pairs
/// of slots all of them; a backward in two slots waits no less. 0 where nothing is known.
std::int64_t CoreSearch::slotsFloorNs(const SearchPoint& point, const CoreOutlook& outlook) const {
    const AllToAllChoice& base = m_space.base.all_to_all;
    if (!outlook.whole || base.chunks > 1 || point.exchange.algorithm != base.algorithm) return 0;
    const PlanEstimate& whole = *outlook.whole;
    const std::int64_t both = sharedFloorNs(whole);
    if (effectiveOverlap(m_space.base).ep || pairsSlots(point.pipeline.schedule)) return both;
    const double hidden = static_cast<double>(whole.exchange_ns) * hiddenBy(point.exchange.chunks);
    const std::int64_t floor = std::max(both, whole.slots_ns - static_cast<std::int64_t>(hidden));
    const auto known =
        std::ranges::find(outlook.loop_floors, point.exchange.chunks, &ChunkFloor::chunks);
    const bool in_loop = isPlainLoop(point.pipeline) && known != outlook.loop_floors.end();
    return in_loop ? std::max(floor, known->ns) : floor;
}

void CoreSearch::refinePipeline(SearchPoint point, const std::vector<int>& zero_stages,
                                std::int64_t limit_ns, Best& best) {
    for (const int stage : zero_stages) {
        point.saving = {.zero_stage = stage};
        if (pairsSlots(point.pipeline.schedule) && needsMore(point, m_limit)) {
            chooseSaving(point, best);  // before any pair is written out
            continue;
        }
        const auto fastest = estimate(point, true);  // of pairs dropSlow() has asked
        if (!fastest) continue;
        if (fastest->bound_ns > limit_ns) {
            // What follows the slots is all that a ZeRO stage makes shorter.
            if (!pairsSlots(point.pipeline.schedule) &&
                m_estimator.boundHidingNs(0.0, false) > limit_ns)
                return;
            continue;
        }
        if (best && fastest->step_ns >= best->estimate.step_ns) continue;
        if (fits(*fastest) && offer(point, *fastest, best)) continue;
        chooseSaving(point, best);
    }
}

/// Whatever is saved: pairs by what they have at least; of others the exchange whole says what its
/// chunks leave at least, which hide at most their share of it.
void CoreSearch::dropSlow(SearchPoint point, int zero_stage, std::int64_t limit_ns,
                          std::vector<AllToAllChoice>& exchanges) {
    if (limit_ns == kNoLimit) return;
    point.saving = {.zero_stage = zero_stage};
    if (pairsSlots(point.pipeline.schedule)) {
        std::erase_if(exchanges, [&](const AllToAllChoice& exchange) {
            point.exchange = exchange;
            return pairsAreSlower(point);
        });
        return;
    }
    const AllToAllChoice& base = m_space.base.all_to_all;
    if (base.chunks > 1 || effectiveOverlap(m_space.base).ep) return;
    if (exchanges.size() == 1 && exchanges.front() == base) return;  // has its own bound
    point.exchange = base;
    m_choices.apply(point, m_estimator.plan());
    ++m_tally.evaluated;
    if (!m_estimator.estimate().ok()) return;
    std::erase_if(exchanges, [&](const AllToAllChoice& exchange) {
        return exchange.algorithm == base.algorithm &&
               m_estimator.boundHidingNs(hiddenBy(exchange.chunks), false) > limit_ns;
    });
}

void CoreSearch::refine(const SearchCore& core, const CoreOutlook& outlook, std::int64_t limit_ns,
                        std::vector<FoundPlan>& out) {
    keepWithinMemory();
    m_limit_ns = limit_ns;
    SearchPoint point{core, {}, m_space.base.all_to_all, {}};
    const bool by_memory = m_space.objective == Objective::MemoryHeadroom;
    for (const PipelineChoice& pipeline : m_choices.pipelines(core)) {
        point.pipeline = pipeline;
        std::vector<AllToAllChoice> exchanges = m_choices.exchanges(core, pipeline);
        if (!by_memory)
            std::erase_if(exchanges, [&](const AllToAllChoice& exchange) {
                point.exchange = exchange;
                return slotsFloorNs(point, outlook) > limit_ns;
            });
        if (exchanges.empty()) continue;
        point.exchange = exchanges.front();
        std::vector<int> zero_stages = legalZeroStages(point);
        if (zero_stages.empty()) continue;
        if (!by_memory) {
            dropSlow(point, zero_stages.front(), limit_ns, exchanges);
            if (exchanges.empty()) continue;
            dropTooLarge(point, exchanges, zero_stages);
        }
        Best best;
        for (const AllToAllChoice& exchange : exchanges) {
            point.exchange = exchange;
            if (by_memory)
                smallest(point, zero_stages, best);
            else
                refinePipeline(point, zero_stages, limit_ns, best);
        }
        if (best && best->estimate.bound_ns <= limit_ns) out.push_back(*best);
    }
}

}  // namespace piper
