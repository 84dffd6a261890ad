// SPDX-License-Identifier: Apache-2.0
// The catalogue as values, and the links its devices usually come with.
#include <algorithm>
#include <bit>
#include <cctype>

#include "core/cluster/catalogue_table.h"
#include "core/cluster/cluster.h"

namespace piper {
namespace {

constexpr std::string_view kFrontierSource =
    "https://github.com/olcf/olcf-user-docs Frontier; 4 NICs of 25 GB/s a node of 8 GCDs";
constexpr std::string_view kAssumed = "assumed; calibrate to replace it";
constexpr std::string_view kCpuName = "cpu";

DeviceSpec deviceOf(const CatalogueRow& row) {
    DeviceSpec d;
    d.name = std::string(row.name);
    const auto rate = [&](Precision precision, double value, bool assumed = false) {
        if (value <= 0) return;
        d.peak[precision] = tflops(value);
        if (assumed) d.assumed_peaks.push_back(precision);
    };
    rate(Precision::Bf16, row.bf16_tflops);
    rate(Precision::Fp16, row.bf16_tflops);
    rate(Precision::Tf32, row.tf32_tflops, true);
    rate(Precision::Fp32, row.fp32_tflops, true);
    rate(Precision::Fp8, row.fp8_tflops);
    rate(Precision::Fp8Block, row.fp8_tflops);
    if (row.block_scaled) rate(Precision::Mxfp8, row.fp8_tflops);
    rate(Precision::Nvfp4, row.nvfp4_tflops, true);
    d.memory = mib(row.memory_mib);
    d.memory_bandwidth = gbps(row.memory_gb_s);
    d.source = std::string(row.source);
    return d;
}

/// One rank of a CPU run: a core or two with oneDNN. Small on purpose; calibration replaces it.
DeviceSpec cpuDevice() {
    DeviceSpec d;
    d.name = std::string(kCpuName);
    d.kind = DeviceKind::Cpu;
    d.peak[Precision::Fp32] = tflops(0.05);
    d.memory = gib(2);
    d.memory_bandwidth = gbps(8);
    d.launch_overhead = microseconds(2);
    d.source = std::string(kAssumed);
    d.evidence = Evidence{EvidenceKind::Assumed, 0, 0, false};
    return d;
}

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
}

bool hasShortName(const CatalogueRow& row, std::string_view lowered) {
    std::string_view rest = row.short_names;
    while (!rest.empty()) {
        const std::size_t bar = rest.find('|');
        if (lower(rest.substr(0, bar)) == lowered) return true;
        rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
    }
    return false;
}

const CatalogueRow* findRow(std::string_view name) {
    const std::string lowered = lower(name);
    for (const CatalogueRow& row : catalogueRows())
        if (lower(row.name) == lowered) return &row;
    for (const CatalogueRow& row : catalogueRows())
        if (hasShortName(row, lowered)) return &row;
    return nullptr;
}

LinkLevel level(std::string_view name, std::int64_t devices, BytesPerSecond bandwidth,
                BytesPerSecond port, Seconds latency, std::string_view source, EvidenceKind kind) {
    LinkLevel out;
    out.name = std::string(name);
    out.domain_devices = devices;
    out.bandwidth = bandwidth;
    out.port_bandwidth = port;
    out.latency = latency;
    out.source = std::string(source);
    out.evidence.kind = kind;
    return out;
}

/// Frontier, innermost first: the two GCDs of a package, the node, the four nodes of a switch, the
/// dragonfly group (1.75 : 1 out of it), the machine.
std::vector<LinkLevel> frontierLevels() {
    const auto kind = EvidenceKind::VendorPeak;
    std::vector<LinkLevel> out;
    out.push_back(
        level("xgmi_package", 2, gbps(200), gbps(200), microseconds(3), kFrontierSource, kind));
    out.push_back(level("xgmi", 8, gbps(50), gbps(100), microseconds(3), kFrontierSource, kind));
    out.push_back(level("slingshot_switch", 32, gbps(12.5), gbps(25), microseconds(5),
                        kFrontierSource, kind));
    out.push_back(level("slingshot_group", 1024, gbps(12.5), gbps(25), microseconds(6),
                        kFrontierSource, kind));
    out.back().taper = 1.75;
    out.push_back(
        level("slingshot", 78848, gbps(12.5), gbps(25), microseconds(7), kFrontierSource, kind));
    return out;
}

std::vector<LinkLevel> cpuLevels(std::int64_t devices_per_node) {
    std::vector<LinkLevel> out;
    out.push_back(level("shared_memory", devices_per_node, gbps(2), gbps(4), microseconds(10),
                        kAssumed, EvidenceKind::Assumed));
    out.push_back(level("ethernet", 1 << 24, gbitps(1), gbitps(10), microseconds(50), kAssumed,
                        EvidenceKind::Assumed));
    return out;
}

/// One 100 Gbit/s port a node (V100 nodes of nccl-tests issue 78), over TCP.
LinkLevel plainEthernet(std::int64_t devices_per_node) {
    constexpr double kPortGbit = 100;
    return level("ethernet", 1 << 24, gbitps(kPortGbit / static_cast<double>(devices_per_node)),
                 gbitps(kPortGbit), microseconds(30),
                 "assumed: one 100 Gbit/s Ethernet port a node, TCP; calibrate to replace it",
                 EvidenceKind::Assumed);
}

std::vector<LinkLevel> usualLevels(const CatalogueRow& row, std::int64_t devices_per_node) {
    const EvidenceKind kind = row.links_assumed ? EvidenceKind::Assumed : EvidenceKind::VendorPeak;
    const EvidenceKind nic = row.nic_assumed ? EvidenceKind::Assumed : EvidenceKind::VendorPeak;
    // A domain wider than a node (NVL72) keeps its width; else it is the node's devices.
    const std::int64_t domain = row.scale_up_devices > row.devices_per_node
                                    ? std::max<std::int64_t>(row.scale_up_devices, devices_per_node)
                                    : devices_per_node;
    std::vector<LinkLevel> out;
    if (domain > 1)
        out.push_back(level(row.scale_up, domain, gbps(row.scale_up_gb_s), gbps(row.scale_up_gb_s),
                            microseconds(3), row.source, kind));
    out.push_back(level(row.scale_out, 1 << 24, gbitps(row.nic_gbit_s), gbitps(row.nic_gbit_s),
                        microseconds(6), row.source, nic));
    return out;
}

/// Drops the levels beyond the one that first spans the cluster, and ends that one there.
void clip(std::vector<LinkLevel>& levels, std::int64_t devices) {
    const auto spans = std::find_if(levels.begin(), levels.end(), [&](const LinkLevel& l) {
        return l.domain_devices >= devices;
    });
    if (spans == levels.end()) return;
    spans->domain_devices = devices;
    spans->taper = 1.0;
    levels.erase(spans + 1, levels.end());
}

std::string_view deviceName(std::string_view name) {
    return name.substr(0, name.rfind('@'));
}

/// The fabric after '@', of which there is one: "ethernet".
Result<bool> onEthernet(std::string_view name) {
    const std::size_t at = name.rfind('@');
    if (at == std::string_view::npos) return false;
    if (lower(name.substr(at + 1)) == "ethernet") return true;
    Error error =
        fail(ErrorCode::NotFound, "unknown fabric '{}' of '{}'", name.substr(at + 1), name);
    error.hint = "known: ethernet (H100 SXM@ethernet); without @ the device's usual network";
    return error;
}

/// A rack of 72 devices is not filled by a job of 256: schedulers place it in segments of a power
/// of two (64 of 72), so that no group straddles two racks which fits into one.
void placeInSegments(std::vector<LinkLevel>& levels, std::int64_t devices_per_node,
                     std::int64_t world) {
    for (LinkLevel& level : levels)
        if (level.domain_devices > devices_per_node && world > level.domain_devices &&
            world % level.domain_devices != 0 && &level != &levels.back())
            level.domain_devices = static_cast<std::int64_t>(
                std::bit_floor(static_cast<std::uint64_t>(level.domain_devices)));
}

}  // namespace

