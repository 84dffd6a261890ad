// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "core/cost/cost.h"
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
            // Published times of few rows fall by up to a tenth with more of them.
            EXPECT_GE(t, last * 0.9) << name << " m " << m;
            last = t;
        }
    }
}

TEST(Gemm, RelativesTakeTheirDieOrTheModelAndSaySo) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    const auto cost = [&](const char* device, GemmWork w) {
        plan.cluster.device = *findDevice(device);
        return CostModel(plan).gemm(w);
    };
    const GemmWork large{1, 8192, 8192, 8192, 1};
    EXPECT_EQ(cost("H100", large).evidence.kind, EvidenceKind::Published);
    for (const char* device :
         {"H200", "H800", "B200", "GB200", "B300", "GB300", "MI300X", "MI250X", "A100-40GB"}) {
        const Cost c = cost(device, large);
        EXPECT_EQ(c.evidence.kind, EvidenceKind::VendorPeak) << device;
        EXPECT_LT(c.evidence.low, 0.87 * c.time.value) << device;
        EXPECT_GT(c.evidence.high, 1.15 * c.time.value) << device;
    }
    // No large GEMM beats the largest rate found on the device (MAMF).
    EXPECT_LE(large.flops().value / cost("B200", large).time.value, 1746e12);
    EXPECT_GE(large.flops().value / cost("B200", large).time.value, 0.9 * 1746e12);
    EXPECT_LE(large.flops().value / cost("H100", large).time.value, 795e12);
    // Few rows are bound by memory: the H200 has 1.43 of the H100's.
    const GemmWork few{1, 16, 16384, 16384, 1};
    EXPECT_NEAR(cost("H100", few).time / cost("H200", few).time, 4800.0 / 3350, 0.15);
}

TEST(Gemm, KernelsMeasuredOnOneMachineAreChosenByName) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    plan.cluster.device = *findDevice("B200");
    const GemmWork w{1, 16384, 8192, 8192, 1};
    const double usual = CostModel(plan).gemm(w).time.value;
    plan.cluster.device.kernels = "te";
    const Cost te = CostModel(plan).gemm(w);
    EXPECT_EQ(te.evidence.kind, EvidenceKind::Published);
    // SimuMax 4dcaae5: 1062 TFLOP/s.
    EXPECT_NEAR(w.flops().value / te.time.value / 1e12, 1062.6, 40);
    EXPECT_GT(te.time.value, 1.3 * usual);
}

TEST(Gemm, PrecisionsByTheirPeakAndTheirCast) {
    Plan plan = smallPlan({});
    plan.cluster.device = *findDevice("B200");
    const GemmWork w{1, 16384, 16384, 16384, 1};
    const auto cost = [&](Precision p) {
        plan.precision = p;
        return CostModel(plan).gemm(w);
    };
    const double bf16 = cost(Precision::Bf16).time.value;
    EXPECT_NEAR(bf16 / cost(Precision::Fp8).time.value, 1.9, 0.15);
    EXPECT_NEAR(bf16 / cost(Precision::Mxfp8).time.value, 1.9, 0.15);
    EXPECT_GT(bf16 / cost(Precision::Nvfp4).time.value, 2.8);
    EXPECT_EQ(cost(Precision::Nvfp4).evidence.kind, EvidenceKind::Assumed);
    EXPECT_EQ(cost(Precision::Fp8).evidence.kind, EvidenceKind::VendorPeak);
    // Block-wise FP8 of the H800 is published: DeepGEMM a6d97a1, 1358 TFLOP/s; the cast moves 4
    // bytes an element of the activations.
    plan.cluster.device = *findDevice("H800");
    plan.precision = Precision::Fp8Block;
    const GemmWork block{1, 4096, 7168, 16384, 1};
    const Cost published = CostModel(plan).gemm(block);
    EXPECT_EQ(published.evidence.kind, EvidenceKind::Published);
    EXPECT_NEAR(published.time.value,
                block.flops().value / 1358e12 + 4.0 * 4096 * 16384 / (0.84 * 3400e9), 2e-6);
}

