// SPDX-License-Identifier: Apache-2.0
#include "app/worker/calibrate.h"

#include <unistd.h>

#include <algorithm>

#include "app/worker/step_calibration.h"
#include "kernels/cpu/bench.h"
#include "kernels/transport/collective_bench.h"

namespace piper {
namespace {

Bytes hostMemoryPerRank(std::int64_t ranks) {
    const double pages = static_cast<double>(::sysconf(_SC_PHYS_PAGES));
    const double page = static_cast<double>(::sysconf(_SC_PAGESIZE));
    return Bytes(pages * page) / static_cast<double>(ranks);
}

DeviceSpec deviceFrom(const MeasuredCurves& curves, std::int64_t ranks) {
    DeviceSpec device;
    device.name = "cpu";
    device.kind = DeviceKind::Cpu;
    device.memory = hostMemoryPerRank(ranks);
    device.source = "measured on this machine";
    FlopsPerSecond best;
    for (const GemmPoint& p : curves.gemm) best = std::max(best, p.rate);
    device.peak[Precision::Fp32] = best;
    // Main memory is what the largest copy reaches; smaller ones stay in a cache.
    const auto largest = std::max_element(
        curves.memory.begin(), curves.memory.end(),
        [](const MemoryPoint& a, const MemoryPoint& b) { return a.size < b.size; });
    if (largest != curves.memory.end()) device.memory_bandwidth = largest->rate;
    device.launch_overhead = microseconds(1);
    device.evidence = {EvidenceKind::Measured, 0, 0, false};
    return device;
}

LinkLevel sharedMemory(const MeasuredCurves& curves, std::int64_t ranks) {
    LinkLevel level;
    level.name = "shared_memory";
    level.domain_devices = ranks;
    level.source = "measured on this machine";
    level.evidence = {EvidenceKind::Measured, 0, 0, false};
    level.bandwidth = level.port_bandwidth = gbps(1);
    Seconds shortest(1.0);
    for (const CollectivePoint& p : curves.collective) {
        if (p.kind != CollectiveKind::PointToPoint) continue;
        shortest = std::min(shortest, p.time);
        level.port_bandwidth = std::max(level.port_bandwidth, p.message / p.time);
    }
    if (shortest.value < 1.0) level.latency = shortest;
    level.bandwidth = level.port_bandwidth;
    return level;
}

}  // namespace

Result<ClusterSpec> calibrateMachine(Transport& transport, bool quick,
                                     const std::string& measured_at) {
    Communicator& world = transport.world();
    PIPER_TRY(world.barrier());
    PIPER_ASSIGN(MeasuredCurves curves,
                 benchDevice(quick ? BenchEffort::Quick : BenchEffort::Full));
    PIPER_TRY(world.barrier());
    CollectiveBenchOptions options;
    if (quick) options.sizes = {1024, 65536, 1 << 20, 16 << 20};
    PIPER_ASSIGN(curves.collective, benchCollectives(world, options));
    curves.measured_at = measured_at;
    curves.host = "local";

    ClusterSpec cluster;
    cluster.name = fmt::format("this machine, {} ranks", world.size());
    cluster.devices_per_node = world.size();
    cluster.nodes = 1;
    cluster.device = deviceFrom(curves, world.size());
    cluster.levels = {sharedMemory(curves, world.size())};
    cluster.curves = std::move(curves);
    PIPER_ASSIGN(cluster.curves.operation, calibrateSteps(transport, cluster, quick));
    return cluster;
}

}  // namespace piper
