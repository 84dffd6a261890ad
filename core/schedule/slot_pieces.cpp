// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/slot_pieces.h"

#include <algorithm>

#include "core/run/run.h"
#include "core/schedule/exposure.h"

namespace piper {
namespace {

constexpr StageId kHere = StageId(0);

/// A place between others of its own rank.
ChunkPlace between() {
    ChunkPlace place;
    place.before = place.after = kHere;
    place.chunk_before = place.chunk_after = ModelChunkId(0);
    return place;
}

/// A layer of that kind, to be expanded for all of its kind; -1 without one.
std::int64_t layerOfKind(const ModelSpec& model, LayerKind kind) {
    const auto at = std::ranges::find(model.layers, kind);
    return at == model.layers.end() ? -1 : at - model.layers.begin();
}

std::int64_t& at(PortTimes& times, Port port) {
    return times[static_cast<std::size_t>(port)];
}

/// Calls visit(piece, again) in the order of execution; not `again`: the piece is one of `plain`,
/// for layers that are not computed again.
template <class Piece, class Visit>
void walk(Slot::Kind kind, std::span<const LayerUse> layers, const ChunkEnds& ends,
          const SlotParts<Piece>& again, const SlotParts<Piece>& plain, const Visit& visit) {
    const auto k = static_cast<std::size_t>(kind);
    const auto layer = [&](const LayerUse& use, bool sends) {
        visit((use.recomputed ? again : plain).layer(use, sends)[k], use.recomputed);
    };
    const auto end = [&](const std::vector<Piece>& part) { visit(part[k], true); };
    if (kind == Slot::Kind::Forward) {
        if (ends.first) end(again.embedding);
        for (const LayerUse& use : layers) layer(use, false);
        if (ends.last) end(again.head);
        return;
    }
    if (ends.last) end(again.head);
    for (std::size_t i = layers.size(); i-- > 0;) layer(layers[i], i == 0 && ends.waits_for_send);
    if (ends.first) end(again.embedding);
}

}  // namespace

// --- what a rank does and holds ------------------------------------------------------------

/// Adds kinds of slots to the parts.
class SlotShapes::Builder {
public:
    Builder(WorkTable& work, const CostModel& cost, SlotShapes& shapes)
        : m_cost(cost),
          m_shapes(shapes),
          m_work(work),
          m_exposure(m_work, cost),
          m_expander(m_work, kHere) {}

    void add(Slot::Kind kind) {
        SlotParts<Shape>& parts = m_shapes.m_parts;
        for (LayerKind of : {LayerKind::Dense, LayerKind::Moe}) {
            const std::int64_t number = layerOfKind(m_work.plan().model, of);
            if (number < 0) continue;
            const auto k = static_cast<std::size_t>(of);
            ChunkPlace place = between();
            place.layers = {number, number + 1};
            add(parts.layers[k], kind, place);
            // Its gradient leaves the rank, and compute waits for that.
            if (kind != Slot::Kind::Forward) place.before = StageId(1);
            add(parts.sending[k], kind, place);
        }
        ChunkPlace place = between();
        place.first = true;
        add(parts.embedding, kind, place);
        place = between();
        place.last = true;
        add(parts.head, kind, place);
    }

private:
    void add(std::vector<Shape>& part, Slot::Kind kind, const ChunkPlace& place) {
        Shape& shape = part.emplace_back();
        const SlotTemplate slot = m_expander.part(kind, ModelChunkId(0), place);
        shape.steps = laneSteps(slot);
        shape.keys.reserve(slot.operations.size());
        for (const Operation& op : slot.operations)
            shape.keys.push_back(static_cast<std::uint16_t>(numberOf(op)));
        shape.held.resize(slot.operations.size());
        for (const MemoryChange& change : slot.memory) {
            StepHeld& step = shape.held[static_cast<std::size_t>(change.operation)];
            const std::size_t when = change.at_end ? 1 : 0;
            step.net[when] += change.delta;
            step.peak[when] = std::max(step.peak[when], step.net[when]);
            shape.net += change.delta;
            shape.peak = std::max(shape.peak, shape.net);
            shape.least = std::min(shape.least, shape.net);
        }
    }

