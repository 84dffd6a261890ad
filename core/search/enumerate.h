// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/search/search.h"

namespace piper {

class SearchChoices;
struct SearchPoint;

/// Keys of SearchSpace::fixed.
[[nodiscard]] const std::vector<std::string_view>& searchKeys();
/// Errors: InvalidInput names the key, the nearest known one and all known ones.
[[nodiscard]] Status checkFixed(const SearchSpace& space);

/// Every combination of the choices, also those that break a rule or do not fit.
void forEachPoint(const SearchChoices& choices,
                  const std::function<void(const SearchPoint&)>& take);

/// Every plan of the space, also those that break a rule or do not fit: what searchPlans answers
/// without looking at all of them. For small spaces.
[[nodiscard]] std::vector<Plan> enumeratePlans(const SearchSpace& space);

/// "tp=1 pp=4 ep=8 dp=8 mbs=2 1f1b recompute=full zero=1": names a plan and breaks ties.
[[nodiscard]] std::string layoutText(const Plan& plan);

/// Layers of each stage when pp does not divide them: what is left goes to the stages in the
/// middle, which have neither embedding nor head. Empty when pp divides.
[[nodiscard]] std::vector<std::int64_t> balancedStages(std::int64_t layers, std::int64_t pp);

}  // namespace piper
