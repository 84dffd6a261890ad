// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/run/recorder.h"
#include "core/schedule/schedule.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/dataset.h"
#include "kernels/pipeline/training.h"
#include "kernels/transport/transport.h"

namespace piper::test {

/// Three layers of hidden 24, the first dense, six experts top-2 with a shared one: everything the
/// worker runs, in milliseconds. One rank, fp32.
[[nodiscard]] Plan tinyPlan();
/// Multi-head latent attention with compressed queries in place of the plan's.
void useLatentAttention(Plan& plan);

/// All that one-rank training in this process needs.
class TinyRun {
public:
    explicit TinyRun(Plan plan, std::optional<std::int64_t> memory_limit = std::nullopt);
    /// As one rank of a world that outlives it.
    TinyRun(Plan plan, Transport& world);

    Status train(const TrainingOptions& options);

    Plan plan;
    Schedule schedule;
    MemoryRecorder recorder;
    std::unique_ptr<Transport> local;  ///< null in a world of several
    Transport* transport;
    TaggedAllocator allocator;
    std::unique_ptr<Backend> backend;
    ByteDataset data;
    std::int64_t ticks = 0;    ///< the clock: one more at every look
    std::int64_t tick_ns = 1;  ///< that it goes on by

    [[nodiscard]] ProgramRunner::Hooks hooks();
    [[nodiscard]] std::vector<double> losses() const;

private:
    TinyRun(Plan plan, std::unique_ptr<Transport> own, Transport* world,
            std::optional<std::int64_t> memory_limit);
};

}  // namespace piper::test