    /// Few keys: a layer has about twenty.
    [[nodiscard]] std::size_t numberOf(const Operation& op) {
        std::vector<Known>& all = m_shapes.m_known;
        const auto known = std::ranges::find(all, op.key, &Known::key);
        if (known != all.end()) return static_cast<std::size_t>(known - all.begin());
        Known added{op.key};
        if (op.lane == Lane::Compute)
            added.compute_ns = inNs(m_cost.operation(m_work.of(op.key, kHere), op.key.phase).time *
                                    m_exposure.share(op.key, kHere));
        all.push_back(added);
        return all.size() - 1;
    }

    const CostModel& m_cost;
    SlotShapes& m_shapes;
    WorkTable& m_work;
    Exposure m_exposure;
    StageExpander m_expander;
};

SlotShapes::SlotShapes(WorkTable& work, const CostModel& cost) {
    Builder builder(work, cost, *this);
    builder.add(Slot::Kind::Forward);
    builder.add(Slot::Kind::Backward);
    m_kinds = 2;
}

void SlotShapes::split(WorkTable& work, const CostModel& cost) {
    if (isSplit()) return;
    Builder builder(work, cost, *this);
    builder.add(Slot::Kind::InputGrad);
    builder.add(Slot::Kind::WeightGrad);
    m_kinds = kSlotKinds;
}

ChunkHeld SlotShapes::chunk(std::span<const LayerUse> layers, const ChunkEnds& ends,
                            const SlotShapes& plain) const {
    ChunkHeld out;
    for (std::size_t k = 0; k < std::min(m_kinds, plain.m_kinds); ++k)
        walk(static_cast<Slot::Kind>(k), layers, ends, m_parts, plain.m_parts,
             [&](const Shape& shape, bool) {
                 out.peak[k] = std::max(out.peak[k], out.net[k] + shape.peak);
                 out.least[k] = std::min(out.least[k], out.net[k] + shape.least);
                 out.net[k] += shape.net;
             });
    return out;
}

// --- what it takes ----------------------------------------------------------------------

SlotPieces::SlotPieces(const Plan& plan, const CostModel& cost, const SlotShapes& shapes)
    : m_shapes(&shapes), m_sends(plan.layout.pp > 1) {
    addKinds(plan, cost, 2);
}

void SlotPieces::split(const Plan& plan, const CostModel& cost) {
    PIPER_CHECK(m_shapes->isSplit());
    addKinds(plan, cost, kSlotKinds);
}

void SlotPieces::addKinds(const Plan& plan, const CostModel& cost, std::size_t kinds) {
    WorkTable work(plan);
    Exposure exposure(work, cost);
    for (std::size_t i = m_durations_ns.size(); i < m_shapes->m_known.size(); ++i) {
        const SlotShapes::Known& known = m_shapes->m_known[i];
        std::int64_t ns = known.compute_ns;
        if (ns < 0 && known.key.kind != OperationKind::Receive)
            ns = inNs(cost.operation(work.of(known.key, kHere), known.key.phase).time *
                      exposure.share(known.key, kHere));
        m_durations_ns.push_back(ns);
    }
    const auto price = [&](const std::vector<SlotShapes::Shape>& part,
                           std::vector<SlotPiece>& out) {
        out.reserve(kinds);
        while (out.size() < std::min(kinds, part.size())) out.push_back(priced(part[out.size()]));
    };
    const SlotParts<SlotShapes::Shape>& parts = m_shapes->m_parts;
    price(parts.embedding, m_parts.embedding);
    price(parts.head, m_parts.head);
    for (std::size_t layer = 0; layer < parts.layers.size(); ++layer) {
        price(parts.layers[layer], m_parts.layers[layer]);
        if (m_sends) price(parts.sending[layer], m_parts.sending[layer]);
    }
    m_kinds = kinds;
}

SlotPiece SlotPieces::priced(const SlotShapes::Shape& shape) const {
    SlotPiece piece;
    std::vector<std::int64_t> times;
    times.reserve(shape.steps.size());
    for (std::size_t i = 0; i < shape.steps.size(); ++i) {
        const LaneStep& step = shape.steps[i];
        const bool message =
            step.kind == LaneStep::Kind::Receive || step.kind == LaneStep::Kind::HandOver;
        times.push_back(message ? 0 : m_durations_ns[shape.keys[i]]);
        if (step.port == Port::Compute && !message) piece.busy_ns += times.back();
        if (step.port == Port::Ep) piece.exchange_ns += times.back();
    }
    // Only the layers that send have a message that compute waits for.
    piece.matrix = laneMatrix(shape.steps, true, times);
    return piece;
}

ChunkSlots SlotPieces::chunk(std::span<const LayerUse> layers, const ChunkEnds& ends,
                             const SlotPieces& plain) const {
    ChunkSlots out;
    for (std::size_t k = 0; k < std::min(m_kinds, plain.m_kinds); ++k) {
        const auto kind = static_cast<Slot::Kind>(k);
        PortTimes lanes{}, compute, hidden;
        compute.fill(kNever);
        hidden.fill(kNever);
        at(compute, Port::Compute) = 0;
        at(hidden, Port::Arrival) = 0;
        walk(kind, layers, ends, m_parts, plain.m_parts, [&](const SlotPiece& piece, bool) {
            lanes = piece.matrix.apply(lanes);
            compute = piece.matrix.apply(compute);
            hidden = piece.matrix.apply(hidden);
            out.busy_ns[k] += piece.busy_ns;
            out.exchange_ns[k] += piece.exchange_ns;
        });
        out.span_ns[k] = freeAt(lanes);
        out.lane_ns[k] = std::max<std::int64_t>(0, at(compute, Port::Compute));
        out.pass_ns[k] = std::max<std::int64_t>(0, at(hidden, Port::Arrival));
        if (kind == Slot::Kind::Backward)
            out.after_pass_ns =
                std::max<std::int64_t>(0, at(lanes, Port::Compute) - at(lanes, Port::Arrival));
    }
    return out;
}

// --- pairs ----------------------------------------------------------------------

/// The steps of one member of a pair, layer after layer.
class SlotPieces::MemberSteps {
public:
    using Shape = SlotShapes::Shape;

