// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/plan/plan.h"

namespace piper::ui {

/// What a user picks from a short list.
enum class Choice { Schedule, Recompute, ZeroStage, RoutingSkew };
inline constexpr std::size_t kNumChoices = 4;

struct ChoiceInfo {
    Choice choice;
    const char* key;  ///< as in the plan file
    const char* label;
    const char* definition;
};
[[nodiscard]] std::span<const ChoiceInfo> choiceTable();

struct ChoiceOption {
    std::string label;
    std::string reason;  ///< why the rules refuse it with the rest of the plan; empty when legal
    bool current = false;
};

/// All options, legal or not. A plan with a setting outside the list (a recorded routing load,
/// another set of recomputed modules) has that as its last, current option.
[[nodiscard]] std::vector<ChoiceOption> choiceOptions(const Plan& plan, Choice choice);

/// The plan with that option; what must follow it does: a schedule brings the chunks a stage that
/// it needs. The option outside the list leaves the plan as it is.
[[nodiscard]] Plan withChoice(const Plan& plan, Choice choice, std::size_t option);

}  // namespace piper::ui