const std::vector<DeviceSpec>& deviceCatalogue() {
    static const std::vector<DeviceSpec> devices = [] {
        std::vector<DeviceSpec> out;
        for (const CatalogueRow& row : catalogueRows()) out.push_back(deviceOf(row));
        out.push_back(cpuDevice());
        return out;
    }();
    return devices;
}

Result<DeviceSpec> findDevice(std::string_view name) {
    if (const CatalogueRow* row = findRow(name)) return deviceOf(*row);
    if (lower(name) == kCpuName) return cpuDevice();
    // Compared in lower case, so that "h100 sxn" is near "H100 SXM".
    std::vector<std::string> lowered;
    std::vector<std::string_view> names;
    for (const DeviceSpec& device : deviceCatalogue()) {
        names.push_back(device.name);
        lowered.push_back(lower(device.name));
    }
    const std::vector<std::string_view> words(lowered.begin(), lowered.end());
    const std::string near = nearestWord(lower(name), words);
    const auto at = std::find(lowered.begin(), lowered.end(), near) - lowered.begin();
    Error error = fail(ErrorCode::NotFound, "unknown device '{}'; nearest known: '{}'", name,
                       names[static_cast<std::size_t>(at)]);
    error.hint = fmt::format("known devices: {}; or give the device's numbers as an object",
                             joinWords(names));
    return error;
}

