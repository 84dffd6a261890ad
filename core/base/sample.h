// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace piper {

/// The value below which that share (0..1) of the values lies, linear between two; 0 of none.
[[nodiscard]] double quantile(std::vector<double> values, double share);

[[nodiscard]] double median(std::vector<double> values);

/// FNV-1a: splits rows into the same parts on every machine.
[[nodiscard]] std::uint64_t textHash(std::string_view text);

}  // namespace piper