    void write(const PairMember& member, const SlotPieces& again, const SlotPieces& plain,
               std::int64_t message_ns) {
        m_message_ns = message_ns;
        walk(member.kind, member.layers, member.ends, again.m_shapes->m_parts,
             plain.m_shapes->m_parts, [&](const Shape& shape, bool of_again) {
                 append(shape, (of_again ? again : plain).m_durations_ns);
             });
        const bool hands_on = member.kind == Slot::Kind::Forward && !member.ends.last;
        if (hands_on && member.sends) send();
    }

    /// [step] of takeTurns().
    [[nodiscard]] std::vector<bool> waits() const {
        std::vector<bool> out;
        out.reserve(m_steps.size());
        for (const LaneStep& step : m_steps)
            out.push_back(computes(step) &&
                          std::ranges::any_of(step.after, [this](std::int32_t id) {
                              return !computes(m_steps[static_cast<std::size_t>(id)]);
                          }));
        return out;
    }
    [[nodiscard]] const LaneStep& step(std::size_t i) const { return m_steps[i]; }
    [[nodiscard]] std::int64_t duration(std::size_t i) const { return m_times[i]; }
    [[nodiscard]] const SlotShapes::StepHeld& held(std::size_t i) const { return m_held[i]; }

private:
    static bool computes(const LaneStep& step) {
        return step.port == Port::Compute && step.kind == LaneStep::Kind::Work;
    }
    void push(LaneStep step, std::int64_t ns, const SlotShapes::StepHeld& held) {
        m_steps.push_back(step);
        m_times.push_back(ns);
        m_held.push_back(held);
    }
    /// What is handed on between layers of the chunk is no step.
    void append(const Shape& shape, const std::vector<std::int64_t>& durations_ns) {
        m_new_id.clear();
        const bool first = m_steps.empty();
        std::int32_t out = -1;
        for (std::size_t i = 0; i < shape.steps.size(); ++i) {
            LaneStep step = shape.steps[i];
            const bool receives = step.kind == LaneStep::Kind::Receive;
            for (std::int32_t& id : step.after) id = m_new_id[static_cast<std::size_t>(id)];
            step.after.removeAll(-1);
            if (step.kind == LaneStep::Kind::HandOver) {
                m_new_id.push_back(-1);
                out = step.after.empty() ? -1 : step.after.back();
                carry(shape.held[i]);
                continue;
            }
            if (receives && !first) {
                m_new_id.push_back(m_out);
                carry(shape.held[i]);
                continue;
            }
            m_new_id.push_back(static_cast<std::int32_t>(m_steps.size()));
            const bool message = step.kind == LaneStep::Kind::Send;
            push(step,
                 receives  ? 0
                 : message ? m_message_ns
                           : durations_ns[shape.keys[i]],
                 shape.held[i]);
        }
        m_out = out;
    }
    /// Bytes of what is no step go to the step before.
    void carry(const SlotShapes::StepHeld& held) {
        if (m_held.empty()) return;
        SlotShapes::StepHeld& last = m_held.back();
        for (std::size_t when = 0; when < 2; ++when) {
            last.peak[1] = std::max(last.peak[1], last.net[1] + held.peak[when]);
            last.net[1] += held.net[when];
        }
    }
    /// The hidden state goes to another rank.
    void send() {
        LaneStep step{LaneStep::Kind::Send, Port::Send, Port::Arrival, {}};
        if (m_out >= 0) step.after.push_back(m_out);
        push(step, m_message_ns, {});
    }

