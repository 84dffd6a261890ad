// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/cluster.h"

#include <algorithm>
#include <cmath>

namespace piper {

template <>
std::span<const EnumName<Precision>> enumNames<Precision>() {
    static constexpr EnumName<Precision> rows[] = {
        {Precision::Fp32, "fp32"},   {Precision::Tf32, "tf32"},  {Precision::Bf16, "bf16"},
        {Precision::Fp16, "fp16"},   {Precision::Fp8, "fp8"},    {Precision::Fp8Block, "fp8_block"},
        {Precision::Mxfp8, "mxfp8"}, {Precision::Nvfp4, "nvfp4"}};
    return rows;
}

template <>
std::span<const EnumName<DeviceKind>> enumNames<DeviceKind>() {
    static constexpr EnumName<DeviceKind> rows[] = {{DeviceKind::Gpu, "gpu"},
                                                    {DeviceKind::Cpu, "cpu"}};
    return rows;
}

template <>
std::span<const EnumName<CollectiveKind>> enumNames<CollectiveKind>() {
    static constexpr EnumName<CollectiveKind> rows[] = {
        {CollectiveKind::AllToAll, "all_to_all"},
        {CollectiveKind::AllReduce, "all_reduce"},
        {CollectiveKind::AllGather, "all_gather"},
        {CollectiveKind::ReduceScatter, "reduce_scatter"},
        {CollectiveKind::PointToPoint, "point_to_point"}};
    return rows;
}

Bytes elementBytes(Precision precision) {
    switch (precision) {
        case Precision::Fp32:
        case Precision::Tf32:
            return Bytes(4.0);
        case Precision::Bf16:
        case Precision::Fp16:
            return Bytes(2.0);
        case Precision::Fp8:
        case Precision::Fp8Block:
        case Precision::Mxfp8:
            return Bytes(1.0);
        case Precision::Nvfp4:
            return Bytes(0.5);
    }
    return Bytes(4.0);
}

Result<FlopsPerSecond> DeviceSpec::peakFor(Precision precision) const {
    if (const auto found = peak.find(precision); found != peak.end()) return found->second;
    std::vector<std::string_view> known;
    for (const auto& [p, rate] : peak) known.push_back(toText(p));
    Error error = fail(ErrorCode::Unsupported, "{} has no known {} rate", name, toText(precision));
    error.hint = fmt::format("known precisions: {}", joinWords(known));
    return error;
}

Evidence DeviceSpec::peakEvidence(Precision precision) const {
    Evidence out = evidence;
    const bool assumed =
        std::find(assumed_peaks.begin(), assumed_peaks.end(), precision) != assumed_peaks.end();
    if (assumed) out.kind = std::max(out.kind, EvidenceKind::Assumed);
    return out;
}

namespace {

class Rules {
public:
    template <class... Args>
    void broken(std::string where, fmt::format_string<Args...> format, Args&&... args) {
        m_errors.push_back(fail(ErrorCode::InvalidInput, format, std::forward<Args>(args)...)
                               .at(std::move(where)));
    }
    void positive(const std::string& where, double value) {
        if (!(value > 0.0) || !std::isfinite(value))
            broken(where, "{} must be above 0 and finite", value);
    }
    [[nodiscard]] std::vector<Error> take() { return std::move(m_errors); }

private:
    std::vector<Error> m_errors;
};

void checkDevice(Rules& rules, const DeviceSpec& device) {
    if (device.peak.empty()) rules.broken("device.peak_flops_per_second", "no rate is given");
    for (const auto& [precision, rate] : device.peak)
        rules.positive(fmt::format("device.peak_flops_per_second.{}", toText(precision)),
                       rate.value);
    rules.positive("device.memory_bytes", device.memory.value);
    rules.positive("device.memory_bandwidth_bytes_per_second", device.memory_bandwidth.value);
    if (!(device.launch_overhead.value >= 0.0))
        rules.broken("device.launch_overhead_seconds", "{} must not be negative",
                     device.launch_overhead.value);
}

void checkLevel(Rules& rules, const std::string& where, const LinkLevel& level) {
    rules.positive(where + ".bandwidth_bytes_per_second", level.bandwidth.value);
    rules.positive(where + ".port_bandwidth_bytes_per_second", level.port_bandwidth.value);
    if (level.port_bandwidth < level.bandwidth)
        rules.broken(where + ".port_bandwidth_bytes_per_second",
                     "{} is below the {} that every device gets when all send at once",
                     humanBytesPerSecond(level.port_bandwidth),
                     humanBytesPerSecond(level.bandwidth));
    if (!(level.latency.value >= 0.0))
        rules.broken(where + ".latency_seconds", "{} must not be negative", level.latency.value);
    if (!(level.taper >= 1.0) || !std::isfinite(level.taper))
        rules.broken(where + ".taper", "{} must be at least 1", level.taper);
}

void checkLevels(Rules& rules, const ClusterSpec& cluster) {
    std::int64_t inner = 1;
    for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
        const LinkLevel& level = cluster.levels[i];
        const std::string where = fmt::format("levels[{}]", i);
        checkLevel(rules, where, level);
        if (level.domain_devices < 1 || level.domain_devices < inner)
            rules.broken(
                where + ".domain_devices",
                "{} is smaller than the level inside it ({}): levels stand innermost first",
                level.domain_devices, inner);
        inner = std::max<std::int64_t>(inner, level.domain_devices);
    }
    const std::int64_t devices = cluster.numDevices();
    if (devices > 1 && inner < devices)
        rules.broken("levels",
                     "the last level joins {} devices, the cluster has {} ({} nodes of {}): the "
                     "last level must span the cluster",
                     cluster.levels.empty() ? 0 : inner, devices, cluster.nodes,
                     cluster.devices_per_node);
}

}  // namespace

std::vector<Error> checkCluster(const ClusterSpec& cluster) {
    constexpr std::int64_t kMost = 1 << 24;
    Rules rules;
    checkDevice(rules, cluster.device);
    const bool per_node = cluster.devices_per_node >= 1 && cluster.devices_per_node <= kMost;
    const bool nodes = cluster.nodes >= 1 && cluster.nodes <= kMost;
    if (!per_node)
        rules.broken("devices_per_node", "{} must be between 1 and {}", cluster.devices_per_node,
                     kMost);
    if (!nodes) rules.broken("nodes", "{} must be between 1 and {}", cluster.nodes, kMost);
    if (per_node && nodes) checkLevels(rules, cluster);
    if (!(cluster.price_per_device_hour >= 0.0))
        rules.broken("price_per_device_hour", "{} must not be negative",
                     cluster.price_per_device_hour);
    return rules.take();
}

}  // namespace piper
