// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "core/base/json.h"
#include "core/cluster/cluster.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

Json example(const std::string& name) {
    return Json::parse(
        test::readText(test::sourceDir() / "packaging/examples/clusters" / (name + ".json")));
}

ClusterSpec calibrated() {
    ClusterSpec c = *readCluster(example("local-cpu"), "local-cpu.json");
    c.price_per_device_hour = 0.125;
    c.levels[0].evidence = Evidence{EvidenceKind::Measured, 1.5e9, 2.25e9, true};
    c.device.kernels = "te";
    c.curves.measured_at = "2025-01-02T03:04:05Z";
    c.curves.host = "bench";
    c.curves.gemm.push_back({Precision::Fp32, 8, 17, 256, 512, FlopsPerSecond(3.1e10)});
    c.curves.attention.push_back({Precision::Fp32, 2, 8, 128, 32, true, FlopsPerSecond(1.7e9)});
    c.curves.memory.push_back({Bytes(4096), BytesPerSecond(7.25e9)});
    c.curves.collective.push_back(
        {CollectiveKind::AllToAll, "flat", 4, 4, Bytes(1024), Seconds(1.0 / 3e5)});
    c.curves.overhead.push_back({"router", Bytes(65536), Seconds(2.5e-5)});
    c.curves.operation.push_back({"expert", "weight_grad", 1.25});
    return c;
}

TEST(ClusterFile, ExamplesRead) {
    const Result<ClusterSpec> h100 = readCluster(example("h100-8x8"), "h100-8x8.json");
    ASSERT_TRUE(h100.ok()) << h100.error().text();
    EXPECT_EQ(h100->numDevices(), 64);
    EXPECT_DOUBLE_EQ(inTflops(h100->device.peak.at(Precision::Bf16)), 989);
    EXPECT_EQ(h100->levels[1].evidence.kind, EvidenceKind::VendorPeak);
    const Result<ClusterSpec> cpu = readCluster(example("local-cpu"), "local-cpu.json");
    ASSERT_TRUE(cpu.ok()) << cpu.error().text();
    EXPECT_EQ(cpu->device.kind, DeviceKind::Cpu);
    EXPECT_EQ(cpu->device.evidence.kind, EvidenceKind::Assumed);
}

TEST(ClusterFile, RoundTripKeepsCurvesAndEvidence) {
    const Json written = writeCluster(calibrated());
    const Result<ClusterSpec> again = readClusterText(written.dump(1), "c.json");
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(writeCluster(*again), written);
    EXPECT_DOUBLE_EQ(again->curves.collective[0].time.value, 1.0 / 3e5);
    EXPECT_EQ(again->device.kernels, "te");
    EXPECT_EQ(again->curves.gemm[0].m, 17);
    EXPECT_TRUE(again->curves.attention[0].backward);
    EXPECT_EQ(again->curves.collective[0].algorithm, "flat");
    EXPECT_EQ(again->curves.overhead[0].operation, "router");
    ASSERT_EQ(again->curves.operation.size(), 1U);
    EXPECT_EQ(again->curves.operation[0].kind, "weight_grad");
    EXPECT_DOUBLE_EQ(again->curves.operation[0].ratio, 1.25);
    EXPECT_TRUE(again->levels[0].evidence.extrapolated);
    EXPECT_DOUBLE_EQ(again->levels[0].evidence.high, 2.25e9);
    EXPECT_DOUBLE_EQ(again->price_per_device_hour, 0.125);
}

TEST(ClusterFile, DefaultClustersRoundTrip) {
    for (const DeviceSpec& device : deviceCatalogue()) {
        const Json written = writeCluster(*defaultCluster(device.name, 16));
        const Result<ClusterSpec> again = readCluster(written, "c.json");
        ASSERT_TRUE(again.ok()) << again.error().text();
        EXPECT_EQ(writeCluster(*again), written);
    }
}

