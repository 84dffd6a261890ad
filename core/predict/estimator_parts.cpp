// SPDX-License-Identifier: Apache-2.0
// What PlanEstimator works out once and keeps.
#include <algorithm>
#include <utility>

#include "core/predict/plan_estimator.h"
#include "core/resources/memory.h"
#include "core/run/run.h"
#include "core/schedule/exposure.h"
#include "core/schedule/schedule.h"

namespace piper {
namespace {

/// Kinds of layers in a row that one search may see: two of them and a number of layers make a key.
constexpr std::uint64_t kPatterns = 1 << 20;
/// Kept beyond the layouts that were made of them: about 30 kB and 150 bytes each.
constexpr std::size_t kMostShapes = 500, kMostStages = 20000;

/// The place of a value in a list of the few that came up, added when new.
template <class T>
std::int32_t placeIn(std::vector<T>& known, const T& value) {
    const auto found = std::ranges::find(known, value);
    if (found != known.end()) return static_cast<std::int32_t>(found - known.begin());
    known.push_back(value);
    return static_cast<std::int32_t>(std::ssize(known)) - 1;
}

/// Fills a key from the front; what is left stays 0.
template <class Key>
class KeyWriter {
public:
    explicit KeyWriter(Key& key) : m_key(key) {}
    KeyWriter& operator<<(std::int64_t value) {
        PIPER_CHECK(m_next < m_key.size());
        m_key[m_next++] = static_cast<std::int32_t>(value);
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

// --- parts that are kept -------------------------------------------------------------------------

PlanEstimator::Key PlanEstimator::shapesKey() {
    const Layout& l = m_plan.layout;
    const AllToAllChoice& a = m_plan.all_to_all;
    const Recompute& r = m_plan.recompute;
    const Overlap overlap = effectiveOverlap(m_plan);
    Key key{};
    KeyWriter(key) << l.tp * 2 + (l.sp ? 1 : 0) << l.cp << l.ep << l.etp << l.world()
                   << m_plan.micro_batch_size
                   << static_cast<std::int64_t>(r.granularity) * 2 +
                          static_cast<std::int64_t>(r.method)
                   << (r.method == RecomputeMethod::Uniform ? r.num_layers : 0)
                   << placeIn(m_modules, r.modules) << a.chunks
                   << static_cast<std::int64_t>(a.algorithm) * 8 +
                          static_cast<std::int64_t>(a.library)
                   << a.node_limit
                   << (overlap.tp ? 1 : 0) + (overlap.cp ? 2 : 0) + (overlap.ep ? 4 : 0) +
                          (m_plan.zero_stage >= 3 ? 8 : 0);
    return key;
}

bool PlanEstimator::recomputesSome() const {
    return m_plan.recompute.granularity == RecomputeGranularity::Full &&
           m_plan.recompute.method == RecomputeMethod::Block && m_plan.recompute.num_layers > 0;
}

template <class Make>
auto* PlanEstimator::withoutRecompute(const Make& make) {
    const Recompute given = std::exchange(m_plan.recompute, Recompute{});
    auto& out = make();
    m_plan.recompute = given;
    return &out;
}

PlanEstimator::Shapes& PlanEstimator::shapes(bool split) {
    std::unique_ptr<Shapes>& known = m_shapes[shapesKey()];
    if (!known || (split && !known->parts.isSplit())) m_cost.layoutChanged();
    if (!known) {
        known = std::make_unique<Shapes>(m_plan, m_cost);
        known->number = ++m_next_number;
    }
    if (split && !known->parts.isSplit()) {
        known->parts.split(known->work, m_cost);
        known->chunks.clear();
    }
    Shapes& out = *known;
    if (recomputesSome() && (out.plain == &out || (split && !out.plain->parts.isSplit())))
        out.plain = withoutRecompute([&]() -> Shapes& { return shapes(split); });
    return out;
}

PlanEstimator::Key PlanEstimator::layoutKey(const Shapes& shapes, std::int32_t order) const {
    const Layout& l = m_plan.layout;
    const bool hidden = effectiveOverlap(m_plan).ep;  // pairs of slots hide exchanges themselves
    const bool pairs = hidden && pairsSlots(m_plan.schedule);
    const bool alone = hidden && !pairs;
    // The degrees of the shapes say where groups lie when dp and pp come last.
    const bool inner = m_plan.rank_order.starts_with("tp-cp-ep");
    Key key{};
    KeyWriter(key) << shapes.number << order << (pairs ? 1 : 0)
                   << (alone ? m_shape.num_microbatches * l.vpp : 0) << (inner ? 0 : l.dp)
                   << (inner ? 0 : l.pp)
                   // What compute may wait for is all that pp says of a layer otherwise.
                   << (l.pp == 1 ? -1 : m_message_ns >> 31) << (m_message_ns & 0x7fffffff);
    return key;
}

PlanEstimator::LayoutPrices& PlanEstimator::layout(bool split) {
    Shapes& shape = shapes(split);
    std::unique_ptr<LayoutPrices>& known =
        m_layouts[layoutKey(shape, placeIn(m_orders, m_plan.rank_order))];
    if (!known || (split && !known->parts.isSplit())) m_cost.layoutChanged();
    if (!known) {
        known = std::make_unique<LayoutPrices>(SlotPieces(m_plan, m_cost, shape.parts), shape);
        known->number = ++m_next_number;
    }
    LayoutPrices& out = *known;
    if (split && !out.parts.isSplit()) {
        out.parts.split(m_plan, m_cost);
        out.chunks.clear();
    }
    if (recomputesSome() && (out.plain == &out || (split && !out.plain->parts.isSplit())))
        out.plain = withoutRecompute([&]() -> LayoutPrices& { return layout(split); });
    return out;
}

void PlanEstimator::forget() {
    m_layouts.clear();
    m_tails.clear();
    if (m_persistent.size() > kMostStages) m_persistent.clear();
    if (m_shapes.size() > kMostShapes) m_shapes.clear();
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

PlanEstimator::Key PlanEstimator::stageKey(const StageContent& content,
                                           std::initializer_list<std::int64_t> more) {
    const Layout& l = m_plan.layout;
    Key key{};
    KeyWriter writer(key);
    writer << l.tp * 2 + (l.sp ? 1 : 0) << l.cp << l.ep << l.etp << l.pp << l.dp
           << m_plan.zero_stage
           << (m_plan.offload.optimizer ? 1 : 0) + (m_plan.offload.parameters ? 2 : 0)
           << static_cast<std::int64_t>(m_plan.offload.fraction * 1e6)
           << static_cast<std::int64_t>(placementOf(m_shape.kind))
           << (content.embedding ? 1 : 0) + (content.head ? 2 : 0) << content.dense << content.moe;
    for (const std::int64_t value : more) writer << value;
    return key;
}

Bytes PlanEstimator::persistent(StageId stage, const StageContent& content) {
    const auto [found, added] = m_persistent.try_emplace(stageKey(content, {}));
    if (added)
        for (const MemoryEntry& entry : persistentMemory(m_plan, stage))
            found->second += entry.bytes;
    return found->second;
}

const PlanEstimator::StageTail& PlanEstimator::tail(const LayoutPrices& prices, StageId stage,
                                                    const StageContent& content) {
    const Overlap overlap = effectiveOverlap(m_plan);
    const auto [found, added] = m_tails.try_emplace(stageKey(
        content, {hidesCollectives() ? prices.number : 0, placeIn(m_orders, m_plan.rank_order),
                  (overlap.dp_grad_reduce ? 1 : 0) + (overlap.dp_param_gather ? 2 : 0),
                  m_plan.zero_stage >= 3 ? m_shape.num_microbatches : 0}));
    if (!added) return found->second;
    m_cost.layoutChanged();
    StageTail& out = found->second;
    WorkTable work(m_plan);
    Exposure exposure(work, m_cost);
    const SlotTemplate tail = StageExpander(work, stage).tail();
    std::vector<std::int64_t> times;
    for (const Operation& op : tail.operations)
        times.push_back(inNs(m_cost.operation(work.of(op.key, stage), op.key.phase).time *
                             exposure.share(op.key, stage)));
    out.ns = isolatedTimes(tail, times).span_ns;
    Bytes held;
    for (const MemoryChange& change : tail.memory) {
        held += change.delta;
        out.held = std::max(out.held, held);
    }
    return out;
}

// --- the chunks of a plan ------------------------------------------------------------------------

void PlanEstimator::setChunks() {
    const bool blocking = !effectiveOverlap(m_plan).pp;
    const ChunksOf now{m_shape.pp, m_shape.vpp, placementOf(m_shape.kind), blocking,
                       m_plan.stage_layers};
    if (now == m_chunks_of) return;
    m_chunks_of = now;
    const std::vector<std::int64_t> layers = effectiveStageLayers(m_plan);
    std::vector<std::int64_t> begin(layers.size() + 1, 0);
    for (std::size_t p = 0; p < layers.size(); ++p) begin[p + 1] = begin[p] + layers[p];
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

std::uint64_t PlanEstimator::chunkKey(const ChunkUse& use) {
    return (static_cast<std::uint64_t>(m_plan.recompute.num_layers) << 40) +
           std::uint64_t{pattern(use.begin, use.end)} * 8 + (use.ends.first ? 1U : 0U) +
           (use.ends.last ? 2U : 0U) + (use.ends.waits_for_send ? 4U : 0U);
}

std::span<const LayerUse> PlanEstimator::layersOf(const ChunkUse& use) {
    m_layers.clear();
    for (std::int64_t l = use.begin; l < use.end; ++l)
        m_layers.push_back({m_plan.model.layers[static_cast<std::size_t>(l)],
                            isRecomputed(m_plan, {use.begin, use.end}, l)});
    return m_layers;
}

template <class Kept>
const auto& PlanEstimator::ofChunk(Kept& kept, const ChunkUse& use) {
    const auto [found, added] = kept.chunks.try_emplace(chunkKey(use));
    if (added) found->second = kept.parts.chunk(layersOf(use), use.ends, kept.plain->parts);
    return found->second;
}

const ChunkSlots& PlanEstimator::chunk(LayoutPrices& prices, const ChunkUse& use) {
    return ofChunk(prices, use);
}

const ChunkHeld& PlanEstimator::chunkHeld(Shapes& shapes, const ChunkUse& use) {
    return ofChunk(shapes, use);
}

/// Of a pair the operations of both take turns: put together once for its kinds of chunks.
const PairSlots& PlanEstimator::pair(LayoutPrices& prices, std::size_t stage,
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
    std::array<PairMember, 2> members;
    std::array<std::vector<LayerUse>, 2> layers;
    for (std::size_t m = 0; m < 2; ++m) {
        const ChunkUse& own = use(stage, m == 0 ? form.chunk : form.second_chunk);
        const std::span<const LayerUse> of = layersOf(own);
        layers[m].assign(of.begin(), of.end());
        members[m] = {m == 0 ? form.kind : form.second_kind, layers[m], own.ends,
                      own.sends_forward};
        members[m].ends.waits_for_send = own.sends_back;
    }
    found->second =
        prices.parts.pair(members, prices.plain->parts, m_message_ns, !effectiveOverlap(m_plan).pp);
    return found->second;
}

}  // namespace piper
