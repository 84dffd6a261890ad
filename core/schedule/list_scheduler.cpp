// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <optional>

#include "core/schedule/slot_generators.h"

// Concept: the automatic scheduler of zero bubble (arXiv 2401.10241, section 3.1) for stages of any
// times. All ranks are played at once, the action that starts first is taken first. A rank takes a
// forward or an input gradient whose message is there; when none is, a weight gradient fills the
// gap if the gap is known to be long enough; forwards stop at the bound of activations in flight.
// Either forwards and input gradients take turns after a warm-up, whoever is late is waited for
// (Strict), or what is there first goes first (Free). That, the length of the warm-up and how much
// of a weight gradient a gap must hold are tried out; the soonest done wins, so the result is never
// worse than the fixed layout.

namespace piper {
namespace {

constexpr std::int64_t kNotYet = std::numeric_limits<std::int64_t>::max();

struct Taste {
    enum class Turns { Strict, Free } turns = Turns::Strict;
    std::int64_t more_warmup = 0;  ///< forwards beyond those 1F1B takes before its first backward
    double gap_share = 1.0;        ///< of a weight gradient that a gap must hold
};

/// The micro-batches of one seat: how far each kind is, and when the next may start.
struct SeatState {
    std::int64_t forwards = 0, gradients = 0, weights = 0;
    std::vector<std::int64_t> forward_ready, gradient_ready;  ///< [micro-batch], kNotYet
};

struct Action {
    Slot::Kind kind = Slot::Kind::Forward;
    std::size_t chunk = 0;
    std::int64_t start = kNotYet;
};

class ListScheduler {
public:
    ListScheduler(const PipelineShape& shape, const SlotTimes& times, Taste taste)
        : m_shape(shape),
          m_times(times),
          m_taste(taste),
          m_chunks(static_cast<std::size_t>(shape.chunks())),
          m_ranks(static_cast<std::size_t>(shape.pp)) {
        const auto m = static_cast<std::size_t>(shape.num_microbatches);
        for (std::size_t s = 0; s < m_ranks.size(); ++s) {
            m_ranks[s].bound = inFlightBound(shape, StageId(s));
            for (std::size_t c = 0; c < m_chunks; ++c) {
                SeatState seat;
                const bool first = !seatBefore(shape, {StageId(s), ModelChunkId(c)});
                seat.forward_ready.assign(m, first ? 0 : kNotYet);
                seat.gradient_ready.assign(m, kNotYet);
                m_ranks[s].seats.push_back(std::move(seat));
            }
        }
    }

    /// Nullopt when the bound stops every rank.
    std::optional<SlotTable> make() {
        for (std::size_t s = 0; s < m_ranks.size(); ++s) m_ranks[s].next = choose(s);
        const auto total =
            static_cast<std::int64_t>(3 * m_ranks.size() * m_chunks) * m_shape.num_microbatches;
        for (std::int64_t done = 0; done < total; ++done) {
            const auto rank =
                std::ranges::min_element(m_ranks, {}, [](const Rank& r) { return r.next.start; });
            if (rank->next.start == kNotYet) return std::nullopt;
            take(static_cast<std::size_t>(rank - m_ranks.begin()));
        }
        SlotTable table;
        for (Rank& rank : m_ranks) table.push_back(std::move(rank.row));
        return table;
    }

private:
    struct Rank {
        std::vector<SeatState> seats;
        std::vector<std::size_t> put_off;  ///< chunks of weight gradients to do
        std::size_t put_off_done = 0;
        std::int64_t free = 0, held = 0, bound = 0, forwards = 0;
        bool last_was_forward = false;
        Action next;
        std::vector<Slot> row;
    };

    /// The first seat of the fold must leave room for one micro-batch to come back up.
    [[nodiscard]] bool hasRoom(const Rank& rank, std::size_t chunk) const {
        const auto later = static_cast<std::int64_t>(m_chunks - 1 - chunk);
        return rank.held + std::min<std::int64_t>(1, later) < rank.bound;
    }

    [[nodiscard]] Action earliest(const Rank& rank, Slot::Kind kind) const {
        Action best{kind, 0, kNotYet};
        for (std::size_t c = m_chunks; c-- > 0;) {  // of equals the one further on
            const SeatState& seat = rank.seats[c];
            const bool forward = kind == Slot::Kind::Forward;
            const std::int64_t n = forward ? seat.forwards : seat.gradients;
            if (n == m_shape.num_microbatches || (forward && !hasRoom(rank, c))) continue;
            const auto at = static_cast<std::size_t>(n);
            const std::int64_t ready = forward ? seat.forward_ready[at] : seat.gradient_ready[at];
            if (ready == kNotYet) continue;
            const std::int64_t start = std::max(ready, rank.free);
            if (start < best.start) best = {kind, c, start};
        }
        return best;
    }

    /// Forwards of a rank before its first gradient: of 1F1B pp - stage; of a fold all down, and up
    /// to where the first comes back.
    [[nodiscard]] std::int64_t warmup(std::size_t stage) const {
        const std::int64_t left = m_shape.pp - static_cast<std::int64_t>(stage);
        const std::int64_t own = m_chunks == 1 ? left : 2 * m_shape.pp - left + 1;
        return own + m_taste.more_warmup * (m_chunks == 1 ? left : 1);
    }

