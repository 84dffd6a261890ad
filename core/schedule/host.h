// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/units.h"
#include "core/plan/plan.h"
#include "core/resources/work.h"

namespace piper {

/// What the host needs to issue one operation: calls of the framework's modules times the time of
/// one. The device waits when that is longer than its work. 0 for our own worker, whose calls are
/// the launches that the cost model has already.
/// Source: docs/validation.md names the rows that fix the constants.
[[nodiscard]] Seconds hostTime(const Plan& plan, const OperationKey& key);

/// How much longer compute takes in a long run than the kernel alone (factors of at least 1).
/// Matrix: GEMMs and attention at the clock that the power limit leaves. Memory: element-wise
/// kernels are short, each with a gap before it and caches that others have used. By generation
/// (Ampere, Hopper, Blackwell), also for its devices without published runs; 1 where the cluster's
/// own curves were measured and for all other devices.
struct RunFactors {
    double matrix = 1.0, memory = 1.0;
};
[[nodiscard]] RunFactors runFactors(const Plan& plan);
/// The framework's attention kernel over the one that the published times are of.
[[nodiscard]] double attentionFactor(const Plan& plan);

}  // namespace piper
