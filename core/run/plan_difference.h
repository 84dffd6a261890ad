// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace piper {

/// One sentence for each key in which two plan files differ, by its path
/// ("plans differ: layout.pp is 2 against 4"); objects are compared two levels deep.
/// A run without a plan, or with one that is not JSON, is said so.
[[nodiscard]] std::vector<std::string> planDifferences(std::string_view a, std::string_view b);

}  // namespace piper
