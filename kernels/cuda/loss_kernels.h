// SPDX-License-Identifier: Apache-2.0
#pragma once

// Body of the cross-entropy kernel: a block takes a row of logits, reads it once for the logarithm
// of the sum of exponentials (running maximum and sum in one pass), and turns it into its gradient
// in place when that is asked for. So forward and backward need no second matrix.

#include <cmath>

#include "kernels/cuda/host_device.h"
#include "kernels/cuda/row_kernels.h"

namespace piper::cuda {

/// Its target is in another rank's part of the vocabulary: the row has a softmax all the same.
constexpr std::int32_t kTargetElsewhere = -(1 << 30);

template <class T>
struct CrossEntropyArguments {
    T* logits;                    ///< [rows, vocab]
    const std::int32_t* targets;  ///< [rows]; negative: the row does not count
    float* lse;                   ///< [rows]: written by forward, read by gradient alone
    float* row_loss;              ///< [rows], or null: lse - logit of the target, 0 without one
    std::int32_t* bad_row;        ///< set to a row whose target is beyond the vocabulary
    std::int64_t rows;
    int vocab;
    float scale;  ///< of the gradient
    bool forward;
    bool gradient;
};

/// exp(x - maximum) summed over some elements.
struct RunningSum {
    float maximum;
    float sum;
};
PIPER_HOST_DEVICE RunningSum joined(RunningSum a, RunningSum b) {
    const float maximum = larger(a.maximum, b.maximum);
    if (maximum == -INFINITY) return {maximum, 0.0F};
    return {maximum, a.sum * expf(a.maximum - maximum) + b.sum * expf(b.maximum - maximum)};
}

template <int Width, class T, class Machine>
PIPER_KERNEL_BODY RunningSum threadSum(Machine& machine, const T* row, int vocab) {
    RunningSum mine{-INFINITY, 0.0F};
    for (int pack = machine.thread(); pack < vocab / Width; pack += machine.threads()) {
        const auto part = loadPack<T, Width>(row, pack);
        float top = mine.maximum;
        for (int e = 0; e < Width; ++e) top = larger(top, toFloat(part.value[e]));
        if (top == -INFINITY) continue;
        float sum = mine.sum * expf(mine.maximum - top);
        for (int e = 0; e < Width; ++e) sum += expf(toFloat(part.value[e]) - top);
        mine = {top, sum};
    }
    return mine;
}

/// The sum of all threads, in all threads; two floats a warp in shared memory.
template <class Machine>
PIPER_KERNEL_BODY RunningSum blockSum(Machine& machine, RunningSum mine) {
    PIPER_UNROLL
    for (int step = 16; step > 0; step /= 2) {
        const RunningSum other{floatOfBits(machine.shuffleXor(bitsOf(mine.maximum), step)),
                               floatOfBits(machine.shuffleXor(bitsOf(mine.sum), step))};
        mine = joined(mine, other);
    }
    const int warp = machine.thread() / 32;
    machine.syncBlock();  // the row before this one is read
    if (machine.thread() % 32 == 0) {
        machine.storeFloat(warp * 8, mine.maximum);
        machine.storeFloat(warp * 8 + 4, mine.sum);
    }
    machine.syncBlock();
    RunningSum all{machine.loadFloat(0), machine.loadFloat(4)};
    for (int w = 1; w < machine.threads() / 32; ++w) {
        all = joined(all, {machine.loadFloat(w * 8), machine.loadFloat(w * 8 + 4)});
    }
    return all;
}

/// Logits become scale * (softmax - onehot); zeros for a row that does not count.
template <int Width, class T, class Machine>
PIPER_KERNEL_BODY void rowGradient(Machine& machine, T* row, int vocab, std::int32_t target,
                                   float lse, float scale) {
    const bool counts = target >= 0 || target == kTargetElsewhere;
    for (int pack = machine.thread(); pack < vocab / Width; pack += machine.threads()) {
        auto part = loadPack<T, Width>(row, pack);
        for (int e = 0; e < Width; ++e) {
            const float probability = counts ? expf(toFloat(part.value[e]) - lse) : 0.0F;
            const float onehot = pack * Width + e == target ? 1.0F : 0.0F;
            part.value[e] = fromFloat<T>(scale * (probability - onehot));
        }
        storePack<T, Width>(row, pack, part);
    }
}

template <int Width, class T, class Machine>
PIPER_KERNEL_BODY void crossEntropyBody(Machine& machine, const CrossEntropyArguments<T>& a) {
    for (std::int64_t r = machine.block(); r < a.rows; r += machine.blocks()) {
        T* row = a.logits + r * a.vocab;
        std::int32_t target = a.targets[r];
        if (target >= a.vocab) {
            if (machine.thread() == 0) *a.bad_row = static_cast<std::int32_t>(r);
            target = -1;
        }
        float lse = 0.0F;
        if (a.forward) {
            const RunningSum all = blockSum(machine, threadSum<Width>(machine, row, a.vocab));
            lse = all.maximum + logf(all.sum);
            if (machine.thread() == 0) {
                a.lse[r] = lse;
                if (a.row_loss != nullptr) {
                    a.row_loss[r] = target >= 0 ? lse - toFloat(row[target]) : 0.0F;
                }
            }
            machine.syncBlock();  // the target's logit is read before it changes
        } else {
            lse = a.lse[r];
        }
        if (a.gradient) rowGradient<Width>(machine, row, a.vocab, target, lse, a.scale);
    }
}

}  // namespace piper::cuda
