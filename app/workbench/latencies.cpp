// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/latencies.h"

#include "core/base/sample.h"

namespace piper::app {

double milliseconds(const QElapsedTimer& clock) {
    return static_cast<double>(clock.nsecsElapsed()) * 1e-6;
}

Latencies latencies(std::vector<double> ms) {
    return {static_cast<int>(ms.size()), median(ms), quantile(ms, 0.95), quantile(ms, 1.0)};
}

Json latencyJson(const Latencies& l, const char* counted) {
    return {{counted, l.count}, {"p50_ms", l.p50_ms}, {"p95_ms", l.p95_ms}, {"max_ms", l.max_ms}};
}

}  // namespace piper::app
