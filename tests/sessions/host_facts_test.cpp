// SPDX-License-Identifier: Apache-2.0
#include "sessions/host_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sessions/local_connection.h"

namespace piper {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// What two H100 of a DGX and their log-in node print, cut to two GPUs and two NICs.
constexpr const char* kGpuNode = R"sh(banner of the site
== host
dgx01
== nproc
112
== os
PRETTY_NAME="Ubuntu 22.04.4 LTS"
NAME="Ubuntu"
== memory
MemTotal:       2113395276 kB
== lscpu
Architecture:            x86_64
Model name:              Intel(R) Xeon(R) Platinum 8480C
Thread(s) per core:      1
Core(s) per socket:      56
Socket(s):               2
NUMA node(s):            2
== mpirun
mpirun (Open MPI) 4.1.5
== srun
slurm 23.02.4
== nvcc
Cuda compilation tools, release 12.2, V12.2.140
== nccl
/usr/lib/x86_64-linux-gnu/libnccl.so.2.19.3
== nvidia-smi
| NVIDIA-SMI 535.161.08   Driver Version: 535.161.08   CUDA Version: 12.2     |
== gpus
NVIDIA H100 80GB HBM3, 81559, 535.161.08
NVIDIA H100 80GB HBM3, 81559, 535.161.08
== topo
	GPU0	GPU1	NIC0	NIC1	CPU Affinity	NUMA Affinity	GPU NUMA ID
GPU0	 X 	NV18	PXB	SYS	0-55	0		N/A
GPU1	NV18	 X 	SYS	PXB	0-55	0		N/A
NIC0	PXB	SYS	 X 	SYS
NIC1	SYS	PXB	SYS	 X

Legend:
  X    = Self
  PXB  = Connection traversing multiple PCIe bridges

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
== nics
ethernet eth0 1000
infiniband mlx5_0 400 Gb/sec (4X NDR) InfiniBand
infiniband mlx5_1 400 Gb/sec (4X NDR) InfiniBand
== partitions
debug|up|30:00|2|112|2063000|gpu:h100:8(S:0-1)|debug|d[1-2]|0/2/0/2|1-2|2|28
batch|up|2-00:00:00|16|112|2063000|gpu:h100:8(S:0-1)|batch*|n[01-16]|4/11/1/16|1-infinite|2|28
== topology
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=dgx[01-08]
== scratch
104857600 /scratch
== end
)sh";

TEST(HostFacts, ReadsAGpuNodeWithSlurm) {
    const HostFacts f = parseHostFacts(kGpuNode);
    EXPECT_EQ(f.host, "dgx01");
    EXPECT_EQ(f.system, "Ubuntu 22.04.4 LTS");
    EXPECT_EQ(f.processors, 112);
    EXPECT_EQ(f.cores, 112);
    EXPECT_EQ(f.numa_nodes, 2);
    EXPECT_EQ(f.memory.value, 2113395276.0 * 1024);
    EXPECT_EQ(f.programs.at("nccl"), "2.19.3");
    EXPECT_THAT(f.programs.at("nvcc"), HasSubstr("12.2"));
    ASSERT_EQ(f.gpus.size(), 2U);
    EXPECT_EQ(f.gpus[0].driver, "535.161.08");
    EXPECT_EQ(f.nvlinks, 18);
    EXPECT_EQ(f.gpu_links, "NV18 between all 2");
    ASSERT_EQ(f.nics.size(), 3U);
    EXPECT_EQ(f.nics[1].name, "mlx5_0");
    EXPECT_EQ(f.nics[1].rate.value, 50e9);
    EXPECT_THAT(f.nics[1].gpus_near, ElementsAre(0));
    EXPECT_THAT(f.nics[2].gpus_near, ElementsAre(1));
    ASSERT_EQ(f.partitions.size(), 2U);
    EXPECT_TRUE(f.partitions[1].is_default);
    EXPECT_EQ(f.partitions[1].nodes, 16);
    EXPECT_EQ(f.partitions[1].processors, 112);
    EXPECT_EQ(f.partitions[1].cores, 56);
    EXPECT_EQ(f.partitions[1].node_list, "n[01-16]");
    ASSERT_EQ(f.switches.size(), 1U);
    ASSERT_EQ(f.scratch.size(), 1U);
    EXPECT_EQ(f.scratch[0].path, "/scratch");
    EXPECT_TRUE(f.missing.empty()) << f.missing.front();

    const auto cluster = proposeCluster(f);
    ASSERT_TRUE(cluster.ok()) << cluster.error().text();
    EXPECT_EQ(cluster->device.name, "H100 SXM");
    EXPECT_EQ(cluster->devices_per_node, 8);
    EXPECT_EQ(cluster->nodes, 16);
    EXPECT_TRUE(checkCluster(*cluster).empty());
    EXPECT_EQ(proposeCluster(f, 4)->nodes, 4);
}

