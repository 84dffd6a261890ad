// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "core/schedule/schedule.h"

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

/// Plays the slots with tokens: a slot runs when what it needs has run. What can never run is a
/// deadlock; what runs twice or never is a fault of its own.
class TokenGame {
public:
    TokenGame(const SlotTable& slots, std::int64_t vpp, std::int64_t num_microbatches)
        : m_slots(slots),
          m_vpp(vpp),
          m_microbatches(num_microbatches),
          m_done(static_cast<std::size_t>(vpp * num_microbatches) * slots.size()) {}

    std::vector<Error> play() {
        checkContent();
        if (m_faults.empty()) run();
        return std::move(m_faults);
    }

private:
    struct Progress {
        int forward = 0, input_grad = 0, weight_grad = 0;
    };

    std::size_t place(std::size_t stage, std::int64_t chunk, std::int64_t micro_batch) const {
        return (stage * static_cast<std::size_t>(m_vpp) + static_cast<std::size_t>(chunk)) *
                   static_cast<std::size_t>(m_microbatches) +
               static_cast<std::size_t>(micro_batch);
    }

    void count(std::size_t stage, const Slot& slot, std::vector<Progress>& seen) {
        if (slot.micro_batch.value < 0 || slot.micro_batch.value >= m_microbatches ||
            slot.model_chunk.value < 0 || slot.model_chunk.value >= m_vpp) {
            m_faults.push_back(fail(ErrorCode::RuleBroken,
                                    "{} is out of range: {} micro-batches, {} chunks",
                                    slotText(stage, slot), m_microbatches, m_vpp));
            return;
        }
        Progress& p = seen[place(stage, slot.model_chunk.value, slot.micro_batch.value)];
        if (slot.kind == Slot::Kind::Forward) ++p.forward;
        if (slot.kind == Slot::Kind::Backward || slot.kind == Slot::Kind::InputGrad) ++p.input_grad;
        if (slot.kind == Slot::Kind::Backward || slot.kind == Slot::Kind::WeightGrad)
            ++p.weight_grad;
    }

    /// Every stage chunk has each micro-batch exactly once in each direction.
    void checkContent() {
        std::vector<Progress> seen(m_done.size());
        for (std::size_t s = 0; s < m_slots.size(); ++s)
            for (const Slot& slot : m_slots[s]) count(s, slot, seen);
        for (std::size_t s = 0; s < m_slots.size(); ++s)
            for (std::int64_t v = 0; v < m_vpp; ++v)
                for (std::int64_t m = 0; m < m_microbatches; ++m) {
                    const Progress& p = seen[place(s, v, m)];
                    if (p.forward == 1 && p.input_grad == 1 && p.weight_grad == 1) continue;
                    m_faults.push_back(
                        fail(ErrorCode::RuleBroken,
                             "stage {}, chunk {}, micro-batch {}: {} forwards, {} input gradients "
                             "and {} weight gradients; each must be there once",
                             s, v, m, p.forward, p.input_grad, p.weight_grad));
                }
    }

    bool forwardReady(std::size_t stage, std::int64_t chunk, std::int64_t m) const {
        if (stage > 0) return m_done[place(stage - 1, chunk, m)].forward > 0;
        return chunk == 0 || m_done[place(m_slots.size() - 1, chunk - 1, m)].forward > 0;
    }
    bool gradientReady(std::size_t stage, std::int64_t chunk, std::int64_t m) const {
        if (stage + 1 < m_slots.size()) return m_done[place(stage + 1, chunk, m)].input_grad > 0;
        return chunk + 1 == m_vpp || m_done[place(0, chunk + 1, m)].input_grad > 0;
    }

    bool ready(std::size_t stage, const Slot& slot) const {
        const std::int64_t chunk = slot.model_chunk.value, m = slot.micro_batch.value;
        const Progress& own = m_done[place(stage, chunk, m)];
        switch (slot.kind) {
            case Slot::Kind::Forward:
                return forwardReady(stage, chunk, m);
            case Slot::Kind::Backward:
            case Slot::Kind::InputGrad:
                return own.forward > 0 && gradientReady(stage, chunk, m);
            case Slot::Kind::WeightGrad:
                return own.input_grad > 0;
        }
        return false;
    }

    void finish(std::size_t stage, const Slot& slot) {
        Progress& own = m_done[place(stage, slot.model_chunk.value, slot.micro_batch.value)];
        if (slot.kind == Slot::Kind::Forward) ++own.forward;
        if (slot.kind == Slot::Kind::Backward || slot.kind == Slot::Kind::InputGrad)
            ++own.input_grad;
        if (slot.kind == Slot::Kind::Backward || slot.kind == Slot::Kind::WeightGrad)
            ++own.weight_grad;
    }

    void run() {
        std::vector<std::size_t> next(m_slots.size(), 0);
        bool moved = true;
        while (moved) {
            moved = false;
            for (std::size_t s = 0; s < m_slots.size(); ++s)
                while (next[s] < m_slots[s].size() && ready(s, m_slots[s][next[s]])) {
                    finish(s, m_slots[s][next[s]++]);
                    moved = true;
                }
        }
        for (std::size_t s = 0; s < m_slots.size(); ++s) {
            if (next[s] == m_slots[s].size()) continue;
            const Slot& slot = m_slots[s][next[s]];
            m_faults.push_back(fail(ErrorCode::RuleBroken, "{} (slot {}) waits for ever: {}",
                                    slotText(s, slot), next[s], reason(s, slot)));
        }
    }

    std::string_view reason(std::size_t stage, const Slot& slot) const {
        const bool has_forward =
            m_done[place(stage, slot.model_chunk.value, slot.micro_batch.value)].forward > 0;
        if (slot.kind == Slot::Kind::Forward) return "the stage before it never sends";
        if (slot.kind == Slot::Kind::WeightGrad) return "its input gradient comes later";
        return has_forward ? "the stage after it never returns the gradient"
                           : "its forward comes later";
    }

    const SlotTable& m_slots;
    std::int64_t m_vpp, m_microbatches;
    std::vector<Progress> m_done;  ///< [stage][chunk][micro-batch]
    std::vector<Error> m_faults;
};

}  // namespace

std::vector<Error> validateSlots(const SlotTable& slots, std::int64_t vpp,
                                 std::int64_t num_microbatches) {
    if (slots.empty() || vpp < 1 || num_microbatches < 1)
        return {fail(ErrorCode::RuleBroken,
                     "a slot table needs at least one stage, chunk and micro-batch; got {}, {}, {}",
                     slots.size(), vpp, num_microbatches)};
    return TokenGame(slots, vpp, num_microbatches).play();
}

}  // namespace piper
