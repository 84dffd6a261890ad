// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "core/base/json.h"
#include "core/cluster/cluster.h"

namespace piper {
namespace {

TEST(Catalogue, EveryDeviceIsSoundAndNamesItsSource) {
    std::set<std::string> names;
    for (const DeviceSpec& device : deviceCatalogue()) {
        EXPECT_FALSE(device.source.empty()) << device.name;
        EXPECT_TRUE(names.insert(device.name).second) << device.name << " twice";
        for (const std::int64_t nodes : {1, 2, 9, 200}) {
            const Result<ClusterSpec> cluster = defaultCluster(device.name, nodes);
            ASSERT_TRUE(cluster.ok()) << cluster.error().text();
            const std::vector<Error> errors = checkCluster(*cluster);
            EXPECT_TRUE(errors.empty()) << device.name << ": " << errors[0].text();
            EXPECT_TRUE(cluster->numDevices() == 1 ||
                        cluster->levels.back().domain_devices == cluster->numDevices());
        }
    }
    EXPECT_GE(names.size(), 20u);
}

TEST(Catalogue, NumbersOfKnownDevices) {
    const DeviceSpec h100 = *findDevice("H100 SXM");
    EXPECT_DOUBLE_EQ(inTflops(*h100.peakFor(Precision::Bf16)), 989);
    EXPECT_DOUBLE_EQ(inTflops(*h100.peakFor(Precision::Fp8)), 1979);
    EXPECT_DOUBLE_EQ(inGiB(h100.memory), 80);
    EXPECT_DOUBLE_EQ(h100.memory_bandwidth.value, 3350e9);
    EXPECT_DOUBLE_EQ(inTflops(*findDevice("MI250X GCD")->peakFor(Precision::Fp16)), 191.5);
    // The driver of a B300 shows 275040 MiB.
    EXPECT_DOUBLE_EQ(findDevice("B300")->memory.value, 275040.0 * 1048576.0);
}

TEST(Catalogue, ShortNamesAndAnyCase) {
    EXPECT_EQ(findDevice("h100")->name, "H100 SXM");
    EXPECT_EQ(findDevice("A100")->name, "A100 SXM 80GB");
    EXPECT_EQ(findDevice("gb200 nvl72")->name, "GB200");
    EXPECT_EQ(findDevice("CPU")->kind, DeviceKind::Cpu);
}

TEST(Catalogue, UnknownDeviceNamesTheNearest) {
    const Result<DeviceSpec> device = findDevice("h100 sxn");
    ASSERT_FALSE(device.ok());
    EXPECT_EQ(device.error().code, ErrorCode::NotFound);
    EXPECT_NE(device.error().message.find("'H100 SXM'"), std::string::npos)
        << device.error().text();
}

TEST(Catalogue, PrecisionADeviceLacksNamesThoseItHas) {
    const Result<FlopsPerSecond> rate = findDevice("A100")->peakFor(Precision::Fp8);
    ASSERT_FALSE(rate.ok());
    EXPECT_NE(rate.error().text().find("bf16"), std::string::npos);
}

TEST(Catalogue, H100NodesHaveNvlinkInsideAndInfiniBandBetween) {
    const ClusterSpec c = *defaultCluster("H100 SXM", 8);
    ASSERT_EQ(c.levels.size(), 2u);
    EXPECT_EQ(c.levels[0].name, "nvlink");
    EXPECT_EQ(c.levels[0].domain_devices, 8);
    EXPECT_DOUBLE_EQ(c.levels[0].bandwidth.value, 450e9);
    EXPECT_EQ(c.levels[1].domain_devices, 64);
    EXPECT_DOUBLE_EQ(c.levels[1].bandwidth.value, 50e9);
    EXPECT_EQ(defaultCluster("H100 SXM", 1)->levels.size(), 1u);
}

TEST(Catalogue, Nvl72JoinsEighteenNodes) {
    const ClusterSpec c = *defaultCluster("GB200", 36);
    EXPECT_EQ(c.devices_per_node, 4);
    EXPECT_EQ(c.levels[0].domain_devices, 72);
    EXPECT_EQ(c.levels[1].domain_devices, 144);
    EXPECT_EQ(defaultCluster("GB200", 2)->levels.size(), 1u);
}

TEST(Catalogue, FrontierLevels) {
    const ClusterSpec c = *defaultCluster("MI250X GCD", 256);
    ASSERT_EQ(c.levels.size(), 5u);
    EXPECT_EQ(c.levels[0].domain_devices, 2);
    EXPECT_DOUBLE_EQ(c.levels[0].bandwidth.value, 200e9);
    EXPECT_EQ(c.levels[2].domain_devices, 32);  // 4 nodes on one switch
    EXPECT_DOUBLE_EQ(c.levels[2].bandwidth.value, 12.5e9);
    EXPECT_DOUBLE_EQ(c.levels[2].port_bandwidth.value, 25e9);
    EXPECT_DOUBLE_EQ(c.levels[3].taper, 1.75);
    // Four nodes stay inside one switch: nothing leaves it.
    const ClusterSpec small = *defaultCluster("Frontier", 4);
    ASSERT_EQ(small.levels.size(), 3u);
    EXPECT_DOUBLE_EQ(small.levels.back().taper, 1.0);
}

TEST(Catalogue, TheSameDevicesOnEthernet) {
    const ClusterSpec usual = *defaultCluster("H100 SXM", 8);
    const ClusterSpec plain = *defaultCluster("h100@ethernet", 8);
    EXPECT_EQ(plain.device.name, usual.device.name);
    ASSERT_EQ(plain.levels.size(), 2u);
    EXPECT_EQ(plain.levels[0].name, "nvlink");
    EXPECT_EQ(plain.levels[1].name, "ethernet");
    EXPECT_DOUBLE_EQ(plain.levels[1].bandwidth.value, 100e9 / 8 / 8);  // a port for 8 devices
    EXPECT_DOUBLE_EQ(plain.levels[1].port_bandwidth.value, 100e9 / 8);
    EXPECT_EQ(plain.levels[1].evidence.kind, EvidenceKind::Assumed);
    // Ethernet between the racks, NVLink inside them; Frontier's nodes without Slingshot.
    EXPECT_EQ(defaultCluster("GB200@ethernet", 36)->levels[0].domain_devices, 72);
    EXPECT_EQ(defaultCluster("MI250X@Ethernet", 256)->levels.back().name, "ethernet");
    const auto unknown = defaultCluster("H100@token_ring", 8);
    ASSERT_FALSE(unknown.ok());
    EXPECT_NE(unknown.error().text().find("token_ring"), std::string::npos);
    const auto file = readClusterText(
        R"({"format_version": 1, "device": "H100", "devices_per_node": 8, "nodes": 4,
            "fabric": "ethernet"})",
        "c.json");
    ASSERT_TRUE(file.ok()) << file.error().text();
    EXPECT_EQ(file->levels.back().name, "ethernet");
    EXPECT_FALSE(readClusterText(R"({"format_version": 1, "device": "H100", "devices_per_node": 8,
                                     "fabric": "string"})",
                                 "c.json")
                     .ok());
}

