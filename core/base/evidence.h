// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "core/base/enum_text.h"

namespace piper {

/// Where a number comes from, best first.
enum class EvidenceKind { Measured, Published, VendorPeak, Assumed };

/// How sure a number is. low and high bound the number in its own unit (0, 0 when not stated);
/// extrapolated: a shape or message lies outside the measured range.
struct Evidence {
    EvidenceKind kind = EvidenceKind::Assumed;
    double low = 0.0;
    double high = 0.0;
    bool extrapolated = false;

    /// Evidence of a number made from two: the weaker kind, extrapolated if either is.
    [[nodiscard]] static Evidence weaker(const Evidence& a, const Evidence& b) {
        Evidence out = a.kind >= b.kind ? a : b;
        out.extrapolated = a.extrapolated || b.extrapolated;
        return out;
    }
};

}  // namespace piper
