// SPDX-License-Identifier: Apache-2.0
#include "core/predict/plan_estimator.h"

#include <algorithm>
#include <utility>

#include "core/resources/memory.h"
#include "core/run/run.h"
#include "core/schedule/exposure.h"
#include "core/schedule/schedule.h"

namespace piper {
namespace {

std::size_t at(Slot::Kind kind) {
    return static_cast<std::size_t>(kind);
}

}  // namespace

PlanEstimator::PlanEstimator(const Plan& base, const SlotMomentsTable* shared)
    : m_plan(base), m_cost(m_plan), m_shared_moments(shared) {
    const auto& layers = m_plan.model.layers;
    m_moe_before.assign(layers.size() + 1, 0);
    for (std::size_t l = 0; l < layers.size(); ++l)
        m_moe_before[l + 1] = m_moe_before[l] + (layers[l] == LayerKind::Moe ? 1 : 0);
    m_patterns.assign(m_moe_before.size() * m_moe_before.size(), 0);
}

Status PlanEstimator::supported() const {
    const RoutingLoad& load = m_plan.routing_load;
    if (load.kind == RoutingLoadKind::Histogram && load.histogram.size() > 1)
        return fail(ErrorCode::Unsupported,
                    "the routing histogram has {} rows: its layers take different times",
                    load.histogram.size());
    if (m_plan.optimizer.post_validation)
        return fail(ErrorCode::Unsupported,
                    "optimizer.post_validation: bounds count from the first rank's start");
    if (m_plan.offload.activations > 0.0)
        return fail(ErrorCode::Unsupported, "off-loaded activations differ from stage to stage");
    return {};
}

// --- one plan ------------------------------------------------------------------------------------

/// By class of chunk, of one micro-batch.
struct PlanEstimator::Held {
    /// Least and most that the chunks of a class hold.
    struct Range {
        Bytes whole_low, whole_high, late_low, late_high;
        bool any = false;

        void add(Bytes whole, Bytes late) {
            whole_low = any ? std::min(whole_low, whole) : whole;
            whole_high = any ? std::max(whole_high, whole) : whole;
            late_low = any ? std::min(late_low, late) : late;
            late_high = any ? std::max(late_high, late) : late;
            any = true;
        }
    };

    std::array<Range, kChunkClasses> classes;

