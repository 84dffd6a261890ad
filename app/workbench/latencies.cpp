// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/latencies.h"

#include <algorithm>

namespace piper::app {

Latencies latencies(std::vector<double> ms) {
    std::sort(ms.begin(), ms.end());
    const auto at = [&](double q) {
        return ms[static_cast<std::size_t>(q * static_cast<double>(ms.size() - 1) + 0.5)];
    };
    return {static_cast<int>(ms.size()), at(0.5), at(0.95), ms.back()};
}

Json latencyJson(const Latencies& l, const char* counted) {
    return {{counted, l.count}, {"p50_ms", l.p50_ms}, {"p95_ms", l.p95_ms}, {"max_ms", l.max_ms}};
}

}  // namespace piper::app
