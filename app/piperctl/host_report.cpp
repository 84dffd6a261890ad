// SPDX-License-Identifier: Apache-2.0
#include "app/piperctl/host_report.h"

#include "core/base/json.h"

namespace piper::app {
namespace {

std::int64_t whole(Bytes bytes) {
    return static_cast<std::int64_t>(bytes.value);
}

std::string line(const std::string& key, const std::string& value) {
    return fmt::format("{:<10} {}\n", key, value);
}

std::string nicText(const NicFacts& nic) {
    std::string text = fmt::format("{} {}", nic.name, nic.kind);
    if (nic.rate.value > 0) text += fmt::format(", {:.0f} Gbit/s", nic.rate.value * 8 / 1e9);
    for (std::size_t i = 0; i < nic.gpus_near.size(); ++i)
        text += fmt::format("{}{}", i == 0 ? ", next to GPU " : ", ", nic.gpus_near[i]);
    return text;
}

}  // namespace

Json hostFactsJson(const HostFacts& facts) {
    Json out = {{"host", facts.host},
                {"system", facts.system},
                {"processor", facts.processor},
                {"processors", facts.processors},
                {"cores", facts.cores},
                {"sockets", facts.sockets},
                {"numa_nodes", facts.numa_nodes},
                {"memory_bytes", whole(facts.memory)},
                {"programs", facts.programs},
                {"gpus", Json::array()},
                {"gpu_links", facts.gpu_links},
                {"nvlinks", facts.nvlinks},
                {"nics", Json::array()},
                {"partitions", Json::array()},
                {"switches", facts.switches},
                {"scratch", Json::array()},
                {"missing", facts.missing}};
    for (const GpuFacts& gpu : facts.gpus)
        out["gpus"].push_back(
            {{"name", gpu.name}, {"memory_bytes", whole(gpu.memory)}, {"driver", gpu.driver}});
    for (const NicFacts& nic : facts.nics)
        out["nics"].push_back({{"name", nic.name},
                               {"kind", nic.kind},
                               {"rate_bytes_per_second", nic.rate.value},
                               {"gpus_near", nic.gpus_near}});
    for (const PartitionFacts& p : facts.partitions)
        out["partitions"].push_back({{"name", p.name},
                                     {"state", p.state},
                                     {"default", p.is_default},
                                     {"nodes", p.nodes},
                                     {"processors", p.processors},
                                     {"cores", p.cores},
                                     {"memory_bytes", whole(p.memory)},
                                     {"gres", p.gres},
                                     {"node_list", p.node_list},
                                     {"nodes_in_use", p.nodes_in_use},
                                     {"nodes_per_job", p.nodes_per_job},
                                     {"time_limit", p.time_limit}});
    for (const ScratchFacts& s : facts.scratch)
        out["scratch"].push_back({{"path", s.path}, {"free_bytes", whole(s.free)}});
    return out;
}

std::string hostFactsText(const HostFacts& facts) {
    std::string out = line("host", facts.host) + line("system", facts.system) +
                      line("processor", fmt::format("{} x {}", facts.processors, facts.processor)) +
                      line("memory", humanBytes(facts.memory));
    if (facts.cores > 0)
        out += line("cores", fmt::format("{} on {} sockets, {} NUMA nodes", facts.cores,
                                         facts.sockets, facts.numa_nodes));
    for (const auto& [program, version] : facts.programs) out += line(program, version);
    for (std::size_t i = 0; i < facts.gpus.size(); ++i)
        out += line("gpu " + std::to_string(i),
                    fmt::format("{}, {}, driver {}", facts.gpus[i].name,
                                humanBytes(facts.gpus[i].memory), facts.gpus[i].driver));
    if (!facts.gpu_links.empty()) out += line("gpu links", facts.gpu_links);
    for (const NicFacts& nic : facts.nics) out += line("network", nicText(nic));
    for (const PartitionFacts& p : facts.partitions)
        out +=
            line("partition",
                 fmt::format("{}{}: {} ({}) of {} processors on {} cores, {}, gres {}; limits {} "
                             "and {} nodes; {}, allocated/idle/other/all {}",
                             p.name, p.is_default ? " (default)" : "", p.node_list, p.nodes,
                             p.processors, p.cores, humanBytes(p.memory), p.gres, p.time_limit,
                             p.nodes_per_job, p.state, p.nodes_in_use));
    for (const std::string& one : facts.switches) out += line("switch", one);
    for (const ScratchFacts& s : facts.scratch)
        out += line("scratch", fmt::format("{}, {} free", s.path, humanBytes(s.free)));
    for (const std::string& one : facts.missing) out += line("missing", one);
    return out;
}

}  // namespace piper::app
