// SPDX-License-Identifier: Apache-2.0
#pragma once

// The Hopper grouped GEMM: one thread queues TMA copies into a ring of stages, two warpgroups
// multiply by WGMMA, persistent over tiles. Features (rows of weights) are the m of the product and
// tokens its n, so that a skinny expert wastes no rows of the 64 that an instruction takes:
//   Forward     y^T  [out, tokens] = w x^T           w, x: r contiguous
//   InputGrad   dx^T [in, tokens]  = w^T dy^T        w: m contiguous; dy: r contiguous
//   WeightGrad  dw   [out, in]     = dy^T x          both: m or n contiguous, r: tokens
// TMA reads whole boxes: rows beyond a group's end belong to the next group. They are columns that
// nobody stores, except in WeightGrad, where they are zeroed in shared memory.
// The body is written against a Machine: the device (hopper_machine.cuh) or the emulated block.

#include "kernels/cuda/grouped_kernel.h"
#include "kernels/cuda/grouped_tiles.h"

namespace piper::cuda {

constexpr int kHopperFeatures = 128;  ///< m of a tile: 64 for each of two warpgroups
constexpr int kConsumerThreads = 256;
constexpr int kHopperThreads = 128 + kConsumerThreads;
constexpr int kPanelBytes = kPanel * kLineBytes;

/// Named barriers; 0 is the block's.
constexpr int kConsumersBarrier = 1;
constexpr int kWarpgroupBarrier = 2;  ///< and the one after it

template <GroupedKind Kind_, int Columns_, int Stages_>
struct HopperConfig {
    static constexpr GroupedKind kKind = Kind_;
    static constexpr bool kWeight = Kind_ == GroupedKind::WeightGrad;
    static constexpr int kColumns = Columns_;  ///< n: tokens, or features of x in WeightGrad
    static constexpr int kStages = Stages_;
    static constexpr TileExtents kTile =
        kWeight ? TileExtents{kHopperFeatures, Columns_} : TileExtents{Columns_, kHopperFeatures};
    static constexpr bool kTransposedA = Kind_ != GroupedKind::Forward;
    static constexpr bool kTransposedB = kWeight;
    static constexpr int kBytesA = kHopperFeatures * kLineBytes;
    static constexpr int kBytesB = Columns_ * kLineBytes;
    static constexpr int kStageBytes = kBytesA + kBytesB;
    static constexpr int kStagingOffset = kStages * kStageBytes;
    static constexpr int kStagingBytes = kWeight ? 0 : Columns_ * kLineBytes;  ///< a warpgroup's
    static constexpr int kBarrierOffset = kStagingOffset + 2 * kStagingBytes;
    static constexpr int kTableOffset = kBarrierOffset + 2 * kStages * 8;