TEST(Gemm, AWeightGradientPaysForItsAccumulation) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    plan.cluster.device = *findDevice("B200");
    // Few tokens: the fp32 gradient of 4096 x 16384 is read and written.
    GemmWork w{1, 4096, 16384, 256, 1};
    const double plain = CostModel(plan).gemm(w).time.value;
    w.accumulates = true;
    const double added = CostModel(plan).gemm(w).time.value;
    EXPECT_GT(added, 2.0 * plain);
    EXPECT_GT(added, 8.0 * 4096 * 16384 / 8e12);
    std::swap(w.m, w.n);
    EXPECT_DOUBLE_EQ(CostModel(plan).gemm(w).time.value, added);
}

TEST(Gemm, ALoopOverGroupsPaysTheHost) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    plan.cluster.device = *findDevice("H100");
    const CostModel model(plan);
    // 64 experts of a few rows: the host's 9 us for each.
    EXPECT_NEAR(model.gemm({64, 16, 1024, 1024, 1}).time.value, 64 * 9e-6, 1e-9);
    const double one = model.gemm({1, 4096, 4096, 4096, 1}).time.value;
    EXPECT_NEAR(model.gemm({8, 4096, 4096, 4096, 1}).time.value, 8 * one, 1e-3 * one);
}

TEST(FusedMoe, PublishedRowsAndOtherDevices) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    plan.cluster.device = *findDevice("H100");
    // aiconfigurator 095f58a, h100_sxm/moe/trtllm: 4096 tokens, top 8 of 256, 3072 x 1024.
    FusedMoeWork w{4096, 8, 256, 1, 3072, 1024};
    const Cost c = CostModel(plan).fusedMoe(w);
    EXPECT_NEAR(c.time.value, 2264.78e-6, 2e-6);
    EXPECT_EQ(c.evidence.kind, EvidenceKind::Published);
    w.tokens = 5000;
    EXPECT_GT(CostModel(plan).fusedMoe(w).time.value, c.time.value);
    plan.cluster.device = *findDevice("GB300");
    const Cost other = CostModel(plan).fusedMoe(w);
    EXPECT_EQ(other.evidence.kind, EvidenceKind::VendorPeak);
    EXPECT_LT(other.time.value, c.time.value);
    EXPECT_EQ(CostModel(plan).fusedMoe({}).time.value, 0.0);
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
    plan.cluster.device = *findDevice("B200");
    AttentionWork w{
        1, 64, 4096, 128, 128, false, causalAttentionFlops(1, 64, 4096, 128, 128, false)};
    const Cost forward = CostModel(plan).attention(w);
    EXPECT_EQ(forward.evidence.kind, EvidenceKind::Published);
    EXPECT_FALSE(forward.evidence.extrapolated);
    // SimuMax 4dcaae5: 0.8715 and 0.8351 of 2250 TFLOP/s (q, k, v contiguous or not), in FLOPs of
    // the full square.
    const double square = 2.0 * w.flops.value;
    EXPECT_NEAR(forward.time.value, square / (2250e12 * std::sqrt(0.8715 * 0.8351)), 1e-7);
    EXPECT_LT(forward.evidence.low, forward.time.value);
    EXPECT_GT(forward.evidence.high, forward.time.value);
    // Its backward pass counts 2.5 forward passes: 0.7294, 0.7252.
    w.backward = true;
    w.flops = w.flops * 2.0;
    EXPECT_NEAR(CostModel(plan).attention(w).time.value,
                2.5 * square / (2250e12 * std::sqrt(0.7294 * 0.7252)), 1e-7);
    plan.cluster.device = *findDevice("GB200");
    EXPECT_EQ(CostModel(plan).attention(w).evidence.kind, EvidenceKind::VendorPeak);
    plan.cluster.device = *findDevice("H100");
    EXPECT_EQ(CostModel(plan).attention(w).evidence.kind, EvidenceKind::Assumed);
}

