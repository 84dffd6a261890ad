// SPDX-License-Identifier: Apache-2.0
#pragma once

// Bodies of the memory-bound kernels over rows: permute, combine, SwiGLU and their gradients. A
// warp takes every gridDim-th row and moves 16 bytes a lane (Width elements), several pieces in
// flight; a Width of 1 serves widths and addresses that 16 bytes do not divide.

#include <cmath>

#include "kernels/cuda/host_device.h"

namespace piper::cuda {

/// Width elements that move as one transaction.
template <class T, int Width>
struct alignas(Width * sizeof(T)) Pack {
    T value[Width];
};

/// Elements of T in 16 bytes.
template <class T>
constexpr int kPackWidth = 16 / static_cast<int>(sizeof(T));

/// Whether packs of Width elements cover rows of `columns` from this address.
template <class T, int Width>
PIPER_HOST_DEVICE bool packsFit(std::int64_t columns, const void* data) {
    return columns % Width == 0 &&
           reinterpret_cast<std::uintptr_t>(data) % sizeof(Pack<T, Width>) == 0;
}

PIPER_HOST_DEVICE float sigmoid(float x) {
    return 1.0F / (1.0F + expf(-x));
}
PIPER_HOST_DEVICE float silu(float x) {
    return x / (1.0F + expf(-x));
}

template <class T, int Width>
PIPER_HOST_DEVICE Pack<T, Width> loadPack(const T* row, std::int64_t pack) {
    return reinterpret_cast<const Pack<T, Width>*>(row)[pack];
}
template <class T, int Width>
PIPER_HOST_DEVICE void storePack(T* row, std::int64_t pack, const Pack<T, Width>& value) {
    reinterpret_cast<Pack<T, Width>*>(row)[pack] = value;
}

/// The warps of a grid, and this thread's lane.
struct WarpPlace {
    int warp, warps, lane;
};
template <class Machine>
PIPER_KERNEL_BODY WarpPlace warpPlace(const Machine& machine) {
    const int per_block = machine.threads() / 32;
    return {machine.block() * per_block + machine.thread() / 32, machine.blocks() * per_block,
            machine.thread() % 32};
}

template <class Machine>
PIPER_KERNEL_BODY float warpSum(Machine& machine, float value) {
    PIPER_UNROLL
    for (int step = 16; step > 0; step /= 2) {
        value += floatOfBits(machine.shuffleXor(bitsOf(value), step));
    }
    return value;
}

template <class T>
struct PermuteArguments {
    const T* x;                       ///< [tokens, hidden]
    const std::int32_t* slot_of_row;  ///< [num_rows]; negative: a row of zeros
    T* rows;                          ///< [num_rows, hidden]
    std::int64_t num_rows;
    int router_topk;
    int hidden;
};

/// rows[r] = x[slot_of_row[r] / router_topk].
template <int Width, class T, class Machine>
PIPER_KERNEL_BODY void permuteBody(Machine& machine, const PermuteArguments<T>& a) {
    constexpr int kInFlight = 4;
    const WarpPlace at = warpPlace(machine);
    const int packs = a.hidden / Width;
    for (std::int64_t row = at.warp; row < a.num_rows; row += at.warps) {
        const std::int32_t slot = a.slot_of_row[row];
        T* to = a.rows + row * a.hidden;
        const T* from =
            a.x + static_cast<std::int64_t>(slot < 0 ? 0 : slot / a.router_topk) * a.hidden;
        for (int first = at.lane; first < packs; first += 32 * kInFlight) {
            Pack<T, Width> moved[kInFlight];
            PIPER_UNROLL
            for (int i = 0; i < kInFlight; ++i) {
                if (slot >= 0 && first + i * 32 < packs) {
                    moved[i] = loadPack<T, Width>(from, first + i * 32);
                } else {
                    for (int e = 0; e < Width; ++e) moved[i].value[e] = fromFloat<T>(0.0F);
                }
            }
            PIPER_UNROLL
            for (int i = 0; i < kInFlight; ++i) {
                if (first + i * 32 < packs) storePack<T, Width>(to, first + i * 32, moved[i]);
            }
        }
    }
}

template <class T>
struct CombineArguments {
    const T* rows;                    ///< [num_rows, hidden]
    const std::int32_t* row_of_slot;  ///< [tokens, router_topk]; negative: a dropped slot
    const float* weights;             ///< [tokens, router_topk], or null for ones
    T* y;                             ///< [tokens, hidden]
    std::int64_t tokens;
    int router_topk;
    int hidden;
    bool accumulate;
};

/// y[token] (+)= sum over its slots, in order, of weight * rows[row_of_slot]; without weights the
/// gradient of permute.
template <int Width, class T, class Machine>
PIPER_KERNEL_BODY void combineBody(Machine& machine, const CombineArguments<T>& a) {
    const WarpPlace at = warpPlace(machine);
    const int packs = a.hidden / Width;
    for (std::int64_t token = at.warp; token < a.tokens; token += at.warps) {
        const std::int32_t* row_of_slot = a.row_of_slot + token * a.router_topk;
        T* to = a.y + token * a.hidden;
        for (int pack = at.lane; pack < packs; pack += 32) {
            float sum[Width];
            for (int e = 0; e < Width; ++e) sum[e] = 0.0F;
            if (a.accumulate) {
                const auto before = loadPack<T, Width>(to, pack);
                for (int e = 0; e < Width; ++e) sum[e] = toFloat(before.value[e]);
            }
#ifdef __CUDACC__
#pragma unroll 4
#endif
            for (int slot = 0; slot < a.router_topk; ++slot) {
                const std::int32_t row = row_of_slot[slot];
                if (row < 0) continue;
                const float weight =
                    a.weights == nullptr ? 1.0F : a.weights[token * a.router_topk + slot];
                const auto part =
                    loadPack<T, Width>(a.rows + static_cast<std::int64_t>(row) * a.hidden, pack);
                for (int e = 0; e < Width; ++e) sum[e] += weight * toFloat(part.value[e]);
            }
            Pack<T, Width> result;
            for (int e = 0; e < Width; ++e) result.value[e] = fromFloat<T>(sum[e]);
            storePack<T, Width>(to, pack, result);
        }
    }
}

template <class T>
struct CombineGradArguments {
    const T* dy;                      ///< [tokens, hidden]
    const T* rows;                    ///< [num_rows, hidden]
    const std::int32_t* row_of_slot;  ///< [tokens, router_topk]
    const float* weights;             ///< [tokens, router_topk]
    T* drows;                         ///< [num_rows, hidden]
    float* dweights;                  ///< [tokens, router_topk]; 0 for a dropped slot
    std::int64_t tokens;
    int router_topk;
    int hidden;
};

/// drows[row] = weight * dy[token]; dweights[slot] = dy[token] . rows[row].
template <int Width, class T, class Machine>
PIPER_KERNEL_BODY void combineGradBody(Machine& machine, const CombineGradArguments<T>& a) {
    const WarpPlace at = warpPlace(machine);
    const int packs = a.hidden / Width;
    const std::int64_t slots = a.tokens * a.router_topk;
    for (std::int64_t slot = at.warp; slot < slots; slot += at.warps) {
        const std::int64_t row = a.row_of_slot[slot];
        float dot = 0.0F;
        if (row >= 0) {
            const float weight = a.weights[slot];
            const T* dy = a.dy + slot / a.router_topk * a.hidden;
            for (int pack = at.lane; pack < packs; pack += 32) {
                const auto gradient = loadPack<T, Width>(dy, pack);
                const auto value = loadPack<T, Width>(a.rows + row * a.hidden, pack);
                Pack<T, Width> result;
                for (int e = 0; e < Width; ++e) {
                    const float g = toFloat(gradient.value[e]);
                    dot += g * toFloat(value.value[e]);
                    result.value[e] = fromFloat<T>(weight * g);
                }
                storePack<T, Width>(a.drows + row * a.hidden, pack, result);
            }
        }
        dot = warpSum(machine, dot);
        if (at.lane == 0) a.dweights[slot] = dot;
    }
}

template <class T>
struct SwigluArguments {
    const T* gate_up;  ///< [rows, 2 * ffn]: gate in the first columns, up in the last
    const T* dout;     ///< [rows, ffn]; null forward
    T* result;         ///< [rows, ffn], or the gradient [rows, 2 * ffn]
    std::int64_t rows;
    int ffn;
};

/// out = silu(gate) * up.
template <int Width, class T, class Machine>
PIPER_KERNEL_BODY void swigluBody(Machine& machine, const SwigluArguments<T>& a) {
    const WarpPlace at = warpPlace(machine);
    for (std::int64_t row = at.warp; row < a.rows; row += at.warps) {
        const T* gate_row = a.gate_up + row * 2 * a.ffn;
        for (int pack = at.lane; pack < a.ffn / Width; pack += 32) {
            const auto gate = loadPack<T, Width>(gate_row, pack);
            const auto up = loadPack<T, Width>(gate_row + a.ffn, pack);
            Pack<T, Width> out;
            for (int e = 0; e < Width; ++e) {
                out.value[e] = fromFloat<T>(silu(toFloat(gate.value[e])) * toFloat(up.value[e]));
            }
            storePack<T, Width>(a.result + row * a.ffn, pack, out);
        }
    }
}

/// dgate = dout * up * silu'(gate), dup = dout * silu(gate).
template <int Width, class T, class Machine>
PIPER_KERNEL_BODY void swigluGradBody(Machine& machine, const SwigluArguments<T>& a) {
    const WarpPlace at = warpPlace(machine);
    for (std::int64_t row = at.warp; row < a.rows; row += at.warps) {
        const T* gate_row = a.gate_up + row * 2 * a.ffn;
        T* to = a.result + row * 2 * a.ffn;
        for (int pack = at.lane; pack < a.ffn / Width; pack += 32) {
            const auto gate = loadPack<T, Width>(gate_row, pack);
            const auto up = loadPack<T, Width>(gate_row + a.ffn, pack);
            const auto dout = loadPack<T, Width>(a.dout + row * a.ffn, pack);
            Pack<T, Width> dgate;
            Pack<T, Width> dup;
            for (int e = 0; e < Width; ++e) {
                const float x = toFloat(gate.value[e]);
                const float d = toFloat(dout.value[e]);
                const float open = sigmoid(x);
                dgate.value[e] =
                    fromFloat<T>(d * toFloat(up.value[e]) * open * (1.0F + x * (1.0F - open)));
                dup.value[e] = fromFloat<T>(d * silu(x));
            }
            storePack<T, Width>(to, pack, dgate);
            storePack<T, Width>(to + a.ffn, pack, dup);
        }
    }
}

/// Blocks of a launch whose warps share `rows`: enough for all, at most `limit`, at least one.
inline int rowBlocks(std::int64_t rows, int warps_per_block, int limit) {
    return static_cast<int>(larger<std::int64_t>(
        1, smaller<std::int64_t>(ceilDiv<std::int64_t>(rows, warps_per_block), limit)));
}

}  // namespace piper::cuda