    /// The forward or gradient that comes next; its start is kNotYet while it is not known.
    [[nodiscard]] Action wanted(std::size_t stage) const {
        const Rank& rank = m_ranks[stage];
        const Action forward = earliest(rank, Slot::Kind::Forward);
        const Action gradient = earliest(rank, Slot::Kind::InputGrad);
        const bool strict = m_taste.turns == Taste::Turns::Strict && hasForwards(rank);
        if (!strict || !hasRoom(rank, m_chunks - 1))
            return forward.start < gradient.start ? forward : gradient;
        if (rank.forwards < warmup(stage)) return forward;
        return rank.last_was_forward ? gradient : forward;
    }

    [[nodiscard]] bool hasForwards(const Rank& rank) const {
        return rank.forwards < m_shape.num_microbatches * static_cast<std::int64_t>(m_chunks);
    }

    [[nodiscard]] Action choose(std::size_t stage) const {
        const Rank& rank = m_ranks[stage];
        const Action next = wanted(stage);
        if (next.start <= rank.free || rank.put_off_done == rank.put_off.size()) return next;
        const std::size_t chunk = rank.put_off[rank.put_off_done];
        const auto needed = static_cast<std::int64_t>(
            m_taste.gap_share *
            static_cast<double>(m_times.of(m_shape, stage, ModelChunkId(chunk)).weight_grad_ns));
        if (next.start != kNotYet && next.start - rank.free < needed) return next;
        return {Slot::Kind::WeightGrad, chunk, rank.free};
    }

    void take(std::size_t stage) {
        Rank& rank = m_ranks[stage];
        const Action action = rank.next;
        SeatState& seat = rank.seats[action.chunk];
        const SeatTimes& times = m_times.of(m_shape, stage, ModelChunkId(action.chunk));
        std::int64_t nth = 0;
        switch (action.kind) {
            case Slot::Kind::Forward:
                nth = seat.forwards++;
                ++rank.forwards;
                ++rank.held;
                rank.free = action.start + times.forward_ns;
                tell(stage, action.chunk, nth, true);
                break;
            case Slot::Kind::WeightGrad:
                nth = seat.weights++;
                ++rank.put_off_done;
                --rank.held;
                rank.free = action.start + times.weight_grad_ns;
                break;
            default:
                nth = seat.gradients++;
                rank.put_off.push_back(action.chunk);
                rank.free = action.start + times.input_grad_ns;
                tell(stage, action.chunk, nth, false);
        }
        if (action.kind != Slot::Kind::WeightGrad)
            rank.last_was_forward = action.kind == Slot::Kind::Forward;
        rank.row.push_back({action.kind, MicroBatchId(static_cast<std::int32_t>(nth)),
                            ModelChunkId(action.chunk), PipelinePhase::Steady, false});
        rank.next = choose(stage);
    }

    /// The result of a seat reaches the next one; at the last the gradient starts from the loss.
    void tell(std::size_t stage, std::size_t chunk, std::int64_t nth, bool forward) {
        const ChunkSeat seat{StageId(stage), ModelChunkId(chunk)};
        const auto at = static_cast<std::size_t>(nth);
        const std::int64_t now = m_ranks[stage].free;
        const std::optional<ChunkSeat> to =
            forward ? seatAfter(m_shape, seat) : seatBefore(m_shape, seat);
        if (!to) {
            if (forward) m_ranks[stage].seats[chunk].gradient_ready[at] = now;
            return;
        }
        SeatState& there = m_ranks[to->stage.index()].seats[to->chunk.index()];
        const std::int64_t arrival = to->stage == seat.stage ? now : now + m_times.message_ns;
        (forward ? there.forward_ready : there.gradient_ready)[at] = arrival;
        if (to->stage != seat.stage) m_ranks[to->stage.index()].next = choose(to->stage.index());
    }

    const PipelineShape& m_shape;
    const SlotTimes& m_times;
    Taste m_taste;
    std::size_t m_chunks;
    std::vector<Rank> m_ranks;
};

}  // namespace

SlotTable tuneZeroBubble(const PipelineShape& shape, const SlotTimes& times, SlotTable fixed) {
    const auto makespan = [&](const SlotTable& table) {
        const Result<SlotTiming> timing = timeSlots(table, shape, times);
        return timing.ok() ? timing->makespan() : kNotYet;
    };
    SlotTable best = std::move(fixed);
    std::int64_t soonest = makespan(best);
    const auto consider = [&](const Taste& taste) {
        std::optional<SlotTable> table = ListScheduler(shape, times, taste).make();
        if (!table) return;
        const std::int64_t done = makespan(*table);
        if (done >= soonest) return;
        soonest = done;
        best = std::move(*table);
    };
    for (const double gap_share : {1.0, 0.5, 0.0}) {
        consider({Taste::Turns::Free, 0, gap_share});
        for (const std::int64_t more : {0, 1}) consider({Taste::Turns::Strict, more, gap_share});
    }
    return best;
}

}  // namespace piper