TEST(HostFacts, SlurmsNodesTakeARankACoreNotAHardwareThread) {
    const HostFacts f = parseHostFacts(
        "== host\nlogin\n== nproc\n4\n== srun\nslurm 22.05.8\n== partitions\n"
        "cpu|up|1:00:00|3|64|256000|(null)|cpu*|c[1-3]|0/3/0/3|1-3|2|16\n== end\n");
    ASSERT_EQ(f.partitions.size(), 1U);
    const auto cluster = proposeCluster(f);
    ASSERT_TRUE(cluster.ok()) << cluster.error().text();
    EXPECT_EQ(cluster->devices_per_node, 32);
    EXPECT_EQ(cluster->nodes, 3);
}

TEST(HostFacts, AHostWithNothingSaysWhatIsMissing) {
    const HostFacts f = parseHostFacts(
        "== host\nplain\n== nproc\n4\n== memory\nMemTotal: 8000000 "
        "kB\n== end\n");
    EXPECT_EQ(f.processors, 4);
    EXPECT_EQ(f.programs.at("mpirun"), "not found");
    EXPECT_THAT(f.missing, Contains(HasSubstr("nvidia-smi is not there")));
    EXPECT_THAT(f.missing, Contains(HasSubstr("Slurm: not there")));
    EXPECT_THAT(f.missing, Contains(HasSubstr("no mpirun")));
    EXPECT_THAT(f.missing, Contains(HasSubstr("lscpu")));
    const auto cluster = proposeCluster(f);
    ASSERT_TRUE(cluster.ok()) << cluster.error().text();
    EXPECT_EQ(cluster->device.kind, DeviceKind::Cpu);
    EXPECT_EQ(cluster->devices_per_node, 4);
    EXPECT_TRUE(checkCluster(*cluster).empty());
}

TEST(HostFacts, NonsenseIsLeftOutAndNamed) {
    HostFacts f = parseHostFacts(
        "== host\n\033[31mevil\033[0m\n== nproc\n-7\n== nvidia-smi\nFailed to initialize NVML\n"
        "== gpus\nFailed to initialize NVML: Driver/library version mismatch\n"
        "== partitions\nslurm_load_partitions: Unable to contact controller\n"
        "== nics\nethernet eth0 -1\nethernet\n== scratch\nno path\n12 relative\n== topo\nGPU0\n");
    EXPECT_EQ(f.host, "evil");
    EXPECT_EQ(f.processors, 0);
    EXPECT_TRUE(f.gpus.empty());
    EXPECT_TRUE(f.partitions.empty());
    EXPECT_TRUE(f.scratch.empty());
    ASSERT_EQ(f.nics.size(), 1U);
    EXPECT_EQ(f.nics[0].rate.value, 0);
    EXPECT_THAT(f.missing, Contains(HasSubstr("version mismatch")));
    EXPECT_THAT(f.missing, Contains(HasSubstr("Unable to contact controller")));
    EXPECT_THAT(f.missing, Contains(HasSubstr("ended early")));
    EXPECT_TRUE(parseHostFacts("").gpus.empty());
}

TEST(HostFacts, DevicesAreTakenByNameMemoryAndBus) {
    const auto device = [](const char* name, double mebibytes) -> std::string {
        HostFacts f;
        f.gpus = {{name, mib(mebibytes), "1"}};
        const auto cluster = proposeCluster(f);
        return cluster.ok() ? cluster->device.name : cluster.error().message;
    };
    EXPECT_EQ(device("NVIDIA A100-SXM4-80GB", 81920), "A100 SXM 80GB");
    EXPECT_EQ(device("NVIDIA A100-SXM4-40GB", 40960), "A100 SXM 40GB");
    EXPECT_EQ(device("NVIDIA H100 PCIe", 81559), "H100 PCIe");
    EXPECT_EQ(device("NVIDIA H200", 143771), "H200 SXM");
    EXPECT_THAT(device("NVIDIA A100-PCIE-40GB", 40960), HasSubstr("no device"));
    EXPECT_THAT(device("NVIDIA GeForce RTX 4090", 24564), HasSubstr("no device"));
}

TEST(HostFacts, ThisMachineAnswers) {
    const auto local = openLocalConnection();
    const auto f = discoverHost(*local);
    ASSERT_TRUE(f.ok()) << f.error().text();
    EXPECT_FALSE(f->host.empty());
    EXPECT_GT(f->processors, 0);
    EXPECT_GT(f->memory.value, 1e8);
    EXPECT_FALSE(f->scratch.empty());
    // Slurm's programs on a machine without a cluster print faults, which are no version.
    EXPECT_THAT(f->programs.at("srun"), Not(HasSubstr("error")));
    EXPECT_THAT(f->programs.at("mpirun"), Not(HasSubstr("error")));
}

}  // namespace
}  // namespace piper
