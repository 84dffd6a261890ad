// SPDX-License-Identifier: Apache-2.0
#include "core/base/sample.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace piper {

double quantile(std::vector<double> values, double share) {
    if (values.empty()) return 0.0;
    std::ranges::sort(values);
    const double at = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], at - static_cast<double>(below));
}

double median(std::vector<double> values) {
    return quantile(std::move(values), 0.5);
}

std::uint64_t textHash(std::string_view text) {
    std::uint64_t hash = 14695981039346656037ULL;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    return hash;
}

}  // namespace piper