    std::int64_t m_message_ns = 0;
    std::int32_t m_out = -1;  ///< the step whose result the next layer takes
    std::vector<LaneStep> m_steps;
    std::vector<std::int64_t> m_times;
    std::vector<SlotShapes::StepHeld> m_held;
    std::vector<std::int32_t> m_new_id;  ///< of the layer at hand
};

PairSlots SlotPieces::pair(const std::array<PairMember, 2>& members, const SlotPieces& plain,
                           std::int64_t message_ns, bool blocking) const {
    std::array<MemberSteps, 2> sides;
    for (std::size_t m = 0; m < 2; ++m) sides[m].write(members[m], *this, plain, message_ns);
    const std::vector<std::uint8_t> order = takeTurns(sides[0].waits(), sides[1].waits());
    std::vector<LaneStep> steps;
    std::vector<std::int64_t> times;
    steps.reserve(order.size());
    times.reserve(order.size());
    std::array<std::vector<std::int32_t>, 2> new_id;
    PairSlots out;
    for (const std::uint8_t m : order) {
        const std::size_t i = new_id[m].size();
        LaneStep& step = steps.emplace_back(sides[m].step(i));
        step.arrival = arrivalPort(m);
        for (std::int32_t& id : step.after) id = new_id[m][static_cast<std::size_t>(id)];
        new_id[m].push_back(static_cast<std::int32_t>(steps.size() - 1));
        times.push_back(sides[m].duration(i));
        if (step.port == Port::Compute && step.kind == LaneStep::Kind::Work)
            out.busy_ns += times.back();
        if (step.port == Port::Ep) out.exchange_ns += times.back();
        const SlotShapes::StepHeld& held = sides[m].held(i);
        for (std::size_t when = 0; when < 2; ++when) {
            out.peak = std::max(out.peak, out.net + held.peak[when]);
            out.net += held.net[when];
        }
    }
    constexpr auto compute = static_cast<std::size_t>(Port::Compute);
    const LaneMatrix matrix = laneMatrix(steps, blocking, times);
    out.span_ns = freeAt(matrix.apply(PortTimes{}));
    out.lane_ns = std::max<std::int64_t>(0, matrix.rows[compute][compute]);
    return out;
}

}  // namespace piper