TEST(Catalogue, RatesThatNoSourceStatesAreAssumed) {
    const DeviceSpec b200 = *findDevice("B200");
    EXPECT_EQ(b200.peakEvidence(Precision::Bf16).kind, EvidenceKind::VendorPeak);
    EXPECT_EQ(b200.peakEvidence(Precision::Nvfp4).kind, EvidenceKind::Assumed);
    EXPECT_EQ(findDevice("H100")->peakEvidence(Precision::Tf32).kind, EvidenceKind::Assumed);
    // The NICs of an A100 node are an assumption of the source, its NVLink is not.
    const ClusterSpec a100 = *defaultCluster("A100", 2);
    EXPECT_EQ(a100.levels[0].evidence.kind, EvidenceKind::VendorPeak);
    EXPECT_EQ(a100.levels[1].evidence.kind, EvidenceKind::Assumed);
    ClusterSpec written = a100;
    const auto again = readCluster(writeCluster(written), "again");
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(again->device.assumed_peaks, a100.device.assumed_peaks);
}

TEST(Catalogue, JobsThatDoNotFillRacksArePlacedInSegments) {
    const auto rack = [](std::int64_t nodes) {
        const std::vector<LinkLevel> levels = *defaultLevels("GB200", 4, nodes);
        return levels[levels.size() > 2 ? levels.size() - 2 : 0].domain_devices;
    };
    EXPECT_EQ(rack(2), 8);    // within one rack
    EXPECT_EQ(rack(18), 72);  // a whole rack
    EXPECT_EQ(rack(36), 72);  // two whole racks
    EXPECT_EQ(rack(64), 64);  // 256 devices in four racks
}

TEST(Catalogue, ImpossibleSizesAreRefused) {
    EXPECT_FALSE(defaultCluster("H100", 0).ok());
    EXPECT_FALSE(defaultCluster("H100", -3).ok());
    EXPECT_FALSE(defaultCluster("H1000 XYZ", 1).ok());
    EXPECT_FALSE(defaultLevels("H100", std::int64_t{1} << 62, 8).ok());
}

TEST(Precision, ElementBytes) {
    EXPECT_DOUBLE_EQ(elementBytes(Precision::Bf16).value, 2.0);
    EXPECT_DOUBLE_EQ(elementBytes(Precision::Nvfp4).value, 0.5);
    EXPECT_DOUBLE_EQ(elementBytes(Precision::Fp32).value, 4.0);
}

}  // namespace
}  // namespace piper
