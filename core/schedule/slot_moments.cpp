// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/slot_moments.h"

#include <algorithm>
#include <utility>

#include "core/schedule/schedule.h"

namespace piper {
namespace {

bool holdsNoMore(const SlotMoment& a, const SlotMoment& b) {
    for (std::size_t c = 0; c < kChunkClasses; ++c)
        if (a.whole[c] > b.whole[c] || a.late[c] > b.late[c]) return false;
    return true;
}

/// Walks the slots of one rank.
class Walk {
public:
    explicit Walk(std::int64_t chunks) : m_chunks(chunks) {}

    void slot(const SlotForm& form) {
        const std::size_t number = numberOf(form);
        ++m_out.forms[number].count;
        m_now.form = m_stands_for[number];
        keep(m_now);
        pass(form.kind, form.chunk);
        if (form.paired) pass(form.second_kind, form.second_chunk);
    }
    [[nodiscard]] RankMoments take() {
        RankMoments out = std::move(m_out);
        for (std::vector<SlotMoment>& moments : m_moments)
            std::ranges::move(moments, std::back_inserter(out.moments));
        return out;
    }

private:
    [[nodiscard]] ChunkClass classOf(ModelChunkId chunk) const {
        return chunkClass(chunk.value, m_chunks);
    }
    [[nodiscard]] bool alike(const SlotForm& a, const SlotForm& b) const {
        return a.kind == b.kind && a.paired == b.paired && classOf(a.chunk) == classOf(b.chunk) &&
               (!a.paired || (a.second_kind == b.second_kind &&
                              classOf(a.second_chunk) == classOf(b.second_chunk)));
    }
    std::size_t numberOf(const SlotForm& form) {
        auto& forms = m_out.forms;
        const auto known = std::ranges::find(forms, form, &RankMoments::FormCount::form);
        if (known != forms.end()) return static_cast<std::size_t>(known - forms.begin());
        const auto like = std::ranges::find_if(
            forms, [&](const RankMoments::FormCount& f) { return alike(f.form, form); });
        m_stands_for.push_back(static_cast<std::uint32_t>(like - forms.begin()));
        forms.push_back({form, 0});
        m_moments.emplace_back();
        return forms.size() - 1;
    }
    void keep(const SlotMoment& moment) {
        std::vector<SlotMoment>& of = m_moments[moment.form];
        for (const SlotMoment& other : of)
            if (holdsNoMore(moment, other)) return;
        std::erase_if(of, [&](const SlotMoment& other) { return holdsNoMore(other, moment); });
        of.push_back(moment);
    }
    void pass(Slot::Kind kind, ModelChunkId chunk) {
        const auto c = static_cast<std::size_t>(classOf(chunk));
        if (kind == Slot::Kind::Forward) ++m_now.whole[c];
        if (kind == Slot::Kind::Backward || kind == Slot::Kind::InputGrad) --m_now.whole[c];
        if (kind == Slot::Kind::InputGrad) ++m_now.late[c];
        if (kind == Slot::Kind::WeightGrad) --m_now.late[c];
    }

    std::int64_t m_chunks;
    SlotMoment m_now;
    RankMoments m_out;
    std::vector<std::uint32_t> m_stands_for;
    std::vector<std::vector<SlotMoment>> m_moments;  ///< [form]
};

}  // namespace

Result<std::vector<RankMoments>> slotMoments(const PipelineShape& shape) {
    PIPER_ASSIGN(const SlotTable slots, makeSlots(shape));
    std::vector<RankMoments> out;
    out.reserve(slots.size());
    for (const std::vector<Slot>& row : slots) {
        Walk walk(shape.chunks());
        forEachForm(row,
                    [&walk](const SlotForm& form, const Slot&, const Slot*) { walk.slot(form); });
        out.push_back(walk.take());
    }
    return out;
}

const SlotMomentsTable::Moments& SlotMomentsTable::of(const PipelineShape& shape) {
    const auto [found, added] = m_known.try_emplace(shape);
    if (!added) return found->second;
    if (Result<Moments> made = slotMoments(shape); made.ok())
        found->second = std::move(made).value();
    return found->second;
}

const SlotMomentsTable::Moments* SlotMomentsTable::find(const PipelineShape& shape) const {
    const auto found = m_known.find(shape);
    return found == m_known.end() ? nullptr : &found->second;
}

void SlotMomentsTable::add(const PipelineShape& shape, Moments moments) {
    m_known.insert_or_assign(shape, std::move(moments));
}

}  // namespace piper