    static_assert(!kWeight || Columns_ % kPanel == 0);
};

template <class Config>
constexpr int hopperSharedBytes(int groups) {
    return Config::kTableOffset + (groups + 1) * 4;
}

/// Descriptor of an operand in shared memory for wgmma: 128-byte swizzle. `address` is that of the
/// first line (or of a 32-byte step within lines); eight lines lie 1024 bytes apart; panels of 64
/// lie kPanelBytes apart where m or n is contiguous.
PIPER_HOST_DEVICE std::uint64_t wgmmaDescriptor(std::uint32_t address) {
    constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62U;
    constexpr std::uint64_t kLeading = std::uint64_t{kPanelBytes >> 4} << 16U;
    constexpr std::uint64_t kStride = std::uint64_t{1024 >> 4} << 32U;
    return kSwizzle128 | kStride | kLeading | ((address & 0x3FFFFU) >> 4U);
}

/// Bytes from an operand's start to its part for warpgroup `part` (64 m) and reduction step r.
template <bool Transposed>
PIPER_HOST_DEVICE int wgmmaOffset(int part, int r) {
    return part * kPanelBytes + (Transposed ? r * kLineBytes : r * 2);
}

/// A position in the ring; the parity of its barriers turns with every round.
template <int Stages>
struct RingPlace {
    int stage = 0;
    int parity = 0;
    PIPER_HOST_DEVICE void next() {
        if (++stage == Stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

template <class Config>
PIPER_HOST_DEVICE int fullBarrier(int stage) {
    return Config::kBarrierOffset + stage * 8;
}
template <class Config>
PIPER_HOST_DEVICE int emptyBarrier(int stage) {
    return Config::kBarrierOffset + (Config::kStages + stage) * 8;
}

/// One thread: every stage of every tile of this block.
template <class Config, class Machine, class Maps>
PIPER_KERNEL_BODY void produce(Machine& machine, const GroupedArguments& arguments,
                               const Maps& maps, int tiles) {
    RingPlace<Config::kStages> place;
    for (int tile = machine.block(); tile < tiles; tile += machine.blocks()) {
        const TileSpot spot =
            findSpot(machine, Config::kKind, arguments, Config::kTile, Config::kTableOffset, tile);
        const auto first = static_cast<int>(spot.first_row);
        const int row = spot.place.row * Config::kTile.m;
        const int column = spot.place.column * Config::kTile.n;
        const int steps = stepsOf(Config::kKind, arguments, spot.rows);
        for (int step = 0; step < steps; ++step) {
            const int a = place.stage * Config::kStageBytes;
            const int b = a + Config::kBytesA;
            const int full = fullBarrier<Config>(place.stage);
            const int r = step * kTileR;
            machine.waitBarrier(emptyBarrier<Config>(place.stage), place.parity ^ 1);
            machine.expectBytes(full, Config::kStageBytes);
            if constexpr (Config::kKind == GroupedKind::Forward) {
                machine.copyBox(a, maps.a, r, column, spot.group, full);
                machine.copyBox(b, maps.b, r, first + row, 0, full);
            } else if constexpr (Config::kKind == GroupedKind::InputGrad) {
                machine.copyBox(a, maps.a, column, r, spot.group, full);
                machine.copyBox(a + kPanelBytes, maps.a, column + kPanel, r, spot.group, full);
                machine.copyBox(b, maps.b, r, first + row, 0, full);
            } else {
                for (int p = 0; p < kHopperFeatures / kPanel; ++p) {
                    machine.copyBox(a + p * kPanelBytes, maps.a, row + p * kPanel, first + r, 0,
                                    full);
                }
                for (int p = 0; p < Config::kColumns / kPanel; ++p) {
                    machine.copyBox(b + p * kPanelBytes, maps.b, column + p * kPanel, first + r, 0,
                                    full);
                }
            }
            place.next();
        }
    }
}

/// Zeroes the lines from `valid` on in every panel of a stage: rows of another group.
template <class Config, class Machine>
PIPER_KERNEL_BODY void zeroTail(Machine& machine, int shared, int valid) {
    constexpr int kLines = Config::kStageBytes / kLineBytes;
    const std::uint32_t zeros[4] = {0, 0, 0, 0};
    for (int i = machine.thread() - 128; i < kLines * kLinePieces; i += kConsumerThreads) {
        const int line = i / kLinePieces;
        if (line % kPanel >= valid) {
            machine.storeShared16(shared + line * kLineBytes + i % kLinePieces * 16, zeros);
        }
    }
    machine.fenceAsync();
    machine.barrier(kConsumersBarrier, kConsumerThreads);
}

/// bf16 through this warpgroup's staging lines (a token's 64 features each) to rows of the result.
template <class Config, class Machine>
PIPER_KERNEL_BODY void storeTokens(Machine& machine, const float (&d)[Config::kColumns / 2],
                                   const TileWork& work, Bf16* result, int part) {
    const int staging = Config::kStagingOffset + part * Config::kStagingBytes;
    const int thread = machine.thread() % 128;
    const int warp = thread / 32;
    const int lane = thread % 32;
    machine.barrier(kWarpgroupBarrier + part, 128);  // the tile before this one is read
    PIPER_UNROLL
    for (int j = 0; j < Config::kColumns / 8; j += 2) {
        // Two fragments of eight tokens, each of 16 features: four matrices, stored transposed.
        std::uint32_t words[4];
        PIPER_UNROLL
        for (int i = 0; i < 4; ++i) {
            const int at = (j + i / 2) * 4 + i % 2 * 2;
            words[i] = packBf16(d[at], d[at + 1]);
        }
        const int token = (j + lane / 16) * 8 + lane % 8;
        machine.storeMatricesTransposed(staging + swizzled(token, warp * 2 + lane / 8 % 2), words);
    }
    machine.barrier(kWarpgroupBarrier + part, 128);
    const int piece = thread % kLinePieces;
    const int feature = part * 64 + piece * kPieceElements;
    PIPER_UNROLL
    for (int i = 0; i < Config::kColumns / 16; ++i) {
        const int token = thread / kLinePieces + i * 16;
        if (token < work.a.extent && feature < work.b.extent) {
            std::uint32_t words[4];
            machine.loadShared16(staging + swizzled(token, piece), words);
            machine.store16(result + work.result_offset + token * work.result_stride + feature,
                            words);
        }
    }
}

template <class Config, class Machine>
PIPER_KERNEL_BODY void addFeatures(Machine& machine, const float (&d)[Config::kColumns / 2],
                                   const TileWork& work, float* result, int part) {
    const int thread = machine.thread() % 128;
    PIPER_UNROLL
    for (int index = 0; index < Config::kColumns / 2; index += 2) {
        const TilePlace at = fragmentPlace(thread % 32, index % 4);
        const int row = part * 64 + thread / 32 * 16 + at.row;
        const int column = index / 4 * 8 + at.column;
        if (row < work.a.extent && column < work.b.extent) {
            machine.add2(result + work.result_offset + row * work.result_stride + column, d[index],
                         d[index + 1]);
        }
    }
}

/// A warpgroup: its 64 features of every tile.
template <class Config, class Machine>
PIPER_KERNEL_BODY void consume(Machine& machine, const GroupedArguments& arguments, int tiles) {
    const int part = machine.thread() / 128 - 1;
    // Every warp tells that its part of the products is done: warps of a group may drift apart.
    const bool elected = machine.thread() % 32 == 0;
    RingPlace<Config::kStages> place;
    for (int tile = machine.block(); tile < tiles; tile += machine.blocks()) {
        const TileWork work =
            findTile(machine, Config::kKind, arguments, Config::kTile, Config::kTableOffset, tile);
        float d[Config::kColumns / 2];
        PIPER_UNROLL
        for (int i = 0; i < Config::kColumns / 2; ++i) d[i] = 0.0F;
        int pending = -1;  // the stage whose products are under way
        for (int step = 0; step < work.steps; ++step) {
            const int shared = place.stage * Config::kStageBytes;
            machine.waitBarrier(fullBarrier<Config>(place.stage), place.parity);
            if constexpr (Config::kWeight) {
                const int valid = work.a.length - step * kTileR;
                if (valid < kTileR) zeroTail<Config>(machine, shared, valid);
            }
            machine.holdRegisters(d);
            machine.beginProducts();
            PIPER_UNROLL
            for (int r = 0; r < kTileR; r += 16) {
                machine
                    .template product<Config::kColumns, Config::kTransposedA, Config::kTransposedB>(
                        d, shared + wgmmaOffset<Config::kTransposedA>(part, r),
                        shared + Config::kBytesA + wgmmaOffset<Config::kTransposedB>(0, r));
            }
            machine.commitProducts();
            machine.template waitProducts<1>();
            if (pending >= 0 && elected) machine.arriveBarrier(emptyBarrier<Config>(pending));
            pending = place.stage;
            place.next();
        }
        machine.template waitProducts<0>();
        machine.holdRegisters(d);
        if (elected) machine.arriveBarrier(emptyBarrier<Config>(pending));
        if constexpr (Config::kWeight) {
            addFeatures<Config>(machine, d, work, static_cast<float*>(arguments.result), part);
        } else {
            storeTokens<Config>(machine, d, work, static_cast<Bf16*>(arguments.result), part);
        }
    }
}

/// The whole kernel of kHopperThreads threads.
template <class Config, class Machine, class Maps>
PIPER_KERNEL_BODY void hopperBody(Machine& machine, const GroupedArguments& arguments,
                                  const Maps& maps) {
    if (machine.thread() == 0) {
        for (int stage = 0; stage < Config::kStages; ++stage) {
            machine.initBarrier(fullBarrier<Config>(stage), 1);
            machine.initBarrier(emptyBarrier<Config>(stage), kConsumerThreads / 32);
        }
        machine.fenceBarriers();
    }
    buildTileTable(machine, Config::kKind, arguments, Config::kTile, Config::kTableOffset,
                   kHopperThreads);
    const int tiles = machine.loadInt(Config::kTableOffset + arguments.groups * 4);
    if (machine.thread() >= 128) {
        consume<Config>(machine, arguments, tiles);
    } else if (machine.thread() == 0) {
        produce<Config>(machine, arguments, maps, tiles);
    }
}

}  // namespace piper::cuda
