// SPDX-License-Identifier: Apache-2.0
// Device memory outside the tensors: communicators, the driver's context, allocator slack.
#include "core/resources/memory_table.h"

namespace piper {
namespace {

/// NCCL's Simple protocol: a buffer of 4 MiB a channel towards each of two neighbours, 16 channels.
constexpr double kCommunicatorBytes = 2.0 * 16.0 * 4.0 * 1024.0 * 1024.0;
/// Driver context and loaded kernels of a CUDA or HIP process.
constexpr double kContextBytes = 512.0 * 1024.0 * 1024.0;
/// Reserved over allocated of PyTorch's caching allocator: SimuMax 1.2 divides by 0.94.
constexpr double kSlack = 1.0 / 0.94 - 1.0;

}  // namespace

std::int64_t numCommunicators(const Plan& plan) {
    const Layout& l = plan.layout;
    if (l.world() <= 1) return 0;
    std::int64_t count = 1;  // the world's
    for (const std::int64_t degree : {l.tp, l.cp, l.pp, l.dp * l.cp})
        if (degree > 1) ++count;
    if (plan.model.moe)
        for (const std::int64_t degree : {l.ep, l.etp, l.edp()})
            if (degree > 1) ++count;
    return count;
}

DeviceReserve deviceReserve(const Plan& plan) {
    const bool gpu = plan.cluster.device.kind == DeviceKind::Gpu;
    const MemoryReserve& given = plan.memory;
    DeviceReserve out;
    out.communicators = numCommunicators(plan);
    out.communicator_bytes =
        Bytes(given.communication_buffer_bytes.value_or(gpu ? kCommunicatorBytes : 0.0));
    out.context = Bytes(given.context_bytes.value_or(gpu ? kContextBytes : 0.0));
    const bool caching = gpu && plan.framework != Framework::Plain;
    out.allocator_slack = given.allocator_slack.value_or(caching ? kSlack : 0.0);
    return out;
}

Bytes DeviceReserve::total(Bytes allocated) const {
    return allocated * (1.0 + allocator_slack) +
           communicator_bytes * static_cast<double>(communicators) + context;
}

}  // namespace piper
