// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <vector>

#include "core/predict/predict.h"

namespace piper::ui {

/// One number of the plan page: what it is, its value with unit, its range and evidence.
struct Metric {
    QString id;  ///< "mfu", as in the JSON of `piperctl predict`
    QString label;
    QString value;
    QString detail;      ///< "38.0 – 44.1 %"; empty when core states no range
    QString evidence;    ///< "assumed, extrapolated"
    QString definition;  ///< numerator, denominator and device set, for the hover text
    bool bad = false;    ///< to be marked: does not fit
};

[[nodiscard]] std::vector<Metric> planMetrics(const Plan& plan, const Prediction& prediction);

/// "Limited by the pipeline bubble: 31 % of the step; 412 ms without it."
[[nodiscard]] QString bottleneckText(const Prediction& prediction);

/// Communication time that compute does not hide, all phases.
[[nodiscard]] Seconds exposedTotal(const Prediction& prediction);

/// One row a phase: "dispatch  12.3 ms  exposed 4.1 ms", largest first, for views and dumps.
struct PhaseShare {
    Phase phase;
    Seconds time;
    Seconds exposed;
    double share_of_step = 0.0;
};
[[nodiscard]] std::vector<PhaseShare> phaseShares(const Prediction& prediction);

}  // namespace piper::ui
