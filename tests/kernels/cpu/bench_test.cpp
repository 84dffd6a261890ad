// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "kernels/cpu/bench_support.h"

namespace piper {
namespace {

using ::testing::HasSubstr;

TEST(CpuBench, QuickCurvesCoverSkinnyAndGroupedProductsAndBothPasses) {
    const Result<MeasuredCurves> curves = benchDevice(BenchEffort::Quick);
    ASSERT_TRUE(curves.ok()) << curves.error().text();
    const auto& gemm = curves->gemm;
    EXPECT_TRUE(std::any_of(gemm.begin(), gemm.end(),
                            [](const GemmPoint& p) { return p.groups == 1 && p.m <= 4; }));
    EXPECT_TRUE(std::any_of(gemm.begin(), gemm.end(),
                            [](const GemmPoint& p) { return p.groups > 1 && p.m >= 64; }));
    for (const GemmPoint& p : gemm) {
        EXPECT_GT(p.rate.value, 0.0);
        EXPECT_EQ(p.precision, Precision::Fp32);
    }
    std::set<std::pair<std::int64_t, bool>> passes;
    for (const AttentionPoint& p : curves->attention) {
        EXPECT_GT(p.rate.value, 0.0);
        passes.emplace(p.seq_len, p.backward);
    }
    EXPECT_EQ(passes.size(), 6U);
    EXPECT_GE(curves->memory.size(), 3U);
    std::set<std::string> operations;
    for (const OverheadPoint& p : curves->overhead) {
        EXPECT_GT(p.time.value, 0.0);
        EXPECT_GT(p.size.value, 0.0);
        operations.insert(p.operation);
    }
    EXPECT_EQ(operations, (std::set<std::string>{"activation", "combine", "embedding", "head_loss",
                                                 "norm", "optimizer", "permute", "router"}));
}

TEST(CpuBench, AWrongResultStopsTheBenchmarkAndIsNamed) {
    std::vector<float> got{1.0F, 2.0F, 3.0F};
    const reference::Tensor want{ConstMatrix(got.data(), 1, 3)};
    EXPECT_TRUE(bench::checkAgainst(Matrix(got.data(), 1, 3), want, "gemm").ok());
    for (const float bad : {2.001F, std::numeric_limits<float>::quiet_NaN()}) {
        got[1] = bad;
        const Status status = bench::checkAgainst(Matrix(got.data(), 1, 3), want, "gemm");
        ASSERT_FALSE(status.ok());
        EXPECT_THAT(status.error().message, HasSubstr("gemm: element 1"));
    }
}

TEST(CpuBench, AFailingCallEndsTheTiming) {
    int calls = 0;
    const Result<Seconds> time = bench::medianTime(
        [&]() -> Status {
            if (++calls == 3) return fail(ErrorCode::External, "device lost");
            return {};
        },
        Seconds(0.01));
    ASSERT_FALSE(time.ok());
    EXPECT_EQ(calls, 3);
}

TEST(CpuBench, SampledRowsIncludeFirstAndLast) {
    EXPECT_EQ(bench::sampleRows(1), (std::vector<std::int64_t>{0}));
    EXPECT_EQ(bench::sampleRows(100).front(), 0);
    EXPECT_EQ(bench::sampleRows(100).back(), 99);
}

TEST(CpuBench, ExpertsBesideTheirPeersCountTheFlopsOfAPass) {
    const auto rows = benchExperts({3, 40, 24}, {2, 7}, 2);
    ASSERT_TRUE(rows.ok()) << rows.error().text();
    ASSERT_EQ(rows->size(), 8U);
    for (const ExpertPairs& row : *rows) {
        EXPECT_EQ(row.flops, 3.0 * static_cast<double>(row.tokens) * 2 * 40 * 24 * 3);
        EXPECT_EQ(row.own.size(), 2U);
        EXPECT_EQ(row.peer_seconds.size(), 2U);
    }
}

}  // namespace
}  // namespace piper