TEST(Attention, UnequalHeadsArePaddedAndAWindowSavesTime) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    plan.cluster.device = *findDevice("H100");
    const CostModel model(plan);
    const auto time = [&](std::int64_t qk, std::int64_t v, std::int64_t window) {
        return model
            .attention({1, 128, 16384, qk, v, false,
                        causalAttentionFlops(1, 128, 16384, qk, v, false, window)})
            .time.value;
    };
    // MLA's 192 and 128 cost as much as 192 and 192.
    EXPECT_NEAR(time(192, 128, 0) / time(192, 192, 0), 1.0, 0.01);
    EXPECT_NEAR(time(128, 128, 1024) / time(128, 128, 0), 1024.0 * (1 - 1.0 / 32) / 8192, 0.02);
    // Attention stays in BF16 when the GEMMs run in FP8.
    Plan fp8 = plan;
    fp8.precision = Precision::Fp8;
    const AttentionWork w{
        1, 32, 8192, 128, 128, true, causalAttentionFlops(1, 32, 8192, 128, 128, true)};
    EXPECT_DOUBLE_EQ(CostModel(fp8).attention(w).time.value, model.attention(w).time.value);
}

TEST(Attention, UnfusedWritesItsScores) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    plan.cluster.device = *findDevice("A100");
    const CostModel model(plan);
    AttentionWork w{
        1, 32, 4096, 128, 128, false, causalAttentionFlops(1, 32, 4096, 128, 128, false)};
    const double fused = model.attention(w).time.value;
    w.fused = false;
    const Cost unfused = model.attention(w);
    // At least the scores: written by the product, read and written by the softmax, read again.
    EXPECT_GT(unfused.time.value, 4 * 2.0 * 32 * 4096.0 * 4096 / 2039e9);
    EXPECT_GT(unfused.time.value, 2 * fused);
    EXPECT_EQ(unfused.evidence.kind, EvidenceKind::Assumed);
    w.backward = true;
    w.flops = w.flops * 2.0;
    EXPECT_GT(model.attention(w).time.value, 1.4 * unfused.time.value);
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

TEST(MemoryBound, KindsComeMoreOrLessNearTheBandwidth) {
    Plan plan = smallPlan({});
    plan.precision = Precision::Bf16;
    plan.cluster.device = *findDevice("B200");
    const CostModel model(plan);
    const Bytes traffic(8e9);
    // SimuMax 4dcaae5, b200: 0.666 of 8000 GiB/s.
    const Cost copy = model.memoryBound(traffic, 0.0);
    EXPECT_NEAR(copy.time.value, 8e9 / (0.666 * 8000 * 1.073741824e9), 2e-6);
    EXPECT_EQ(copy.evidence.kind, EvidenceKind::Published);
    EXPECT_GT(model.memoryBound(traffic, 0.0, MemoryKind::Permute).time.value, 3 * copy.time.value);
    EXPECT_EQ(model.memoryKind(Phase::HeadLoss), MemoryKind::CrossEntropy);
    plan.fused_cross_entropy = true;
    EXPECT_EQ(CostModel(plan).memoryKind(Phase::HeadLoss), MemoryKind::Elementwise);
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

TEST(Operation, InAStepTakesWhatWasMeasuredThereButForItsCommunication) {
    Plan plan = smallPlan({.ep = 2, .dp = 2});
    OperationWork w;
    w.kind = OperationKind::WeightGrad;
    w.gemms = {{1, 256, 256, 256, 1}};
    CommunicationWork exchange;
    exchange.dimension = "ep";
    exchange.group_size = 2;
    exchange.bytes = exchange.flat_bytes = exchange.hottest_bytes = Bytes(1e6);
    w.communication = exchange;
    const CostModel alone(plan);
    const Seconds compute = alone.gemm(w.gemms[0]).time;
    const Seconds moving = alone.communication(exchange).time;
    ASSERT_GT(moving.value, 0.0);

    plan.cluster.curves.operation = {{"expert", "weight_grad", 1.25}, {"expert", "forward", 2.0}};
    const CostModel in_step(plan);
    EXPECT_DOUBLE_EQ(in_step.operation(w, Phase::Expert).time.value,
                     1.25 * compute.value + moving.value);
    EXPECT_DOUBLE_EQ(in_step.operation(w, Phase::Attention).time.value,
                     compute.value + moving.value)
        << "not measured";
}

}  // namespace
}  // namespace piper
