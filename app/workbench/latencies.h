// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QTimer>
#include <vector>

#include "core/base/json.h"

// What the measurements of the window share.
namespace piper::app {

struct Latencies {
    int count = 0;
    double p50_ms = 0.0, p95_ms = 0.0, max_ms = 0.0;
};

[[nodiscard]] double milliseconds(const QElapsedTimer& clock);
/// Of at least one time.
[[nodiscard]] Latencies latencies(std::vector<double> ms);
/// `counted`: the key of how many there are.
[[nodiscard]] Json latencyJson(const Latencies& latencies, const char* counted);

/// Runs the event loop until the condition holds; false after `timeout_ms`.
template <class Condition>
bool spinUntil(const Condition& condition, int timeout_ms) {
    QElapsedTimer clock;
    clock.start();
    QTimer wake;  // so that a missing event ends in the time-out and not in a hang
    wake.start(50);
    while (!condition()) {
        if (clock.elapsed() > timeout_ms) return false;
        QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents);
    }
    return true;
}

}  // namespace piper::app
