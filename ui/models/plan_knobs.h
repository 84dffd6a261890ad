// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace piper::ui {

/// What a user drags. Growing the plan page is one row in the table of plan_knobs.cpp.
enum class Knob {
    NumExperts,
    RouterTopk,
    ExpertWidth,
    Layers,
    Tp,
    Cp,
    Pp,
    Vpp,
    Ep,
    Etp,
    Dp,
    MicroBatch,
    GlobalBatch,
    SeqLen,
    Chunks
};

struct KnobInfo {
    Knob knob;
    const char* key;    ///< as in the plan file
    const char* label;  ///< as on the page
    const char* unit;
    const char* definition;
    std::int64_t (*get)(const Plan&);
    void (*set)(Plan&, std::int64_t);
};

[[nodiscard]] std::span<const KnobInfo> knobTable();
[[nodiscard]] const KnobInfo& knobInfo(Knob knob);

/// The plan with that value; what must follow it does: dp follows from the world when another
/// degree changes, a placement or histogram of another expert count is dropped.
[[nodiscard]] Plan withKnob(const Plan& plan, Knob knob, std::int64_t value);

/// Every value of the knob that validatePlan accepts with the rest of the plan, in order.
[[nodiscard]] std::vector<std::int64_t> legalValues(const Plan& plan, Knob knob);

/// Why a value is not legal, in one line with the neighbours that are; empty when it is.
[[nodiscard]] std::string explainIllegal(const Plan& plan, Knob knob, std::int64_t value);

/// The legal value nearest to `value`, by ratio; `value` itself when the list is empty.
[[nodiscard]] std::int64_t nearestLegal(std::span<const std::int64_t> legal, std::int64_t value);

}  // namespace piper::ui
