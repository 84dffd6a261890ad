// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <deque>
#include <map>
#include <string_view>

#include "core/schedule/slot_form.h"

// Concept: the slots are played with tokens. A slot runs when what it needs has run; its message
// goes into the channel (from, to, pass), which is a queue without room for reordering: a receiver
// takes the head or waits. What can never run is a deadlock. Sends do not hold their rank, so a
// table that passes needs no buffer beyond its channels' order and cannot hang with rendezvous
// messages either: the oldest unreceived message of a rank that has not finished is always one that
// its receiver asks for, or the game would have stopped there.

namespace piper {
namespace {

std::string_view slotName(Slot::Kind kind) {
    switch (kind) {
        case Slot::Kind::Forward:
            return "forward";
        case Slot::Kind::Backward:
            return "backward";
        case Slot::Kind::InputGrad:
            return "input_grad";
        case Slot::Kind::WeightGrad:
            return "weight_grad";
    }
    return "slot";
}

std::string slotText(std::size_t stage, const Slot& slot) {
    return fmt::format("stage {}: {} of micro-batch {}, chunk {}", stage, slotName(slot.kind),
                       slot.micro_batch.value, slot.model_chunk.value);
}

bool hasGradient(Slot::Kind kind) {
    return kind == Slot::Kind::Backward || kind == Slot::Kind::InputGrad;
}
bool hasWeight(Slot::Kind kind) {
    return kind == Slot::Kind::Backward || kind == Slot::Kind::WeightGrad;
}

class TokenGame {
public:
    TokenGame(const SlotTable& slots, const PipelineShape& shape)
        : m_slots(slots),
          m_shape(shape),
          m_done(slots.size() * static_cast<std::size_t>(shape.chunks() * shape.num_microbatches)) {
    }

    std::vector<Error> play() {
        checkContent();
        checkPairs();
        if (m_faults.empty()) run();
        return std::move(m_faults);
    }

private:
    struct Progress {
        int forward = 0, input_grad = 0, weight_grad = 0;
    };
    struct Message {
        ModelChunkId chunk;
        MicroBatchId micro_batch;
        bool operator==(const Message&) const = default;
    };
    struct Channel {
        std::int32_t from = 0, to = 0;
        bool forward = true;
        auto operator<=>(const Channel&) const = default;
    };

    std::size_t place(std::size_t stage, ModelChunkId chunk, std::int64_t micro_batch) const {
        return (stage * static_cast<std::size_t>(m_shape.chunks()) + chunk.index()) *
                   static_cast<std::size_t>(m_shape.num_microbatches) +
               static_cast<std::size_t>(micro_batch);
    }
    Progress& progress(std::size_t stage, const Slot& slot) {
        return m_done[place(stage, slot.model_chunk, slot.micro_batch.value)];
    }

    // --- what is there -------------------------------------------------------------------------

    void count(std::size_t stage, const Slot& slot, std::vector<Progress>& seen) {
        const std::int64_t m = slot.micro_batch.value;
        bool known = slot.model_chunk.value >= 0 && slot.model_chunk.value < m_shape.chunks();
        if (known) {
            const MicroBatchRange range = microBatchesOf(m_shape, slot.model_chunk);
            known = m >= range.begin && m < range.end;
        }
        if (!known) {
            m_faults.push_back(
                fail(ErrorCode::RuleBroken, "{} is out of range: {} micro-batches, {} chunks",
                     slotText(stage, slot), m_shape.num_microbatches, m_shape.chunks()));
            return;
        }
        Progress& p = seen[place(stage, slot.model_chunk, m)];
        if (slot.kind == Slot::Kind::Forward) ++p.forward;
        if (hasGradient(slot.kind)) ++p.input_grad;
        if (hasWeight(slot.kind)) ++p.weight_grad;
    }

