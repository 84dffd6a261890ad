// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/timeline_viewport.h"

#include <cmath>

namespace piper::ui {

double markDistance(double span_ns, int most) {
    const double least = span_ns / std::max(most, 1);
    const double power = std::pow(10.0, std::floor(std::log10(std::max(least, 1e-9))));
    for (const double step : {1.0, 2.0, 5.0, 10.0})
        if (step * power >= least) return step * power;
    return 10.0 * power;
}

}  // namespace piper::ui