    /// Least and most when a slot begins.
    [[nodiscard]] std::pair<Bytes, Bytes> at(const SlotMoment& moment) const {
        Bytes low, high;
        for (std::size_t c = 0; c < kChunkClasses; ++c) {
            if (!classes[c].any) continue;
            const double whole = moment.whole[c], late = moment.late[c];
            low += classes[c].whole_low * whole + classes[c].late_low * late;
            high += classes[c].whole_high * whole + classes[c].late_high * late;
        }
        return {low, high};
    }
};

PlanEstimator::Held PlanEstimator::heldOf(Shapes& shapes, std::size_t stage) {
    Held out;
    const std::int64_t chunks = m_shape.chunks();
    for (std::int64_t c = 0; c < chunks; ++c) {
        const ChunkHeld& own = chunkHeld(shapes, use(stage, ModelChunkId(number(c))));
        const Bytes whole = own.net[at(Slot::Kind::Forward)];
        out.classes[static_cast<std::size_t>(chunkClass(c, chunks))].add(
            whole, whole + own.net[at(Slot::Kind::InputGrad)]);
    }
    return out;
}

PlanEstimator::PeakRange PlanEstimator::slotPeak(Shapes& shapes, std::size_t stage,
                                                 const SlotForm& form) {
    const std::int64_t chunks = m_shape.chunks();
    const std::size_t k = at(form.kind);
    const Bytes own = chunkHeld(shapes, use(stage, form.chunk)).peak[k];
    PeakRange out{own, own};
    if (chunkClass(form.chunk.value, chunks) != ChunkClass::Middle) return out;
    for (std::int64_t c = 1; c + 1 < chunks; ++c) {
        const Bytes peak = chunkHeld(shapes, use(stage, ModelChunkId(number(c)))).peak[k];
        out.low = std::min(out.low, peak);
        out.high = std::max(out.high, peak);
    }
    return out;
}

Bytes PlanEstimator::heldAtLeast(Shapes& shapes, const RankMoments& rank, std::size_t stage,
                                 bool begin) {
    const Held held = heldOf(shapes, stage);
    Bytes most;
    for (const SlotMoment& moment : rank.moments) {
        const Bytes before = held.at(moment).first;
        most = std::max(most, before);
        if (begin) continue;
        const SlotForm& form = rank.forms[moment.form].form;
        if (!form.paired) {
            most = std::max(most, before + slotPeak(shapes, stage, form).low);
            continue;
        }
        // Wherever the turns of the other fall.
        const ChunkHeld& first = chunkHeld(shapes, use(stage, form.chunk));
        const ChunkHeld& second = chunkHeld(shapes, use(stage, form.second_chunk));
        const std::size_t a = at(form.kind), b = at(form.second_kind);
        most = std::max({most, before + first.peak[a] + second.least[b],
                         before + second.peak[b] + first.least[a]});
    }
    return most;
}

const std::vector<RankMoments>* PlanEstimator::begin() {
    if (const PipelineShape shape = pipelineShape(m_plan);
        m_ranks_of_shape == nullptr || !(shape == m_shape)) {
        m_shape = shape;
        m_ranks_of_shape = m_shared_moments != nullptr ? m_shared_moments->find(shape) : nullptr;
        if (m_ranks_of_shape == nullptr) m_ranks_of_shape = &m_moments.of(shape);
    }
    const std::vector<RankMoments>* ranks = m_ranks_of_shape;
    if (ranks->empty()) return nullptr;
    setChunks();
    m_message_ns = messageNs();
    return ranks;
}

template <class Visit>
void PlanEstimator::forEachPersistent(const Visit& visit) {
    std::optional<StageContent> known;
    Bytes held;
    for (std::size_t s = 0; s < static_cast<std::size_t>(m_shape.pp); ++s) {
        const StageContent now = content(s);
        if (!(now == known)) held = persistent(StageId(s), now);
        known = now;
        visit(s, held);
    }
}

DeviceFloor PlanEstimator::deviceFloor(HeldPart part) {
    if (!supported().ok()) return {};
    const std::vector<RankMoments>* ranks = begin();
    if (ranks == nullptr) return {};
    const bool kept = part == HeldPart::Kept;
    const int zero_stage = m_plan.zero_stage;
    const std::int64_t parts = m_plan.all_to_all.chunks;
    if (kept) {  // weights gathered for a layer and the rows of a chunk are gone between slots
        m_plan.zero_stage = std::min(zero_stage, 2);
        m_plan.all_to_all.chunks = 1;
    }
    Shapes* made = part == HeldPart::States ? nullptr : &shapes(splitsBackward(m_plan.schedule));
    m_plan.zero_stage = zero_stage;
    m_plan.all_to_all.chunks = parts;
    DeviceFloor out;
    forEachPersistent([&](std::size_t s, Bytes held) {
        if (made != nullptr) held += heldAtLeast(*made, (*ranks)[s], s, kept);
        if (out.stage.valid() && held <= out.total) return;
        out = {held, StageId(s)};
    });
    out.total = deviceReserve(m_plan).total(out.total);
    return out;
}

namespace {

/// No slot of the stage starts before the first micro-batch has come to it: through the stages
/// before it, `filled` [stage], or of a bidirectional pipeline from the nearer end, where the same
/// positions stand in the other order.
std::int64_t startNs(const PipelineShape& shape, const std::vector<std::int64_t>& filled,
                     std::size_t stage) {
    if (placementOf(shape.kind) != ChunkPlacement::Bidirectional) return filled[stage];
    return std::min(filled[stage], filled[filled.size() - 1 - stage]);
}

}  // namespace

std::int64_t PlanEstimator::pairsFloorNs() {
    if (!supported().ok()) return 0;
    const std::vector<RankMoments>* ranks = begin();
    if (ranks == nullptr) return 0;
    LayoutPrices& prices = layout(splitsBackward(m_plan.schedule));
    std::vector<std::int64_t> filled(ranks->size(), 0), busy(ranks->size(), 0);
    for (std::size_t s = 0; s < ranks->size(); ++s) {
        std::int64_t compute = 0, exchange = 0;
        const auto add = [&](Slot::Kind kind, ModelChunkId c, std::int64_t count) {
            const ChunkSlots& own = chunk(prices, use(s, c));
            compute += count * own.busy_ns[at(kind)];
            exchange += count * own.exchange_ns[at(kind)];
        };
        for (const RankMoments::FormCount& used : (*ranks)[s].forms) {
            add(used.form.kind, used.form.chunk, used.count);
            if (used.form.paired) add(used.form.second_kind, used.form.second_chunk, used.count);
        }
        busy[s] = std::max(compute, exchange);
        if (s + 1 < ranks->size())
            filled[s + 1] =
                filled[s] + chunk(prices, use(s, ModelChunkId(0))).pass_ns[at(Slot::Kind::Forward)];
    }
    std::int64_t floor = 0;
    for (std::size_t s = 0; s < ranks->size(); ++s)
        floor = std::max(floor, startNs(m_shape, filled, s) + busy[s]);
    return floor;
}

PlanEstimator::StageSum PlanEstimator::stageSum(LayoutPrices& prices, std::size_t stage,
                                                const RankMoments& moments) {
    StageSum out;
    std::array<std::int64_t, 5> sum{}, count{};
    for (const RankMoments::FormCount& used : moments.forms) {
        const SlotForm& form = used.form;
        const auto add = [&](std::size_t kind, std::int64_t span_ns, std::int64_t lane_ns,
                             std::int64_t busy_ns, std::int64_t exchange_ns) {
            out.rank.span_ns += used.count * span_ns;
            out.lane_ns += used.count * lane_ns;
            out.busy_ns += used.count * busy_ns;
            out.exchange_ns += used.count * exchange_ns;
            sum[kind] += span_ns;
            ++count[kind];
        };
        if (form.paired) {
            const PairSlots& both = pair(prices, stage, form);
            add(4, both.span_ns, both.lane_ns, both.busy_ns, both.exchange_ns);
        } else {
            const ChunkSlots& own = chunk(prices, use(stage, form.chunk));
            const std::size_t k = at(form.kind);
            add(k, own.span_ns[k], own.lane_ns[k], own.busy_ns[k], own.exchange_ns[k]);
        }
        const auto sends = [&](Slot::Kind kind, ModelChunkId c) {
            const ChunkUse& u = use(stage, c);
            if (kind == Slot::Kind::WeightGrad) return false;
            return kind == Slot::Kind::Forward ? u.sends_forward : u.sends_back;
        };
        if (sends(form.kind, form.chunk)) out.rank.message_ns += used.count * m_message_ns;
        if (form.paired && sends(form.second_kind, form.second_chunk))
            out.rank.message_ns += used.count * m_message_ns;
    }
    for (std::size_t k = 0; k < sum.size(); ++k) sum[k] /= std::max<std::int64_t>(1, count[k]);
    out.rank.forward_ns = sum[at(Slot::Kind::Forward)];
    out.rank.input_grad_ns = sum[at(Slot::Kind::InputGrad)];
    out.rank.weight_grad_ns = sum[at(Slot::Kind::WeightGrad)];
    out.rank.backward_ns = sum[at(Slot::Kind::Backward)];
    out.rank.pair_ns = sum[4];
    const ChunkSlots& first = chunk(prices, use(stage, ModelChunkId(0)));
    out.first_ns = first.pass_ns[at(Slot::Kind::Forward)];
    out.last_ns = first.pass_ns[at(Slot::Kind::Backward)];
    out.after_last_ns = first.after_pass_ns;
    findPeak(prices, stage, moments, out);
    return out;
}

void PlanEstimator::findPeak(LayoutPrices& prices, std::size_t stage, const RankMoments& moments,
                             StageSum& out) {
    const Held held = heldOf(prices.shapes, stage);
    for (const SlotMoment& moment : moments.moments) {
        const SlotForm& form = moments.forms[moment.form].form;
        const auto [low, high] = held.at(moment);
        PeakRange peak;
        if (form.paired)
            peak.low = peak.high = pair(prices, stage, form).peak;
        else
            peak = slotPeak(prices.shapes, stage, form);
        out.low = std::max(out.low, low + peak.low);
        out.high = std::max(out.high, high + peak.high);
    }
}

namespace {

/// No schedule of these slots ends earlier: a stage can start when the first micro-batch has come
/// through those before it, runs its slots one after the other, and what follows its last one
/// follows, where `drains` also the way of its gradient to the first stage. `Sum` is
/// PlanEstimator::StageSum.
template <class Sum>
std::int64_t boundNs(const PipelineShape& shape, std::span<const Sum> sums, bool drains) {
    std::vector<std::int64_t> filled(sums.size(), 0);
    for (std::size_t s = 1; s < sums.size(); ++s) filled[s] = filled[s - 1] + sums[s - 1].first_ns;
    std::int64_t bound = 0, drained = 0;
    for (std::size_t s = 0; s < sums.size(); ++s) {
        const Sum& sum = sums[s];
        const std::int64_t start = startNs(shape, filled, s);
        bound = std::max(bound, start + sum.lane_ns + sum.rank.tail_ns);
        if (drains)
            bound = std::max(bound, start + sum.lane_ns - sum.after_last_ns + drained +
                                        sums.front().rank.tail_ns);
        drained += sum.last_ns;
    }
    return bound;
}

}  // namespace

Result<PlanEstimate> PlanEstimator::estimate() {
    PIPER_TRY(supported());
    const std::vector<RankMoments>* ranks = begin();
    if (ranks == nullptr)
        return fail(ErrorCode::RuleBroken, "{} has no slots for these degrees",
                    toText(m_plan.schedule));
    LayoutPrices& prices = layout(splitsBackward(m_plan.schedule));
    const DeviceReserve reserve = deviceReserve(m_plan);
    std::vector<StageSum>& sums = m_sums;
    sums.clear();
    PlanEstimate out;
    Bytes worst, worst_low;
    std::optional<StageContent> known;
    const StageTail* last = nullptr;
    forEachPersistent([&](std::size_t s, Bytes held) {
        const StageContent now = content(s);
        if (!(now == known)) last = &tail(prices, StageId(s), now);
        known = now;
        StageSum& sum = sums.emplace_back(stageSum(prices, s, (*ranks)[s]));
        sum.rank.tail_ns = last->ns;
        const Bytes high = held + std::max(sum.high, last->held);
        worst_low = std::max(worst_low, held + std::max(sum.low, last->held));
        if (out.peak_stage.valid() && high <= worst) return;
        worst = high;
        out.peak_stage = StageId(s);
    });
    m_ranks.clear();
    for (const StageSum& sum : sums) {
        m_ranks.push_back(sum.rank);
        out.compute_ns += sum.busy_ns / m_shape.pp;
        out.exchange_ns += sum.exchange_ns / m_shape.pp;
        out.slots_ns += sum.lane_ns / m_shape.pp;
    }
    out.step_ns = closedFormStepNs(m_shape, m_ranks, false);
    out.bound_ns = boundNs(m_shape, std::span<const StageSum>(sums), !splitsBackward(m_shape.kind));
    out.device_total = reserve.total(worst);
    out.device_total_low = reserve.total(worst_low);
    return out;
}

std::int64_t PlanEstimator::boundHidingNs(double share, bool split) const {
    std::vector<StageSum> sums = m_sums;
    for (StageSum& sum : sums) {
        const double hidden = share * static_cast<double>(sum.exchange_ns);
        // All that one micro-batch exchanges both ways is more than a pass of its first chunk.
        const auto pass = static_cast<std::int64_t>(
            hidden / static_cast<double>(std::max<std::int64_t>(1, m_shape.num_microbatches)));
        sum.lane_ns -= static_cast<std::int64_t>(hidden);
        sum.first_ns = std::max<std::int64_t>(0, sum.first_ns - pass);
        sum.last_ns = std::max<std::int64_t>(0, sum.last_ns - pass);
        sum.rank.tail_ns = 0;
    }
    return boundNs(m_shape, std::span<const StageSum>(sums),
                   !split && !splitsBackward(m_shape.kind));
}

}  // namespace piper
