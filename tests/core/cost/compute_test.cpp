// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "core/cost/cost.h"
#include "core/cost/efficiency.h"
#include "tests/core/resources/plans.h"

namespace piper {
namespace {

using test::smallPlan;

/// A cluster file's curve: rates that saturate with every size, as a CPU's do.
Plan measuredPlan() {
    Plan plan = smallPlan({});
    plan.cluster.device.kind = DeviceKind::Cpu;
    plan.cluster.device.memory_bandwidth = gbps(10);
    plan.cluster.device.launch_overhead = microseconds(1);
    for (const std::int64_t m : {1, 4, 16, 64, 256, 1024})
        for (const std::int64_t n : {64, 256, 1024})
            for (const std::int64_t k : {64, 256, 1024}) {
                const auto md = static_cast<double>(m), nd = static_cast<double>(n),
                           kd = static_cast<double>(k);
                const double time =
                    2e-6 + 2 * md * nd * kd / 100e9 + 4 * (md * kd + kd * nd + md * nd) / 12e9;
                plan.cluster.curves.gemm.push_back(
                    {Precision::Fp32, 1, m, n, k, FlopsPerSecond(2 * md * nd * kd / time)});
            }
    return plan;
}

TEST(Gemm, MeasuredPointsComeBackExactly) {
    const Plan plan = measuredPlan();
    const CostModel model(plan);
    for (const GemmPoint& p : plan.cluster.curves.gemm) {
        const GemmWork work{1, p.m, p.n, p.k, 1};
        const Cost c = model.gemm(work);
        const double measured = work.flops().value / p.rate.value;
        EXPECT_NEAR(c.time.value, measured, measured * 1e-9);
        EXPECT_EQ(c.evidence.kind, EvidenceKind::Measured);
        EXPECT_FALSE(c.evidence.extrapolated);
    }
}

TEST(Gemm, MeasuredTimeGrowsWithEverySizeAndInterpolatesWell) {
    const Plan plan = measuredPlan();
    const CostModel model(plan);
    double last_m = 0, last_n = 0, last_k = 0;
    for (std::int64_t size = 65; size <= 1000; size += 17) {
        const double m = model.gemm({1, size, 256, 256, 1}).time.value;
        const double n = model.gemm({1, 256, size, 256, 1}).time.value;
        const double k = model.gemm({1, 256, 256, size, 1}).time.value;
        EXPECT_GT(m, last_m);
        EXPECT_GT(n, last_n);
        EXPECT_GT(k, last_k);
        last_m = m, last_n = n, last_k = k;
        const double s = static_cast<double>(size);
        const double truth = 2e-6 + 2 * s * 65536 / 100e9 + 4 * (s * 512 + 65536) / 12e9;
        EXPECT_NEAR(m / truth, 1.0, 0.1);
    }
}

TEST(Gemm, OutsideTheCurveIsFlagged) {
    const Plan plan = measuredPlan();
    const CostModel model(plan);
    EXPECT_TRUE(model.gemm({1, 8192, 256, 256, 1}).evidence.extrapolated);
    EXPECT_TRUE(model.gemm({1, 256, 256, 16384, 1}).evidence.extrapolated);
    EXPECT_FALSE(model.gemm({1, 100, 200, 300, 1}).evidence.extrapolated);
    // A CPU loops over groups: no flag, the time of the calls.
    const Cost grouped = model.gemm({4, 64, 256, 256, 1});
    EXPECT_FALSE(grouped.evidence.extrapolated);
    EXPECT_NEAR(grouped.time.value / model.gemm({1, 64, 256, 256, 1}).time.value, 4.0, 0.05);
}

TEST(Gemm, CurvesOfAnotherPrecisionAreNotUsed) {
    Plan plan = measuredPlan();
    plan.precision = Precision::Bf16;
    EXPECT_NE(CostModel(plan).gemm({1, 64, 256, 256, 1}).evidence.kind, EvidenceKind::Measured);
}

TEST(Gemm, PublishedEfficiencyOfAnH100) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    plan.cluster.device.name = "H100 SXM";
    plan.cluster.device.peak[Precision::Bf16] = tflops(989);
    const CostModel model(plan);
    const auto efficiency = [&](std::int64_t m) {
        const GemmWork w{1, m, 4096, 7168, 1};
        return w.flops().value / model.gemm(w).time.value / 989e12;
    };
    // Source: aiconfigurator 095f58a, N 4096, K 7168: 3.5, 13, 29, 49, 72, 77-82 %. The table is a
    // median over shapes.
    EXPECT_NEAR(efficiency(16), 0.035, 0.008);
    EXPECT_NEAR(efficiency(64), 0.13, 0.03);
    EXPECT_NEAR(efficiency(128), 0.29, 0.05);
    EXPECT_NEAR(efficiency(256), 0.49, 0.05);
    EXPECT_NEAR(efficiency(512), 0.72, 0.08);
    EXPECT_NEAR(efficiency(4096), 0.795, 0.03);
    EXPECT_EQ(model.gemm({1, 512, 4096, 7168, 1}).evidence.kind, EvidenceKind::Published);
    EXPECT_FALSE(model.gemm({1, 512, 4096, 7168, 1}).evidence.extrapolated);
    EXPECT_TRUE(model.gemm({1, 4, 4096, 7168, 1}).evidence.extrapolated);
}

TEST(Gemm, ThinExpertsAreLessEfficientThanDenseOnes) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    for (const char* name : {"H100 SXM", "A100 SXM", "B200"}) {
        plan.cluster.device.name = name;
        const CostModel model(plan);
        const GemmWork dense{1, 8192, 4096, 4096, 1}, thin{64, 128, 4096, 4096, 1};
        EXPECT_EQ(dense.flops().value, thin.flops().value);
        EXPECT_GT(model.gemm(thin).time.value, 1.3 * model.gemm(dense).time.value) << name;
        double last = 0;
        for (std::int64_t m = 1; m <= 65536; m *= 2) {
            const double t = model.gemm({1, m, 4096, 4096, 1}).time.value;
            EXPECT_GE(t, last * (1 - 1e-9)) << name << " m " << m;
            last = t;
        }
    }
}