Result<std::vector<LinkLevel>> defaultLevels(std::string_view device, std::int64_t devices_per_node,
                                             std::int64_t nodes) {
    constexpr std::int64_t kMost = 1 << 24;
    if (devices_per_node < 1 || devices_per_node > kMost || nodes < 1 || nodes > kMost)
        return fail(ErrorCode::InvalidInput,
                    "{} nodes of {} devices: both must be between 1 and {}", nodes,
                    devices_per_node, kMost);
    PIPER_ASSIGN(const bool ethernet, onEthernet(device));
    PIPER_ASSIGN(const DeviceSpec spec, findDevice(deviceName(device)));
    const CatalogueRow* row = findRow(spec.name);
    std::vector<LinkLevel> levels = row == nullptr ? cpuLevels(devices_per_node)
                                    : row->scale_out == "slingshot"
                                        ? frontierLevels()
                                        : usualLevels(*row, devices_per_node);
    if (ethernet && row != nullptr) {
        const auto network = std::find_if(levels.begin(), levels.end(), [&](const LinkLevel& l) {
            return l.name == row->scale_out || l.name.starts_with("slingshot");
        });
        levels.erase(network, levels.end());
        levels.push_back(plainEthernet(devices_per_node));
    }
    placeInSegments(levels, devices_per_node, devices_per_node * nodes);
    clip(levels, devices_per_node * nodes);
    return levels;
}

Result<ClusterSpec> defaultCluster(std::string_view device, std::int64_t nodes) {
    if (nodes < 1 || nodes > (1 << 20))
        return fail(ErrorCode::InvalidInput, "{} nodes; a cluster has between 1 and {}", nodes,
                    1 << 20);
    ClusterSpec cluster;
    PIPER_TRY(onEthernet(device));
    PIPER_ASSIGN(cluster.device, findDevice(deviceName(device)));
    const CatalogueRow* row = findRow(cluster.device.name);
    cluster.devices_per_node = row ? row->devices_per_node : 4;
    cluster.nodes = nodes;
    cluster.name = fmt::format("{}x{} {}", nodes, cluster.devices_per_node, cluster.device.name);
    if (deviceName(device) != device) cluster.name += " on Ethernet";
    PIPER_ASSIGN(cluster.levels, defaultLevels(device, cluster.devices_per_node, nodes));
    return cluster;
}

}  // namespace piper
