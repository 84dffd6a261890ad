// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>

#include "kernels/cpu/bench_support.h"

namespace piper {

namespace {

using bench::Stage;
using reference::Tensor;

constexpr Seconds kGemmBudget(0.05);

FlopsPerSecond rateOf(double flops, Seconds time) {
    return FlopsPerSecond(flops / time.value);
}

Result<GemmPoint> plainPoint(Stage& stage, std::int64_t m, std::int64_t n, std::int64_t k) {
    PIPER_ASSIGN(const Matrix x, stage.filled(m, k));
    PIPER_ASSIGN(const Matrix w, stage.filled(n, k));
    PIPER_ASSIGN(const Matrix y, stage.filled(m, n));
    const auto call = [&] { return stage.cpu().linearForward(x, w, y, Store::Overwrite); };
    PIPER_TRY(call());
    const Tensor weights{ConstMatrix(w)};
    for (const std::int64_t r : bench::sampleRows(m))
        PIPER_TRY(bench::checkAgainst(
            y.slice(r, 1), reference::linear(Tensor(ConstMatrix(x.slice(r, 1))), weights),
            fmt::format("gemm {} x {} x {}, row {}", m, n, k, r)));
    PIPER_ASSIGN(const Seconds time, bench::medianTime(call, kGemmBudget));
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n * k);
    return GemmPoint{Precision::Fp32, 1, m, n, k, rateOf(flops, time)};
}

Result<GemmPoint> groupedPoint(Stage& stage, std::int64_t groups, std::int64_t m, std::int64_t n,
                               std::int64_t k) {
    PIPER_ASSIGN(const Matrix x, stage.filled(groups * m, k));
    PIPER_ASSIGN(const Matrix w, stage.filled(groups * n, k));
    PIPER_ASSIGN(const Matrix y, stage.filled(groups * m, n));
    std::vector<std::int64_t> offsets;
    for (std::int64_t g = 0; g <= groups; ++g) offsets.push_back(g * m);
    const auto call = [&] { return stage.cpu().groupedLinearForward(x, offsets, w, y); };
    PIPER_TRY(call());
    for (const std::int64_t g : bench::sampleRows(groups))
        PIPER_TRY(bench::checkAgainst(
            y.slice(g * m, 1),
            reference::linear(Tensor(ConstMatrix(x.slice(g * m, 1))),
                              Tensor(ConstMatrix(w.slice(g * n, n)))),
            fmt::format("gemm of {} groups of {} x {} x {}, group {}", groups, m, n, k, g)));
    PIPER_ASSIGN(const Seconds time, bench::medianTime(call, kGemmBudget));
    const double flops = 2.0 * static_cast<double>(groups * m) * static_cast<double>(n * k);
    return GemmPoint{Precision::Fp32, groups, m, n, k, rateOf(flops, time)};
}

Tensor reference1(Matrix x) {
    return Tensor(ConstMatrix(x));
}

/// Checks a whole call of up to 256 tokens; longer ones run the same tiles more often.
Status checkAttention(Stage& stage, const AttentionShape& s, const std::vector<Matrix>& x) {
    const std::string what =
        fmt::format("attention of seq_len {} head_dim {}", s.seq_len, s.qk_head_dim);
    const Tensor q = reference1(x[0]), k = reference1(x[1]), v = reference1(x[2]);
    PIPER_TRY(stage.cpu().attentionForward(s, x[0], x[1], x[2], x[3], x[4].span()));
    PIPER_TRY(bench::checkAgainst(x[3], reference::attention(s, q, k, v).o, what));
    PIPER_TRY(stage.cpu().attentionBackward(s, x[0], x[1], x[2], x[3], x[4].span(), x[5], x[6],
                                            x[7], x[8]));
    const auto grad = reference::attentionGrad(s, q, k, v, reference1(x[5]));
    PIPER_TRY(bench::checkAgainst(x[6], grad.dq, what + ", dq"));
    PIPER_TRY(bench::checkAgainst(x[7], grad.dk, what + ", dk"));
    return bench::checkAgainst(x[8], grad.dv, what + ", dv");
}

Status attentionPoints(Stage& stage, const AttentionShape& s, std::vector<AttentionPoint>& out) {
    std::vector<Matrix> x;  // q k v o lse d_o dq dk dv
    const std::int64_t width = s.num_heads * s.qk_head_dim;
    for (int i = 0; i < 9; ++i) {
        PIPER_ASSIGN(const Matrix one,
                     i == 4 ? stage.filled(1, s.lseSize()) : stage.filled(s.rows(), width));
        x.push_back(one);
    }
    if (s.seq_len <= 256) PIPER_TRY(checkAttention(stage, s, x));
    for (const bool backward : {false, true}) {
        const auto call = [&] {
            return backward ? stage.cpu().attentionBackward(s, x[0], x[1], x[2], x[3], x[4].span(),
                                                            x[5], x[6], x[7], x[8])
                            : stage.cpu().attentionForward(s, x[0], x[1], x[2], x[3], x[4].span());
        };
        PIPER_ASSIGN(const Seconds time, bench::medianTime(call, kGemmBudget));
        out.push_back({Precision::Fp32, s.batch, s.num_heads, s.seq_len, s.qk_head_dim, backward,
                       rateOf(attentionFlops(s, backward), time)});
    }
    return {};
}

}  // namespace

Result<std::vector<GemmPoint>> benchGemm(BenchEffort effort) {
    const bool full = effort == BenchEffort::Full;
    std::vector<std::array<std::int64_t, 2>> sizes{{256, 256}, {512, 256}, {256, 512}};
    if (full) sizes.insert(sizes.end(), {{1024, 512}, {512, 1024}, {1024, 4096}});
    std::vector<std::int64_t> rows{4, 16, 64, 256};
    if (full) rows = {1, 4, 16, 32, 64, 128, 256, 512, 1024};
    std::vector<GemmPoint> out;
    for (const auto& [n, k] : sizes) {
        PIPER_ASSIGN(const std::unique_ptr<Stage> stage, Stage::make());
        for (const std::int64_t m : rows) {
            PIPER_ASSIGN(out.emplace_back(), plainPoint(*stage, m, n, k));
        }
        if (n * k > 1024 * 1024) continue;
        for (const std::int64_t m : rows) {
            if (m > 256) break;
            PIPER_ASSIGN(out.emplace_back(), groupedPoint(*stage, full ? 8 : 4, m, n, k));
        }
    }
    return out;
}

Result<std::vector<AttentionPoint>> benchAttention(BenchEffort effort) {
    std::vector<std::int64_t> lengths{64, 128, 256};
    if (effort == BenchEffort::Full) lengths.insert(lengths.end(), {512, 1024, 2048});
    std::vector<AttentionPoint> out;
    for (const std::int64_t head_dim : {32, 64})
        for (const std::int64_t seq_len : lengths) {
            PIPER_ASSIGN(const std::unique_ptr<Stage> stage, Stage::make());
            PIPER_TRY(attentionPoints(*stage, {1, seq_len, 4, 4, head_dim, head_dim}, out));
        }
    return out;
}

}  // namespace piper
