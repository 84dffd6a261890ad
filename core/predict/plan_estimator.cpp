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

/// Kinds of layers in a row that one search may see: two of them and a number of layers make a key.
constexpr std::uint64_t kPatterns = 1 << 20;

std::size_t at(Slot::Kind kind) {
    return static_cast<std::size_t>(kind);
}

std::int32_t number(std::int64_t value) {
    return static_cast<std::int32_t>(value);
}

/// The place of a value in a list of the few that came up, added when new.
template <class T>
std::int32_t placeIn(std::vector<T>& known, const T& value) {
    const auto found = std::ranges::find(known, value);
    if (found != known.end()) return number(found - known.begin());
    known.push_back(value);
    return number(std::ssize(known)) - 1;
}

/// Fills a key from the front; what is left stays 0.
template <class Key>
class KeyWriter {
public:
    explicit KeyWriter(Key& key) : m_key(key) {}
    KeyWriter& operator<<(std::int64_t value) {
        PIPER_CHECK(m_next < m_key.size());
        m_key[m_next++] = number(value);
        return *this;
    }

private:
    Key& m_key;
    std::size_t m_next = 0;
};

}  // namespace

std::size_t PlanEstimator::KeyHash::operator()(const Key& key) const {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (std::int32_t value : key) {
        hash ^= static_cast<std::uint32_t>(value);
        hash *= 0x9e3779b97f4a7c15U;
        hash ^= hash >> 29;
    }
    return hash;
}

