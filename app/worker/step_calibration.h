// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "app/worker/small_training.h"
#include "core/base/result.h"
#include "core/cluster/cluster.h"
#include "kernels/transport/transport.h"

namespace piper {

/// What operations take inside training steps, over what the curves of a cluster say of their calls
/// alone. Operations without communication: what ranks wait for each other is the schedule's to
/// say.
class StepCalibration {
public:
    /// Trains small models for some steps, one replica a rank. Every rank of the world calls it as
    /// often; several calls, spread over what else is measured, outlast a noisy neighbour.
    /// Errors: those of training (kernels/pipeline/training.h).
    [[nodiscard]] Status record(Transport& transport, bool quick);
    /// The ratios of this rank.
    [[nodiscard]] std::vector<OperationPoint> points(const ClusterSpec& cluster) const;

private:
    struct Recorded {
        SmallShape shape;
        RankTimeline rank;
    };
    std::vector<Recorded> m_recorded;
};

}  // namespace piper
