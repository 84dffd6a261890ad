// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/units.h"
#include "core/cluster/cluster.h"
#include "sessions/connection.h"

namespace piper {

struct GpuFacts {
    std::string name;
    Bytes memory;
    std::string driver;
};

/// A network interface and the GPUs on its PCIe switch (nvidia-smi topo -m: PIX or PXB).
struct NicFacts {
    std::string name;
    std::string kind;     ///< "ethernet", "infiniband"
    BytesPerSecond rate;  ///< 0: it does not say
    std::vector<int> gpus_near;
};

/// A partition of Slurm's; nodes of one kind.
struct PartitionFacts {
    std::string name, state, time_limit, gres;
    std::string node_list;      ///< "node[1-16]"
    std::string nodes_in_use;   ///< "3/12/1/16": allocated, idle, other, all
    std::string nodes_per_job;  ///< "1-infinite"
    bool is_default = false;
    std::int64_t nodes = 0;
    std::int64_t processors = 0, cores = 0;  ///< of a node; hardware threads are processors
    Bytes memory;                            ///< of a node
};

struct ScratchFacts {
    std::string path;
    Bytes free;
};

/// What a host says of itself; what could not be found out says so in words.
struct HostFacts {
    std::string host;
    std::string system;
    std::string processor;
    std::int64_t processors = 0;                          ///< hardware threads that may be used
    std::int64_t sockets = 0, cores = 0, numa_nodes = 0;  ///< 0: not found out
    Bytes memory;
    std::map<std::string, std::string> programs;  ///< "mpirun" -> version, or "not found"
    std::vector<GpuFacts> gpus;
    std::int64_t nvlinks = 0;  ///< least number of NVLinks between two GPUs
    std::string gpu_links;     ///< "NV18 between all 8", "SYS between some", ""
    std::vector<NicFacts> nics;
    std::vector<PartitionFacts> partitions;
    std::vector<std::string> switches;  ///< Slurm's topology, one line a switch
    std::vector<ScratchFacts> scratch;  ///< directories that may be written
    std::vector<std::string> missing;   ///< "GPUs: nvidia-smi is not there"
};

/// Asks the host for everything in one exchange, with programs every Linux has; a program that
/// hangs is given up after some seconds. Errors: those of the connection.
[[nodiscard]] Result<HostFacts> discoverHost(Connection& connection);

/// What the script's output says; whatever cannot be understood is left out and named in `missing`.
[[nodiscard]] HostFacts parseHostFacts(std::string_view output);

/// A cluster file of what was found, to accept or edit: `nodes` nodes like this host (0: as many
/// as the default partition of Slurm has). GPUs take the catalogue's numbers, a host without any
/// the numbers of CPU ranks, to be measured by `calibrate`.
/// Errors: Unsupported for a GPU the catalogue does not have, naming it.
[[nodiscard]] Result<ClusterSpec> proposeCluster(const HostFacts& facts, std::int64_t nodes = 0);

}  // namespace piper