PlanEstimator::PlanEstimator(const Plan& base) : m_plan(base), m_cost(m_plan) {
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

// --- parts that are kept -------------------------------------------------------------------------

PlanEstimator::Key PlanEstimator::layoutKey(bool split, const Recompute& r) {
    const Layout& l = m_plan.layout;
    const AllToAllChoice& a = m_plan.all_to_all;
    const Overlap overlap = effectiveOverlap(m_plan);
    const bool alone = overlap.ep && !pairsSlots(m_plan.schedule);
    // The degrees already in the key say where groups lie when dp and pp come last.
    const bool inner = m_plan.rank_order.starts_with("tp-cp-ep");
    Key key{};
    KeyWriter(key) << l.tp * 2 + (l.sp ? 1 : 0) << l.cp << l.ep << l.etp << l.world()
                   << m_plan.micro_batch_size
                   << static_cast<std::int64_t>(r.granularity) * 2 +
                          static_cast<std::int64_t>(r.method)
                   << (r.method == RecomputeMethod::Uniform ? r.num_layers : 0)
                   << placeIn(m_modules, r.modules) << a.chunks
                   << static_cast<std::int64_t>(a.algorithm) * 8 +
                          static_cast<std::int64_t>(a.library)
                   << a.node_limit << placeIn(m_orders, m_plan.rank_order)
                   << (overlap.tp ? 1 : 0) + (overlap.cp ? 2 : 0) + (overlap.ep ? 4 : 0) +
                          (split ? 16 : 0) + (pairsSlots(m_plan.schedule) ? 32 : 0)
                   << (alone ? m_shape.num_microbatches * l.vpp : 0)
                   << (m_plan.zero_stage >= 3 ? 1 : 0) << (inner ? 0 : l.dp)
                   << (inner ? 0 : l.pp)
                   // What compute may wait for is all that pp says of a layer otherwise.
                   << (l.pp == 1 ? -1 : m_message_ns >> 31) << (m_message_ns & 0x7fffffff);
    return key;
}

PlanEstimator::LayoutPrices& PlanEstimator::layout(bool split) {
    std::unique_ptr<LayoutPrices>& known = m_layouts[layoutKey(split, m_plan.recompute)];
    if (!known) {
        m_cost.layoutChanged();
        known = std::make_unique<LayoutPrices>(SlotPieces(m_plan, m_cost, split));
        known->number = ++m_next_number;
    }
    LayoutPrices& out = *known;
    // Full recompute of the first layers of a chunk: the others are as without.
    const bool some = m_plan.recompute.granularity == RecomputeGranularity::Full &&
                      m_plan.recompute.method == RecomputeMethod::Block &&
                      m_plan.recompute.num_layers > 0;
    if (some && out.plain == nullptr) out.plain = &plainLayout(split);
    return out;
}

void PlanEstimator::forget() {
    m_layouts.clear();
    m_states.clear();
}

PlanEstimator::LayoutPrices& PlanEstimator::plainLayout(bool split) {
    const Recompute given = std::exchange(m_plan.recompute, Recompute{});
    LayoutPrices& out = layout(split);
    m_plan.recompute = given;
    return out;
}

const std::vector<RankMoments>* PlanEstimator::moments() {
    Key key{};
    KeyWriter(key) << static_cast<std::int64_t>(m_shape.kind) << m_shape.pp << m_shape.vpp
                   << m_shape.num_microbatches;
    const auto [found, added] = m_moments.try_emplace(key);
    if (added) {
        Result<std::vector<RankMoments>> made = slotMoments(m_shape);
        if (made.ok()) found->second = std::move(made).value();
    }
    return found->second.empty() ? nullptr : &found->second;
}

std::int64_t PlanEstimator::messageNs() {
    const Layout& l = m_plan.layout;
    if (l.pp <= 1) return 0;
    Key key{};
    KeyWriter(key) << l.tp * 2 + (l.sp ? 1 : 0) << l.cp << m_plan.micro_batch_size << l.world()
                   << l.pp << placeIn(m_orders, m_plan.rank_order);
    const auto [found, added] = m_messages.try_emplace(key, 0);
    if (added) {
        m_cost.layoutChanged();
        WorkTable work(m_plan);
        Exposure exposure(work, m_cost);
        const OperationKey send{OperationKind::Send, Phase::PpComm, Pass::Forward};
        found->second = inNs(m_cost.operation(work.of(send, StageId(0)), Phase::PpComm).time *
                             exposure.share(send, StageId(0)));
    }
    return found->second;
}

bool PlanEstimator::hidesCollectives() const {
    const Overlap overlap = effectiveOverlap(m_plan);
    return overlap.dp_grad_reduce || overlap.dp_param_gather;
}

const PlanEstimator::StageState& PlanEstimator::state(std::int32_t layout, StageId stage,
                                                      const StageContent& content) {
    const Layout& l = m_plan.layout;
    const Overlap overlap = effectiveOverlap(m_plan);
    Key key{};
    KeyWriter(key) << (hidesCollectives() ? layout : 0) << l.tp * 2 + (l.sp ? 1 : 0) << l.cp << l.ep
                   << l.etp << placeIn(m_orders, m_plan.rank_order) << l.pp << l.dp
                   << m_plan.zero_stage
                   << (m_plan.offload.optimizer ? 1 : 0) + (m_plan.offload.parameters ? 2 : 0)
                   << static_cast<std::int64_t>(m_plan.offload.fraction * 1e6)
                   << static_cast<std::int64_t>(placementOf(m_shape.kind))
                   << (overlap.dp_grad_reduce ? 1 : 0) + (overlap.dp_param_gather ? 2 : 0)
                   << (m_plan.zero_stage >= 3 ? m_shape.num_microbatches : 0)
                   << (content.embedding ? 1 : 0) + (content.head ? 2 : 0) << content.dense
                   << content.moe;
    const auto [found, added] = m_states.try_emplace(key);
    if (!added) return found->second;
    m_cost.layoutChanged();
    StageState& out = found->second;
    for (const MemoryEntry& entry : persistentMemory(m_plan, stage)) out.persistent += entry.bytes;
    WorkTable work(m_plan);
    Exposure exposure(work, m_cost);
    const SlotTemplate tail = StageExpander(work, stage).tail();
    std::vector<std::int64_t> times;
    for (const Operation& op : tail.operations)
        times.push_back(inNs(m_cost.operation(work.of(op.key, stage), op.key.phase).time *
                             exposure.share(op.key, stage)));
    out.tail_ns = isolatedTimes(tail, times).span_ns;
    Bytes held;
    for (const MemoryChange& change : tail.memory) {
        held += change.delta;
        out.at_optimizer = std::max(out.at_optimizer, held);
    }
    return out;
}

// --- the chunks of a plan ------------------------------------------------------------------------

void PlanEstimator::setChunks() {
    const std::vector<std::int64_t> layers = effectiveStageLayers(m_plan);
    std::vector<std::int64_t> begin(layers.size() + 1, 0);
    for (std::size_t p = 0; p < layers.size(); ++p) begin[p + 1] = begin[p] + layers[p];
    const bool blocking = !effectiveOverlap(m_plan).pp;
    m_chunks.clear();
    for (std::int64_t s = 0; s < m_shape.pp; ++s)
        for (std::int64_t c = 0; c < m_shape.chunks(); ++c) {
            const ChunkSeat seat{StageId(number(s)), ModelChunkId(number(c))};
            const auto position = static_cast<std::size_t>(positionOf(m_shape, seat));
            const auto before = seatBefore(m_shape, seat), after = seatAfter(m_shape, seat);
            ChunkUse use{begin[position], begin[position + 1], {}, false, false};
            use.ends.first = !before;
            use.ends.last = !after;
            use.sends_back = before && before->stage != seat.stage;
            use.ends.waits_for_send = use.sends_back && blocking;
            use.sends_forward = after && after->stage != seat.stage;
            m_chunks.push_back(use);
        }
}

const PlanEstimator::ChunkUse& PlanEstimator::use(std::size_t stage, ModelChunkId chunk) const {
    return m_chunks[stage * static_cast<std::size_t>(m_shape.chunks()) + chunk.index()];
}

PlanEstimator::StageContent PlanEstimator::content(std::size_t stage) const {
    StageContent out;
    for (std::int32_t c = 0; c < m_shape.chunks(); ++c) {
        const ChunkUse& chunk = use(stage, ModelChunkId(c));
        const std::int64_t moe = m_moe_before[static_cast<std::size_t>(chunk.end)] -
                                 m_moe_before[static_cast<std::size_t>(chunk.begin)];
        out.moe += number(moe);
        out.dense += number(chunk.end - chunk.begin - moe);
        out.embedding |= chunk.ends.first;
        out.head |= chunk.ends.last;
    }
    return out;
}

/// A number for the kinds of layers from begin to end, in order.
std::uint32_t PlanEstimator::pattern(std::int64_t begin, std::int64_t end) {
    std::uint32_t& known = m_patterns[static_cast<std::size_t>(begin) * m_moe_before.size() +
                                      static_cast<std::size_t>(end)];
    if (known != 0) return known;
    std::string kinds;
    for (std::int64_t l = begin; l < end; ++l)
        kinds += m_plan.model.layers[static_cast<std::size_t>(l)] == LayerKind::Moe ? 'm' : 'd';
    known =
        m_pattern_names.try_emplace(kinds, static_cast<std::uint32_t>(m_pattern_names.size() + 1))
            .first->second;
    PIPER_CHECK(known < kPatterns);
    return known;
}

const ChunkSlots& PlanEstimator::chunk(LayoutPrices& prices, const ChunkUse& use) {
    const auto again =
        static_cast<std::uint64_t>(prices.plain == nullptr ? 0 : m_plan.recompute.num_layers);
    const std::uint64_t key = (again << 40) + std::uint64_t{pattern(use.begin, use.end)} * 8 +
                              (use.ends.first ? 1U : 0U) + (use.ends.last ? 2U : 0U) +
                              (use.ends.waits_for_send ? 4U : 0U);
    const auto [found, added] = prices.chunks.try_emplace(key);
    if (!added) return found->second;
    std::vector<LayerUse> layers;
    for (std::int64_t l = use.begin; l < use.end; ++l)
        layers.push_back({m_plan.model.layers[static_cast<std::size_t>(l)],
                          isRecomputed(m_plan, {use.begin, use.end}, l)});
    found->second = prices.pieces.chunk(
        layers, use.ends, prices.plain == nullptr ? prices.pieces : prices.plain->pieces);
    return found->second;
}

/// Of a pair the operations of both take turns: it is written out once for its kinds of chunks.
const ChunkSlots& PlanEstimator::pair(LayoutPrices& prices, std::size_t stage,
                                      const SlotForm& form) {
    std::uint64_t key = static_cast<std::uint64_t>(m_plan.recompute.num_layers) * 2 +
                        (effectiveOverlap(m_plan).pp ? 1 : 0);
    for (const ModelChunkId c : {form.chunk, form.second_chunk}) {
        const ChunkUse& u = use(stage, c);
        key = key * (kPatterns * 16) + std::uint64_t{pattern(u.begin, u.end)} * 16 +
              (u.ends.first ? 1U : 0U) + (u.ends.last ? 2U : 0U) + (u.sends_back ? 4U : 0U) +
              (u.sends_forward ? 8U : 0U);
    }
    const auto [found, added] = prices.pairs.try_emplace(key);
    if (!added) return found->second;
    const StageId id(number(static_cast<std::int64_t>(stage)));
    WorkTable work(m_plan);
    const SlotTemplate slot = StageExpander(work, id).slot(form);
    std::vector<std::int64_t> times;
    times.reserve(slot.operations.size());
    for (const Operation& op : slot.operations) {
        const bool message = op.key.phase == Phase::PpComm;
        times.push_back(isHandOver(op) ? 0
                        : message      ? m_message_ns
                                       : prices.pieces.durationOf(op.key));
        if (times.back() < 0 && prices.plain != nullptr)
            times.back() = prices.plain->pieces.durationOf(op.key);
        PIPER_CHECK(times.back() >= 0);
    }
    ChunkSlots& out = found->second;
    out.span_ns[0] = isolatedTimes(slot, times).span_ns;
    for (std::size_t i = 0; i < times.size(); ++i) {
        if (slot.operations[i].lane == Lane::Compute) out.busy_ns[0] += times[i];
        if (slot.operations[i].lane == Lane::Ep) out.exchange_ns[0] += times[i];
    }
    const LaneMatrix matrix = laneMatrix(slot, times);
    constexpr auto compute = static_cast<std::size_t>(Port::Compute);
    out.lane_ns[0] = std::max<std::int64_t>(0, matrix.rows[compute][compute]);
    for (const MemoryChange& change : slot.memory) {
        out.net[0] += change.delta;
        out.peak[0] = std::max(out.peak[0], out.net[0]);
    }
    return out;
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

PlanEstimator::Held PlanEstimator::heldOf(LayoutPrices& prices, std::size_t stage) {
    Held out;
    const std::int64_t chunks = m_shape.chunks();
    for (std::int64_t c = 0; c < chunks; ++c) {
        const ChunkSlots& own = chunk(prices, use(stage, ModelChunkId(number(c))));
        const Bytes whole = own.net[at(Slot::Kind::Forward)];
        out.classes[static_cast<std::size_t>(chunkClass(c, chunks))].add(
            whole, whole + own.net[at(Slot::Kind::InputGrad)]);
    }
    return out;
}

Bytes PlanEstimator::heldAtLeast(LayoutPrices& prices, const RankMoments& rank, std::size_t stage) {
    const Held held = heldOf(prices, stage);
    Bytes most;
    for (const SlotMoment& moment : rank.moments) most = std::max(most, held.at(moment).first);
    return most;
}

/// Before any pair is written out: what lives all the time and what its slots begin with.
std::optional<PlanEstimate> PlanEstimator::beyond(LayoutPrices& prices,
                                                  const std::vector<RankMoments>& ranks,
                                                  const DeviceReserve& reserve, Bytes limit) {
    for (std::size_t s = 0; s < ranks.size(); ++s) {
        const Bytes least =
            reserve.total(persistent(prices.number, s) + heldAtLeast(prices, ranks[s], s));
        if (least <= limit) continue;
        PlanEstimate out;
        out.complete = false;
        out.device_total = out.device_total_low = least;
        out.peak_stage = StageId(number(static_cast<std::int64_t>(s)));
        return out;
    }
    return std::nullopt;
}

const std::vector<RankMoments>* PlanEstimator::begin() {
    m_shape = pipelineShape(m_plan);
    const std::vector<RankMoments>* ranks = moments();
    if (ranks == nullptr) return nullptr;
    setChunks();
    m_message_ns = messageNs();
    return ranks;
}

Bytes PlanEstimator::leastDeviceTotal(bool with_slots) {
    if (!supported().ok()) return {};
    const std::vector<RankMoments>* ranks = begin();
    if (ranks == nullptr) return {};
    LayoutPrices* prices =
        with_slots || hidesCollectives() ? &layout(splitsBackward(m_plan.schedule)) : nullptr;
    Bytes most;
    for (std::size_t s = 0; s < ranks->size(); ++s) {
        Bytes held = persistent(prices == nullptr ? 0 : prices->number, s);
        if (with_slots) held += heldAtLeast(*prices, (*ranks)[s], s);
        most = std::max(most, held);
    }
    return deviceReserve(m_plan).total(most);
}

std::int64_t PlanEstimator::pairsFloorNs() {
    if (!supported().ok()) return 0;
    const std::vector<RankMoments>* ranks = begin();
    if (ranks == nullptr) return 0;
    LayoutPrices& prices = layout(splitsBackward(m_plan.schedule));
    const bool both_ways = placementOf(m_shape.kind) == ChunkPlacement::Bidirectional;
    std::int64_t floor = 0, filled = 0;
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
        floor = std::max(floor, (both_ways ? 0 : filled) + std::max(compute, exchange));
        filled += chunk(prices, use(s, ModelChunkId(0))).pass_ns[at(Slot::Kind::Forward)];
    }
    return floor;
}

PlanEstimator::StageSum PlanEstimator::stageSum(LayoutPrices& prices, std::size_t stage,
                                                const RankMoments& moments) {
    StageSum out;
    std::array<std::int64_t, 5> sum{}, count{};
    std::vector<const ChunkSlots*>& slots = m_slots;
    slots.clear();
    for (const RankMoments::FormCount& used : moments.forms) {
        const SlotForm& form = used.form;
        const ChunkSlots& own =
            form.paired ? pair(prices, stage, form) : chunk(prices, use(stage, form.chunk));
        slots.push_back(&own);
        const std::size_t k = form.paired ? 0 : at(form.kind);
        out.rank.span_ns += used.count * own.span_ns[k];
        out.lane_ns += used.count * own.lane_ns[k];
        out.busy_ns += used.count * own.busy_ns[k];
        out.exchange_ns += used.count * own.exchange_ns[k];
        const std::size_t mean = form.paired ? 4 : k;
        sum[mean] += own.span_ns[k];
        ++count[mean];
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
    const std::int64_t chunks = m_shape.chunks();
    const Held held = heldOf(prices, stage);
    for (const SlotMoment& moment : moments.moments) {
        const SlotForm& form = moments.forms[moment.form].form;
        const auto [low, high] = held.at(moment);
        const std::size_t k = form.paired ? 0 : at(form.kind);
        Bytes peak_low = m_slots[moment.form]->peak[k], peak_high = peak_low;
        if (!form.paired && chunkClass(form.chunk.value, chunks) == ChunkClass::Middle)
            for (std::int64_t c = 1; c + 1 < chunks; ++c) {
                const Bytes peak = chunk(prices, use(stage, ModelChunkId(number(c)))).peak[k];
                peak_low = std::min(peak_low, peak);
                peak_high = std::max(peak_high, peak);
            }
        out.low = std::max(out.low, low + peak_low);
        out.high = std::max(out.high, high + peak_high);
    }
}

namespace {

/// No schedule of these slots ends earlier: a stage can start when the first micro-batch has come
/// through those before it, runs its slots one after the other, and what follows its last one
/// follows. `Sum` is PlanEstimator::StageSum.
template <class Sum>
std::int64_t boundNs(const PipelineShape& shape, std::span<const Sum> sums) {
    const bool backward_last = !splitsBackward(shape.kind);
    const bool both_ways = placementOf(shape.kind) == ChunkPlacement::Bidirectional;
    std::int64_t bound = 0, filled = 0, drained = 0;
    for (std::size_t s = 0; s < sums.size(); ++s) {
        const Sum& sum = sums[s];
        const std::int64_t start = both_ways ? 0 : filled;
        bound = std::max(bound, start + sum.lane_ns + sum.rank.tail_ns);
        if (backward_last)
            bound = std::max(bound, start + sum.lane_ns - sum.after_last_ns + drained +
                                        sums.front().rank.tail_ns);
        filled += sum.first_ns;
        drained += sum.last_ns;
    }
    return bound;
}

}  // namespace

Result<PlanEstimate> PlanEstimator::estimate(std::optional<Bytes> limit) {
    PIPER_TRY(supported());
    const std::vector<RankMoments>* ranks = begin();
    if (ranks == nullptr)
        return fail(ErrorCode::RuleBroken, "{} has no slots for these degrees",
                    toText(m_plan.schedule));
    LayoutPrices& prices = layout(splitsBackward(m_plan.schedule));
    const DeviceReserve reserve = deviceReserve(m_plan);
    if (limit && pairsSlots(m_shape.kind))
        if (auto out = beyond(prices, *ranks, reserve, *limit)) return std::move(*out);
    std::vector<StageSum>& sums = m_sums;
    sums.clear();
    PlanEstimate out;
    Bytes worst, worst_low;
    StageContent known;
    const StageState* held = nullptr;
    for (std::size_t s = 0; s < ranks->size(); ++s) {
        sums.push_back(stageSum(prices, s, (*ranks)[s]));
        const StageContent now = content(s);
        if (held == nullptr || !(now == known))
            held = &state(prices.number, StageId(number(static_cast<std::int64_t>(s))), now);
        known = now;
        sums.back().rank.tail_ns = held->tail_ns;
        const Bytes high = held->persistent + std::max(sums.back().high, held->at_optimizer);
        worst_low =
            std::max(worst_low, held->persistent + std::max(sums.back().low, held->at_optimizer));
        if (out.peak_stage.valid() && high <= worst) continue;
        worst = high;
        out.peak_stage = StageId(number(static_cast<std::int64_t>(s)));
    }
    m_ranks.clear();
    for (const StageSum& sum : sums) {
        m_ranks.push_back(sum.rank);
        out.compute_ns += sum.busy_ns / m_shape.pp;
        out.exchange_ns += sum.exchange_ns / m_shape.pp;
        out.slots_ns += sum.lane_ns / m_shape.pp;
    }
    out.step_ns = closedFormStepNs(m_shape, m_ranks, false);
    out.bound_ns = boundNs(m_shape, std::span<const StageSum>(sums));
    out.device_total = reserve.total(worst);
    out.device_total_low = reserve.total(worst_low);
    return out;
}

std::int64_t PlanEstimator::boundHidingNs(double share) const {
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
    return boundNs(m_shape, std::span<const StageSum>(sums));
}

}  // namespace piper
