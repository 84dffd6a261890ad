// SPDX-License-Identifier: Apache-2.0
#include "app/worker/calibrate.h"

#include <unistd.h>

#include <algorithm>

#include "app/worker/step_calibration.h"
#include "core/base/sample.h"
#include "kernels/cpu/bench.h"
#include "kernels/transport/collective_bench.h"

namespace piper {
namespace {

/// Apart by seconds, so that a burst of the machine's other users spoils one of them at most.
constexpr int kSweeps = 3;

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

/// Every point from the median over sweeps, which all have the same points in the same order.
MeasuredCurves medianOf(const std::vector<MeasuredCurves>& sweeps) {
    MeasuredCurves out = sweeps.front();
    const auto settle = [&](auto points, auto value) {
        for (std::size_t i = 0; i < (out.*points).size(); ++i) {
            std::vector<double> values;
            for (const MeasuredCurves& sweep : sweeps)
                values.push_back(((sweep.*points)[i].*value).value);
            ((out.*points)[i].*value).value = median(std::move(values));
        }
    };
    settle(&MeasuredCurves::gemm, &GemmPoint::rate);
    settle(&MeasuredCurves::attention, &AttentionPoint::rate);
    settle(&MeasuredCurves::memory, &MemoryPoint::rate);
    settle(&MeasuredCurves::overhead, &OverheadPoint::time);
    settle(&MeasuredCurves::collective, &CollectivePoint::time);
    return out;
}

}  // namespace

Result<ClusterSpec> calibrateMachine(Transport& transport, bool quick,
                                     const std::string& measured_at) {
    Communicator& world = transport.world();
    CollectiveBenchOptions options;
    if (quick) options.sizes = {1024, 65536, 1 << 20, 16 << 20};
    StepCalibration steps;
    std::vector<MeasuredCurves> sweeps;
    for (int sweep = 0; sweep < (quick ? 1 : kSweeps); ++sweep) {
        PIPER_TRY(world.barrier());
        PIPER_ASSIGN(sweeps.emplace_back(),
                     benchDevice(quick ? BenchEffort::Quick : BenchEffort::Full));
        PIPER_TRY(world.barrier());
        PIPER_ASSIGN(sweeps.back().collective, benchCollectives(world, options));
        PIPER_TRY(steps.record(transport, quick));
    }
    MeasuredCurves curves = medianOf(sweeps);
    curves.measured_at = measured_at;
    curves.host = "local";

    ClusterSpec cluster;
    cluster.name = fmt::format("this machine, {} ranks", world.size());
    cluster.devices_per_node = world.size();
    cluster.nodes = 1;
    cluster.device = deviceFrom(curves, world.size());
    cluster.levels = {sharedMemory(curves, world.size())};
    cluster.curves = std::move(curves);
    cluster.curves.operation = steps.points(cluster);
    return cluster;
}

}  // namespace piper
