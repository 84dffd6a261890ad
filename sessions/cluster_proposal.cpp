// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "sessions/host_facts.h"

namespace piper {
namespace {

/// Memory that nvidia-smi shows is a little less than what is on the card.
bool sameMemory(Bytes shown, Bytes catalogue) {
    return std::abs(shown.value / catalogue.value - 1.0) < 0.12;
}

bool sayPcie(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text.find("pcie") != std::string::npos;
}

/// The catalogue's device of "NVIDIA H100 80GB HBM3": the longest beginning of the name it knows,
/// with the right memory and on the right bus.
Result<DeviceSpec> deviceOf(const GpuFacts& gpu) {
    std::string name = gpu.name;
    for (const char* maker : {"NVIDIA ", "AMD ", "Tesla "})
        if (name.starts_with(maker)) name.erase(0, std::string(maker).size());
    for (std::string part = name; !part.empty();) {
        const Result<DeviceSpec> known = findDevice(part);
        if (known.ok()) {
            const auto fits = [&](const DeviceSpec& d) {
                return sameMemory(gpu.memory, d.memory) && sayPcie(d.name) == sayPcie(gpu.name);
            };
            if (fits(*known)) return *known;
            for (const DeviceSpec& other : deviceCatalogue())
                if (other.name.starts_with(part) && fits(other)) return other;
        }
        const std::size_t cut = part.find_last_of(" -");
        part.resize(cut == std::string::npos ? 0 : cut);
    }
    Error error = fail(ErrorCode::Unsupported, "the catalogue has no device '{}' of {:.0f} GiB",
                       gpu.name, gpu.memory.value / gib(1).value);
    error.hint = "write a cluster file with the device's own numbers (docs/formats.md)";
    return error;
}

const PartitionFacts* defaultPartition(const HostFacts& facts) {
    for (const PartitionFacts& partition : facts.partitions)
        if (partition.is_default) return &partition;
    return facts.partitions.empty() ? nullptr : &facts.partitions.front();
}

/// "gpu:h100:8(S:0-1)" -> 8; 0 when there is none.
std::int64_t gpusOf(const std::string& gres) {
    const std::size_t at = gres.find("gpu:");
    if (at == std::string::npos) return 0;
    const std::string_view item =
        std::string_view(gres).substr(at, gres.find_first_of("(,", at) - at);
    return std::max(0LL, std::atoll(item.data() + item.rfind(':') + 1));
}

}  // namespace

Result<ClusterSpec> proposeCluster(const HostFacts& facts, std::int64_t nodes) {
    const PartitionFacts* partition = defaultPartition(facts);
    if (nodes == 0) nodes = partition != nullptr ? std::max<std::int64_t>(1, partition->nodes) : 1;
    ClusterSpec cluster;
    cluster.nodes = nodes;
    if (!facts.gpus.empty()) {
        PIPER_ASSIGN(cluster.device, deviceOf(facts.gpus.front()));
        const std::int64_t queued = partition != nullptr ? gpusOf(partition->gres) : 0;
        cluster.devices_per_node =
            queued > 0 ? queued : static_cast<std::int64_t>(facts.gpus.size());
    } else {
        PIPER_ASSIGN(cluster.device, findDevice("cpu"));
        // Of Slurm's nodes, where there are any: the log-in node is another machine.
        const auto ranksOf = [](std::int64_t cores, std::int64_t processors) {
            return std::max<std::int64_t>(1, cores > 0 ? std::min(cores, processors) : processors);
        };
        cluster.devices_per_node = partition != nullptr
                                       ? ranksOf(partition->cores, partition->processors)
                                       : ranksOf(facts.cores, facts.processors);
        const Bytes memory = partition != nullptr ? partition->memory : facts.memory;
        if (memory.value > 0)
            cluster.device.memory =
                Bytes(memory.value / static_cast<double>(cluster.devices_per_node));
    }
    PIPER_ASSIGN(cluster.levels,
                 defaultLevels(cluster.device.name, cluster.devices_per_node, nodes));
    cluster.name = fmt::format("{}: {}x{} {}", facts.host, nodes, cluster.devices_per_node,
                               cluster.device.name);
    return cluster;
}

}  // namespace piper
