// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "kernels/cpu/bench_support.h"
#include "kernels/ops/permutation.h"

namespace piper {

namespace {

using bench::Stage;
using reference::Tensor;

constexpr Seconds kMemoryBudget(0.03);

/// Times a checked call; its size is what the backend counted for it.
Status point(Stage& stage, const char* operation, const std::function<Status()>& call,
             std::vector<OverheadPoint>& out) {
    const auto before = stage.cpu().work().totals();
    PIPER_TRY(call());
    const auto done = stage.cpu().work().totals() - before;
    PIPER_ASSIGN(const Seconds time, bench::medianTime(call, kMemoryBudget));
    out.push_back({operation, bytes(static_cast<double>(done.bytes)), time});
    return {};
}

Tensor tensor(Matrix x) {
    return Tensor(ConstMatrix(x));
}

Status normPoint(Stage& stage, std::int64_t rows, std::int64_t cols,
                 std::vector<OverheadPoint>& out) {
    PIPER_ASSIGN(const Matrix x, stage.filled(rows, cols));
    PIPER_ASSIGN(const Matrix y, stage.filled(rows, cols));
    PIPER_ASSIGN(const Matrix weight, stage.filled(1, cols));
    PIPER_ASSIGN(const Matrix inverse, stage.filled(1, rows));
    const auto call = [&] {
        return stage.cpu().rmsNormForward(x, weight.span(), 1e-5F, y, inverse.span());
    };
    PIPER_TRY(call());
    PIPER_TRY(bench::checkAgainst(y, reference::rmsNorm(tensor(x), tensor(weight), 1e-5), "norm"));
    return point(stage, "norm", call, out);
}

Status activationPoint(Stage& stage, std::int64_t rows, std::int64_t cols,
                       std::vector<OverheadPoint>& out) {
    PIPER_ASSIGN(const Matrix gate_up, stage.filled(rows, 2 * cols));
    PIPER_ASSIGN(const Matrix y, stage.filled(rows, cols));
    const auto call = [&] { return stage.cpu().swigluForward(gate_up, y); };
    PIPER_TRY(call());
    PIPER_TRY(bench::checkAgainst(y, reference::swiglu(tensor(gate_up)), "activation"));
    return point(stage, "activation", call, out);
}

/// Router, permute and combine of `rows` tokens over 16 experts, top-2.
Status routingPoints(Stage& stage, std::int64_t rows, std::int64_t cols,
                     std::vector<OverheadPoint>& out) {
    const RouterShape shape{16, 2, ScoringFunction::Softmax, true, 1.0};
    PIPER_ASSIGN(const Matrix logits, stage.filled(rows, shape.num_experts));
    PIPER_ASSIGN(const Matrix scores, stage.filled(rows, shape.num_experts));
    PIPER_ASSIGN(const Matrix weights, stage.filled(rows, shape.router_topk));
    PIPER_ASSIGN(const Matrix x, stage.filled(rows, cols));
    PIPER_ASSIGN(const Matrix sorted, stage.filled(rows * shape.router_topk, cols));
    PIPER_ASSIGN(const Matrix y, stage.filled(rows, cols));
    std::vector<std::int32_t> experts(weights.count()), slots(weights.count());
    std::vector<std::int32_t> places(weights.count());
    std::vector<std::int64_t> offsets(std::size_t(shape.num_experts) + 1);

    const auto route = [&] {
        return stage.cpu().routerForward(shape, RouterMode::Choose, logits, scores, experts,
                                         weights);
    };
    PIPER_TRY(route());
    const auto want = reference::router(shape, tensor(logits), {});
    PIPER_TRY(bench::checkAgainst(weights, want.weights, "router"));
    PIPER_TRY(point(stage, "router", route, out));

    const auto permute = [&]() -> Status {
        PIPER_TRY(makePermutation(experts, shape.num_experts, slots, places, offsets));
        return stage.cpu().permuteForward(x, slots, shape.router_topk, sorted);
    };
    PIPER_TRY(permute());
    const Tensor rows_of = reference::permute(tensor(x), slots, shape.router_topk);
    PIPER_TRY(bench::checkAgainst(sorted, rows_of, "permute"));
    PIPER_TRY(point(stage, "permute", permute, out));

    const auto combine = [&] {
        return stage.cpu().combineForward(sorted, places, weights, y, Store::Overwrite);
    };
    PIPER_TRY(combine());
    PIPER_TRY(
        bench::checkAgainst(y, reference::combine(rows_of, places, tensor(weights)), "combine"));
    return point(stage, "combine", combine, out);
}

/// Cross-entropy and embedding of `rows` tokens.
Status tokenPoints(Stage& stage, std::int64_t rows, std::int64_t cols,
                   std::vector<OverheadPoint>& out) {
    constexpr std::int64_t kVocab = 256;
    PIPER_ASSIGN(const Matrix logits, stage.filled(rows, kVocab));
    PIPER_ASSIGN(const Matrix lse, stage.filled(1, rows));
    PIPER_ASSIGN(const Matrix table, stage.filled(kVocab, cols));
    PIPER_ASSIGN(const Matrix x, stage.filled(rows, cols));
    const std::vector<std::int32_t> tokens = stage.ids(rows, kVocab);
    double loss = 0.0;
    const auto entropy = [&] {
        return stage.cpu().crossEntropyForward(logits, tokens, lse.span(), loss);
    };
    PIPER_TRY(entropy());
    const double want = reference::crossEntropy(tensor(logits), tokens);
    if (!(std::abs(loss - want) <= 1e-4 * want))
        return fail(ErrorCode::External, "head_loss: the loss is {} and should be {}", loss, want);
    PIPER_TRY(point(stage, "head_loss", entropy, out));
    const auto look = [&] { return stage.cpu().embeddingForward(tokens, table, x); };
    PIPER_TRY(look());
    PIPER_TRY(bench::checkAgainst(x, reference::embedding(tokens, tensor(table)), "embedding"));
    return point(stage, "embedding", look, out);
}

Status optimizerPoint(Stage& stage, std::int64_t size, std::vector<OverheadPoint>& out) {
    PIPER_ASSIGN(const Matrix gradient, stage.filled(1, size));
    PIPER_ASSIGN(const Matrix weight, stage.filled(1, size));
    PIPER_ASSIGN(const Matrix first, stage.filled(1, size));
    PIPER_ASSIGN(const Matrix second, stage.filled(1, size));
    for (float& v : second.span()) v *= v;
    const auto call = [&] {
        return stage.cpu().adamW({}, gradient.span(), weight.span(), first.span(), second.span());
    };
    Tensor want = tensor(weight), m = tensor(first), v = tensor(second);
    reference::adamW({}, tensor(gradient), want, m, v);
    PIPER_TRY(call());
    PIPER_TRY(bench::checkAgainst(weight, want, "optimizer"));
    return point(stage, "optimizer", call, out);
}

}  // namespace

Result<std::vector<MemoryPoint>> benchMemory(BenchEffort effort) {
    std::vector<double> sizes{0.0625, 1, 16};
    if (effort == BenchEffort::Full) sizes = {0.015625, 0.0625, 0.25, 1, 4, 16, 64, 256};
    std::vector<MemoryPoint> out;
    for (const double size : sizes) {
        PIPER_ASSIGN(const std::unique_ptr<Stage> stage, Stage::make());
        const auto count = static_cast<std::int64_t>(mib(size).value / 2.0 / sizeof(float));
        PIPER_ASSIGN(const Matrix from, stage->filled(1, count));
        PIPER_ASSIGN(const Matrix to, stage->filled(1, count));
        const auto call = [&] {
            return stage->cpu().copyToDevice(std::as_bytes(from.span()),
                                             std::as_writable_bytes(to.span()));
        };
        PIPER_TRY(call());
        if (std::memcmp(from.data, to.data, from.count() * sizeof(float)) != 0)
            return fail(ErrorCode::External, "memory: a copy of {} MiB differs", size / 2.0);
        PIPER_ASSIGN(const Seconds time, bench::medianTime(call, kMemoryBudget));
        out.push_back({mib(size), mib(size) / time});
    }
    return out;
}

Result<std::vector<OverheadPoint>> benchOverheads(BenchEffort effort) {
    std::vector<std::int64_t> rows{64, 256};
    if (effort == BenchEffort::Full) rows = {16, 64, 256, 1024, 4096};
    constexpr std::int64_t kHidden = 256;
    std::vector<OverheadPoint> out;
    for (const std::int64_t r : rows) {
        PIPER_ASSIGN(const std::unique_ptr<Stage> stage, Stage::make());
        PIPER_TRY(normPoint(*stage, r, kHidden, out));
        PIPER_TRY(activationPoint(*stage, r, kHidden, out));
        PIPER_TRY(routingPoints(*stage, r, kHidden, out));
        PIPER_TRY(tokenPoints(*stage, r, kHidden, out));
        PIPER_TRY(optimizerPoint(*stage, r * 1024, out));
    }
    return out;
}

Result<MeasuredCurves> benchDevice(BenchEffort effort) {
    MeasuredCurves out;
    PIPER_ASSIGN(out.gemm, benchGemm(effort));
    PIPER_ASSIGN(out.attention, benchAttention(effort));
    PIPER_ASSIGN(out.memory, benchMemory(effort));
    PIPER_ASSIGN(out.overhead, benchOverheads(effort));
    return out;
}

}  // namespace piper
