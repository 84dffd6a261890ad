// SPDX-License-Identifier: Apache-2.0
#include "core/cost/kernel_model.h"

#include <gtest/gtest.h>

namespace piper {
namespace {

/// Round numbers: 100 units of 10 TFLOP/s each, 1 TB/s.
KernelSite roundSite() {
    KernelSite site;
    site.peak = 1e15;
    site.bandwidth = 1e12;
    site.units = 100;
    site.gemm = {1.0, 1.0, 1e15, 1e-6, 5e-6, 0.0, 0.0};
    return site;
}

KernelShape gemm(double m, double n, double k) {
    KernelShape s;
    s.m = m;
    s.n = n;
    s.k = k;
    return s;
}

TEST(KernelModel, OneWaveByHand) {
    // 100 tiles of 128 x 256 at 10 TFLOP/s each: 2 x 128 x 256 x 8192 / 1e13.
    const double wave = 2.0 * 128 * 256 * 8192 / 1e13;
    KernelSite site = roundSite();
    site.bandwidth = 1e14;
    const double full = kernelSeconds(site, gemm(1280, 2560, 8192));
    EXPECT_NEAR(full, 5e-6 + wave + 1e-6, 1e-9);
    // One row more needs a second wave, though smaller tiles soften it.
    const double more = kernelSeconds(site, gemm(1281, 2560, 8192));
    EXPECT_GT(more, 1.1 * full);
    EXPECT_LE(more, 5e-6 + 2 * (wave + 1e-6) + 1e-9);
}

TEST(KernelModel, FewRowsCostTheWeights) {
    const double seconds = kernelSeconds(roundSite(), gemm(16, 16384, 16384));
    EXPECT_NEAR(seconds, 5e-6 + 2 * (16384.0 * 16384 + 2 * 16 * 16384) / 1e12, 1e-8);
    KernelSite half = roundSite();
    half.element_bytes = 1.0;
    EXPECT_LT(kernelSeconds(half, gemm(16, 16384, 16384)), 0.55 * seconds);
}

TEST(KernelModel, TimesGrowWithEverySize) {
    for (const char* name : {"A100", "H100", "B200", "MI300X", "unknown"}) {
        KernelSite site = roundSite();
        const Chip chip = chipOf(name);
        site.units = chip.units;
        site.gemm = familyConstants(chip, Precision::Bf16);
        double last_m = 0, last_n = 0, last_k = 0;
        for (double size = 8; size < 30000; size *= 1.13) {
            const double whole = static_cast<double>(static_cast<std::int64_t>(size));
            const double m = kernelSeconds(site, gemm(whole, 2048, 2048));
            const double n = kernelSeconds(site, gemm(2048, whole, 2048));
            const double k = kernelSeconds(site, gemm(2048, 2048, whole));
            EXPECT_GE(m, last_m) << name << size;
            EXPECT_GE(n, last_n) << name << size;
            EXPECT_GE(k, last_k * (1 - 1e-12)) << name << size;
            last_m = m, last_n = n, last_k = k;
        }
    }
}

TEST(KernelModel, AttentionHasAFloorAndScales) {
    KernelSite site = roundSite();
    site.attention = {{{0.5, 4e-5, 1e-8}, {0.4, 3e-5, 2e-8}}};
    KernelShape s{KernelKind::Attention, false, 1, 4096, 128, 128, 2.0, 1.0, 2048};
    // One head: its keys one after the other.
    EXPECT_NEAR(kernelSeconds(site, s), 4e-5 + 4096 * 1e-8, 1e-12);
    s.groups = 1000;
    EXPECT_NEAR(kernelSeconds(site, s), 4e-5 + s.flops() / 0.5e15, 1e-12);
    EXPECT_DOUBLE_EQ(s.flops(), 2.0 * 1000 * 4096 * 2048 * 256);
    s.backward = true;
    EXPECT_DOUBLE_EQ(s.flops(), 2.5 * 2.0 * 1000 * 4096 * 2048 * 256);
}

TEST(KernelModel, FusedMoePaysForTheRowsOfAllRanks) {
    KernelSite site = roundSite();
    site.gemm.all_rows_share = 1.0;
    KernelShape s{KernelKind::FusedMoe, false, 8, 128, 1024, 2048, 2.0, 1.0, 0.0};
    const double alone = kernelSeconds(site, s);
    s.ep = 8;
    EXPECT_NEAR(kernelSeconds(site, s) - alone, 7 * 2.0 * 8 * 128 * 2048 / 1e12, 1e-12);
}

TEST(KernelModel, ChipsAndShares) {
    EXPECT_EQ(chipOf("GB200").die, Die::Gb100);
    EXPECT_EQ(chipOf("B300 SXM").die, Die::Gb110);
    EXPECT_EQ(chipOf("H20").units, 78);
    EXPECT_EQ(chipOf("a GPU").die, Die::Unknown);
    EXPECT_TRUE(sustainedShare(chipOf("H100 SXM"), Precision::Bf16).published);
    EXPECT_FALSE(sustainedShare(chipOf("A100 SXM 80GB"), Precision::Fp8).published);
    EXPECT_NEAR(sustainedShare(chipOf("B200 SXM"), Precision::Fp8).value, 3432.5 / 4500, 1e-3);
    EXPECT_EQ(rowPadding(Precision::Bf16), 1);
    EXPECT_EQ(rowPadding(Precision::Fp8), 16);
    EXPECT_EQ(rowPadding(Precision::Mxfp8), 32);
}

}  // namespace
}  // namespace piper