    void checkContent() {
        std::vector<Progress> seen(m_done.size());
        for (std::size_t s = 0; s < m_slots.size(); ++s)
            for (const Slot& slot : m_slots[s]) count(s, slot, seen);
        for (std::size_t s = 0; s < m_slots.size(); ++s)
            for (std::int32_t v = 0; v < m_shape.chunks(); ++v) {
                const MicroBatchRange range = microBatchesOf(m_shape, ModelChunkId(v));
                for (std::int64_t m = range.begin; m < range.end; ++m) {
                    const Progress& p = seen[place(s, ModelChunkId(v), m)];
                    if (p.forward == 1 && p.input_grad == 1 && p.weight_grad == 1) continue;
                    m_faults.push_back(
                        fail(ErrorCode::RuleBroken,
                             "stage {}, chunk {}, micro-batch {}: {} forwards, {} input gradients "
                             "and {} weight gradients; each must be there once",
                             s, v, m, p.forward, p.input_grad, p.weight_grad));
                }
            }
    }

    /// A pair is a forward and a backward of different micro-batches, or of chunks that do not
    /// follow each other in it: neither may need what the other makes.
    void checkPairs() {
        for (std::size_t s = 0; s < m_slots.size(); ++s)
            for (std::size_t i = 0; i < m_slots[s].size(); ++i) {
                const Slot& slot = m_slots[s][i];
                if (!slot.with_previous) continue;
                const bool alone = i == 0 || m_slots[s][i - 1].with_previous;
                if (!alone && m_slots[s][i - 1].kind == Slot::Kind::Forward &&
                    hasGradient(slot.kind) && m_slots[s][i - 1].micro_batch != slot.micro_batch)
                    continue;
                m_faults.push_back(
                    fail(ErrorCode::RuleBroken,
                         "{} (slot {}) runs with the slot before it, which must be the forward of "
                         "another micro-batch and in no other pair",
                         slotText(s, slot), i));
            }
    }

    // --- the game ------------------------------------------------------------------------------

    /// Who sends what this slot takes; itself for what it makes from nothing.
    std::optional<ChunkSeat> source(std::size_t stage, const Slot& slot) const {
        const ChunkSeat seat{StageId(stage), slot.model_chunk};
        return slot.kind == Slot::Kind::Forward ? seatBefore(m_shape, seat)
                                                : seatAfter(m_shape, seat);
    }

    bool hasInput(std::size_t stage, const Slot& slot) {
        const std::optional<ChunkSeat> from = source(stage, slot);
        if (!from) return true;
        const bool forward = slot.kind == Slot::Kind::Forward;
        if (from->stage.index() == stage) {
            const Progress& p = m_done[place(stage, from->chunk, slot.micro_batch.value)];
            return (forward ? p.forward : p.input_grad) > 0;
        }
        const auto& queue =
            m_channels[{from->stage.value, static_cast<std::int32_t>(stage), forward}];
        return !queue.empty() && queue.front() == Message{slot.model_chunk, slot.micro_batch};
    }

    bool ready(std::size_t stage, const Slot& slot) {
        const Progress& own = progress(stage, slot);
        switch (slot.kind) {
            case Slot::Kind::Forward:
                return hasInput(stage, slot);
            case Slot::Kind::Backward:
            case Slot::Kind::InputGrad:
                return own.forward > 0 && hasInput(stage, slot);
            case Slot::Kind::WeightGrad:
                return own.input_grad > 0;
        }
        return false;
    }

    void finish(std::size_t stage, const Slot& slot) {
        const bool forward = slot.kind == Slot::Kind::Forward;
        Progress& own = progress(stage, slot);
        if (forward) ++own.forward;
        if (hasGradient(slot.kind)) ++own.input_grad;
        if (hasWeight(slot.kind)) ++own.weight_grad;
        if (slot.kind == Slot::Kind::WeightGrad) return;
        const auto here = static_cast<std::int32_t>(stage);
        if (const auto from = source(stage, slot); from && from->stage.index() != stage)
            m_channels[{from->stage.value, here, forward}].pop_front();
        const ChunkSeat seat{StageId(stage), slot.model_chunk};
        const auto to = forward ? seatAfter(m_shape, seat) : seatBefore(m_shape, seat);
        if (to && to->stage.index() != stage)
            m_channels[{here, to->stage.value, forward}].push_back({to->chunk, slot.micro_batch});
    }