TEST(Gemm, UnknownDeviceIsAssumedAndMissingPeakSaysSo) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    EXPECT_EQ(CostModel(plan).gemm({1, 4096, 4096, 4096, 1}).evidence.kind, EvidenceKind::Assumed);
    plan.precision = Precision::Nvfp4;  // not on the sheet: the slowest known rate stands in
    const Cost c = CostModel(plan).gemm({1, 4096, 4096, 4096, 1});
    EXPECT_EQ(c.evidence.kind, EvidenceKind::Assumed);
    EXPECT_TRUE(c.evidence.extrapolated);
    EXPECT_GT(c.time.value, 2 * std::pow(4096.0, 3) / 100e12);
}

TEST(Attention, MeasuredRateAndItsRange) {
    Plan plan = smallPlan({});
    plan.cluster.curves.attention = {{Precision::Fp32, 1, 8, 128, 64, false, tflops(0.05)},
                                     {Precision::Fp32, 1, 8, 512, 64, false, tflops(0.08)},
                                     {Precision::Fp32, 1, 8, 512, 64, true, tflops(0.04)}};
    const CostModel model(plan);
    AttentionWork w{1, 8, 512, 64, 64, false, causalAttentionFlops(1, 8, 512, 64, 64, false)};
    EXPECT_NEAR(model.attention(w).time.value, w.flops.value / 0.08e12, 1e-9);
    EXPECT_FALSE(model.attention(w).evidence.extrapolated);
    w.backward = true;
    EXPECT_NEAR(model.attention(w).time.value, w.flops.value / 0.04e12, 1e-9);
    w.seq_len = 16384;
    EXPECT_TRUE(model.attention(w).evidence.extrapolated);
}

TEST(Attention, PublishedAndAssumed) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    const AttentionWork w{
        1, 64, 4096, 128, 128, false, causalAttentionFlops(1, 64, 4096, 128, 128, false)};
    plan.cluster.device.name = "B200";
    EXPECT_EQ(CostModel(plan).attention(w).evidence.kind, EvidenceKind::Published);
    EXPECT_NEAR(CostModel(plan).attention(w).time.value, w.flops.value / (1000e12 * 0.439) + 4e-6,
                1e-9);
    plan.cluster.device.name = "H100 SXM";
    EXPECT_EQ(CostModel(plan).attention(w).evidence.kind, EvidenceKind::Assumed);
}

TEST(MemoryBound, DataSheetByHandAndMeasuredExactly) {
    Plan plan = smallPlan({});
    const Cost sheet = CostModel(plan).memoryBound(Bytes(2.4e9), 2);
    EXPECT_NEAR(sheet.time.value, 1e-3 + 8e-6, 1e-12);
    EXPECT_EQ(sheet.evidence.kind, EvidenceKind::VendorPeak);
    plan.cluster.curves.memory = {{mib(1), gbps(5)}, {mib(64), gbps(9)}};
    const CostModel measured(plan);
    EXPECT_NEAR(measured.memoryBound(mib(64)).time.value, mib(64).value / 9e9, 1e-12);
    EXPECT_TRUE(measured.memoryBound(mib(1024)).evidence.extrapolated);
}

TEST(Operation, SumsPartsAndScalesTheHottestRank) {
    Plan plan = smallPlan({});
    const CostModel model(plan);
    OperationWork w;
    w.gemms = {{1, 256, 256, 256, 1}, {1, 512, 256, 256, 2}};
    w.memory_traffic = Bytes(1e6);
    w.kernels = 1;
    const double sum = model.gemm(w.gemms[0]).time.value + model.gemm(w.gemms[1]).time.value +
                       model.memoryBound(w.memory_traffic, 1).time.value;
    EXPECT_DOUBLE_EQ(model.operation(w, Phase::Expert).time.value, sum);
    w.imbalance = 1.5;
    const Cost hot = model.operation(w, Phase::Expert);
    EXPECT_DOUBLE_EQ(hot.time.value, 1.5 * sum);
    EXPECT_EQ(hot.evidence.kind, EvidenceKind::Assumed);
    EXPECT_GT(hot.evidence.high, hot.time.value);
    EXPECT_EQ(model.operation({}, Phase::Expert).time.value, 0);
}

TEST(Operation, MeasuredOverheadReplacesTheBandwidthGuess) {
    Plan plan = smallPlan({});
    plan.cluster.curves.overhead = {{"router", Bytes(1e6), microseconds(700)},
                                    {"router", Bytes(1e7), microseconds(6000)}};
    const CostModel model(plan);
    OperationWork w;
    w.memory_traffic = Bytes(1e6);
    w.kernels = 3;
    EXPECT_NEAR(model.operation(w, Phase::Router).time.value, 700e-6, 1e-12);
    EXPECT_EQ(model.operation(w, Phase::Router).evidence.kind, EvidenceKind::Measured);
    EXPECT_LT(model.operation(w, Phase::Attention).time.value, 100e-6);
}

}  // namespace
}  // namespace piper
