// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <vector>

#include "core/schedule/schedule.h"

namespace piper {

/// What slots of a stage have in common that run the same operations: kind and chunk; of a pair
/// those of both.
struct SlotForm {
    Slot::Kind kind = Slot::Kind::Forward;
    ModelChunkId chunk;
    bool paired = false;
    Slot::Kind second_kind = Slot::Kind::Forward;
    ModelChunkId second_chunk;
    auto operator<=>(const SlotForm&) const = default;
};

/// Calls visit(form, first slot, second slot or null) for every slot and pair of a row in order.
template <class Visit>
void forEachForm(const std::vector<Slot>& row, const Visit& visit) {
    for (std::size_t i = 0; i < row.size(); ++i) {
        SlotForm form{row[i].kind, row[i].model_chunk, false, Slot::Kind::Forward, ModelChunkId()};
        if (i + 1 == row.size() || !row[i + 1].with_previous) {
            visit(form, row[i], static_cast<const Slot*>(nullptr));
            continue;
        }
        form.paired = true;
        form.second_kind = row[i + 1].kind;
        form.second_chunk = row[i + 1].model_chunk;
        visit(form, row[i], &row[i + 1]);
        ++i;
    }
}

}  // namespace piper