    /// Runs the next slot, or pair, of a stage.
    bool step(std::size_t stage, std::size_t& next) {
        const std::vector<Slot>& row = m_slots[stage];
        if (next == row.size() || !ready(stage, row[next])) return false;
        const bool pair = next + 1 < row.size() && row[next + 1].with_previous;
        if (pair && !ready(stage, row[next + 1])) return false;
        finish(stage, row[next++]);
        if (pair) finish(stage, row[next++]);
        return true;
    }

    void run() {
        std::vector<std::size_t> next(m_slots.size(), 0);
        bool moved = true;
        while (moved) {
            moved = false;
            for (std::size_t s = 0; s < m_slots.size(); ++s)
                while (step(s, next[s])) moved = true;
        }
        for (std::size_t s = 0; s < m_slots.size(); ++s) {
            if (next[s] == m_slots[s].size()) continue;
            std::size_t at = next[s];
            if (ready(s, m_slots[s][at])) ++at;  // the second of its pair waits
            const Slot& slot = m_slots[s][at];
            m_faults.push_back(fail(ErrorCode::RuleBroken, "{} (slot {}) waits for ever: {}",
                                    slotText(s, slot), at, reason(s, slot)));
        }
    }

    std::string reason(std::size_t stage, const Slot& slot) {
        const Progress& own = progress(stage, slot);
        if (slot.kind == Slot::Kind::WeightGrad) return "its input gradient comes later";
        if (hasGradient(slot.kind) && own.forward == 0) return "its forward comes later";
        const auto from = source(stage, slot);
        const bool forward = slot.kind == Slot::Kind::Forward;
        if (from && from->stage.index() != stage) {
            const auto& queue =
                m_channels[{from->stage.value, static_cast<std::int32_t>(stage), forward}];
            if (!queue.empty())
                return fmt::format("stage {} sends micro-batch {} of chunk {} first",
                                   from->stage.value, queue.front().micro_batch.value,
                                   queue.front().chunk.value);
        }
        return forward ? "the stage before it never sends"
                       : "the stage after it never returns the gradient";
    }

    const SlotTable& m_slots;
    PipelineShape m_shape;
    std::vector<Progress> m_done;  ///< [stage][chunk][micro-batch]
    std::map<Channel, std::deque<Message>> m_channels;
    std::vector<Error> m_faults;
};

std::vector<Error> playTokens(const SlotTable& slots, const PipelineShape& shape) {
    if (slots.empty() || shape.chunks() < 1 || shape.num_microbatches < 1)
        return {fail(ErrorCode::RuleBroken,
                     "a slot table needs at least one stage, chunk and micro-batch; got {}, {}, {}",
                     slots.size(), shape.chunks(), shape.num_microbatches)};
    if (slots.size() != static_cast<std::size_t>(shape.pp))
        return {fail(ErrorCode::RuleBroken, "a slot table of {} stages for pp {}", slots.size(),
                     shape.pp)};
    return TokenGame(slots, shape).play();
}

}  // namespace

std::vector<Error> validateSlots(const SlotTable& slots, const PipelineShape& shape) {
    std::vector<Error> faults = playTokens(slots, shape);
    const std::vector<std::int64_t> held = inFlight(slots);
    for (std::size_t s = 0; s < held.size() && s < static_cast<std::size_t>(shape.pp); ++s) {
        const std::int64_t bound = inFlightBound(shape, StageId(s));
        if (held[s] <= bound) continue;
        faults.push_back(fail(ErrorCode::RuleBroken,
                              "stage {} holds {} micro-batch chunks at once; {} holds at most {}",
                              s, held[s], toText(shape.kind), bound));
    }
    return faults;
}

std::vector<Error> validateSlots(const SlotTable& slots, std::int64_t vpp,
                                 std::int64_t num_microbatches) {
    return playTokens(slots, {ScheduleKind::InterleavedOneF1B,
                              static_cast<std::int64_t>(slots.size()), vpp, num_microbatches});
}

}  // namespace piper