TEST(ClusterFile, LevelsOfTheCatalogueWhenNotGiven) {
    const Json json = Json::parse(R"({"device": "H100", "devices_per_node": 4, "nodes": 3})");
    const Result<ClusterSpec> c = readCluster(json, "c.json");
    ASSERT_TRUE(c.ok()) << c.error().text();
    EXPECT_EQ(c->levels[0].domain_devices, 4);
    EXPECT_EQ(c->levels[1].domain_devices, 12);
}

/// One change to a sound file, by JSON pointer, and what the message must name.
struct BadCluster {
    std::string pointer;
    Json value;  ///< null: removed
    std::string expected_where, expected_text;
};

class BadClusterFile : public ::testing::TestWithParam<BadCluster> {};

TEST_P(BadClusterFile, NamesKeyValueAndRule) {
    const BadCluster& bad = GetParam();
    const Json sound = writeCluster(calibrated());
    const Json::json_pointer at(bad.pointer);
    Json json = sound;
    if (bad.value.is_null())
        json[at.parent_pointer()].erase(at.back());
    else
        json[at] = bad.value;
    const Result<ClusterSpec> c = readCluster(json, "c.json");
    ASSERT_FALSE(c.ok());
    EXPECT_EQ(c.error().code, ErrorCode::InvalidInput);
    EXPECT_NE(c.error().where.find(bad.expected_where), std::string::npos) << c.error().text();
    EXPECT_NE(c.error().text().find(bad.expected_text), std::string::npos) << c.error().text();
}

const BadCluster kBad[] = {
    {"/device", nullptr, "device", "missing"},
    {"/nodes", 0, "nodes", "0 must be at least 1"},
    {"/nodes", "eight", "nodes", "\"eight\""},
    {"/nodez", 8, "c.json", "'nodes'"},
    {"/format_version", 2, "c.json", "newer"},
    {"/device/memory_bytes", -1.0, "device.memory_bytes", "-1"},
    {"/device/peak_flops_per_second/fp32", 0.0, "peak_flops_per_second.fp32", "above 0"},
    {"/device/peak_flops_per_second/bf61", 1e12, "peak_flops_per_second", "'bf16'"},
    {"/device/kind", "tpu", "device.kind", "'gpu'"},
    {"/device/kernels", "mkl", "device.kernels", "\"te\""},
    {"/levels/0/bandwidth_bytes_per_second", -5e9, "levels[0].bandwidth", "above 0"},
    {"/levels/0/taper", 0.5, "levels[0].taper", "at least 1"},
    {"/levels/0/domain_devices", 2, "levels", "the cluster has 4"},
    {"/levels/0/latency_seconds", -1e-6, "levels[0].latency_seconds", "negative"},
    {"/levels/0/evidence/kind", "guess", "evidence.kind", "assumed"},
    {"/levels", "nvlink", "levels", "array"},
    {"/curves/gemm/0/m", 0, "curves.gemm[0].m", "at least 1"},
    {"/curves/gemm/0/flops_per_second", 0.0, "gemm[0].flops_per_second", "above 0"},
    {"/curves/collective/0/kind", "all2all", "collective[0].kind", "'all_to_all'"},
    {"/curves/collective/0/time_seconds", nullptr, "collective[0].time_seconds", "missing"},
    {"/curves/memory", 3, "curves.memory", "array"},
    {"/price_per_device_hour", -1.0, "price_per_device_hour", "-1"},
};

INSTANTIATE_TEST_SUITE_P(Keys, BadClusterFile, ::testing::ValuesIn(kBad));

TEST(ClusterFile, UnknownDeviceByNameStatesWhere) {
    const Json json = Json::parse(R"({"device": "H1000", "devices_per_node": 8})");
    const Result<ClusterSpec> c = readCluster(json, "c.json");
    ASSERT_FALSE(c.ok());
    EXPECT_EQ(c.error().where, "c.json.device");
}

TEST(ClusterFile, OwnDeviceNeedsLevels) {
    Json json = example("local-cpu");
    json["device"]["name"] = "my board";
    json.erase("levels");
    const Result<ClusterSpec> c = readCluster(json, "c.json");
    ASSERT_FALSE(c.ok());
    EXPECT_NE(c.error().text().find("'my board'"), std::string::npos) << c.error().text();
}

}  // namespace
}  // namespace piper
