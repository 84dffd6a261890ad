// SPDX-License-Identifier: Apache-2.0
#pragma once

// The portable grouped GEMM (Ampere and newer): cp.async into a ring of stages, ldmatrix, mma.sync.
// One block is persistent: it takes every gridDim-th tile, and its loads run ahead of its products
// across the borders of tiles. The body is written against a Machine, which is the device
// (portable_machine.cuh) or the emulated block of the tests.

#include "kernels/cuda/grouped_tiles.h"

namespace piper::cuda {

/// WarpsM by WarpsN warps share a tile of TileM by TileN.
template <GroupedKind Kind_, int TileM_, int TileN_, int WarpsM_, int WarpsN_, int Stages_>
struct GroupedConfig {
    static constexpr GroupedKind kKind = Kind_;
    static constexpr int kTileM = TileM_;
    static constexpr int kTileN = TileN_;
    static constexpr int kStages = Stages_;
    static constexpr int kWarpsN = WarpsN_;
    static constexpr int kThreads = WarpsM_ * WarpsN_ * 32;
    static constexpr int kWarpM = TileM_ / WarpsM_;
    static constexpr int kWarpN = TileN_ / WarpsN_;
    static constexpr bool kContiguousA = Kind_ != GroupedKind::WeightGrad;
    static constexpr bool kContiguousB = Kind_ == GroupedKind::Forward;
    static constexpr int kBytesA = TileM_ * kLineBytes;
    static constexpr int kBytesB = TileN_ * kLineBytes;
    static constexpr int kStageBytes = kBytesA + kBytesB;
    static constexpr int kTableOffset = kStages * kStageBytes;

    static_assert(kWarpM % 16 == 0 && kWarpN % 32 == 0);
    static_assert(kContiguousA || TileM_ % kPanel == 0);
    static_assert(kContiguousB || TileN_ % kPanel == 0);
    static_assert(TileM_ * kLinePieces % kThreads == 0 && TileN_ * kLinePieces % kThreads == 0);
};

/// Bytes of dynamic shared memory for a product of `groups` groups.
template <class Config>
constexpr int groupedSharedBytes(int groups) {
    return Config::kTableOffset + (groups + 1) * 4;
}

/// Fills the table of first tiles; all threads of the block take part.
template <class Machine>
PIPER_KERNEL_BODY void buildTileTable(Machine& machine, GroupedKind kind,
                                      const GroupedArguments& arguments, TileExtents tile,
                                      int table, int threads) {
    const int columns = tileColumns(kind, arguments.in, arguments.out, tile.n);
    for (int g = machine.thread(); g < arguments.groups; g += threads) {
        const auto rows = static_cast<int>(arguments.offsets[g + 1] - arguments.offsets[g]);
        machine.storeInt(table + (g + 1) * 4,
                         tileRows(kind, rows, arguments.out, tile.m) * columns);
    }
    if (machine.thread() == 0) machine.storeInt(table, 0);
    machine.syncBlock();
    if (machine.thread() == 0) {
        int sum = 0;
        for (int g = 1; g <= arguments.groups; ++g) {
            sum += machine.loadInt(table + g * 4);
            machine.storeInt(table + g * 4, sum);
        }
    }
    machine.syncBlock();
}

/// Where tile number `tile` lies, which is below the table's last entry.
template <class Machine>
PIPER_KERNEL_BODY TileSpot findSpot(Machine& machine, GroupedKind kind,
                                    const GroupedArguments& arguments, TileExtents extents,
                                    int table, int tile) {
    const int group = groupOfTile(machine.ints(table), arguments.groups, tile);
    const std::int64_t first = arguments.offsets[group];
    const auto rows = static_cast<int>(arguments.offsets[group + 1] - first);
    return {group, first, rows,
            tilePlace(tile - machine.loadInt(table + group * 4),
                      tileRows(kind, rows, arguments.out, extents.m),
                      tileColumns(kind, arguments.in, arguments.out, extents.n))};
}

template <class Machine>
PIPER_KERNEL_BODY TileWork findTile(Machine& machine, GroupedKind kind,
                                    const GroupedArguments& arguments, TileExtents extents,
                                    int table, int tile) {
    return tileWork(kind, arguments, findSpot(machine, kind, arguments, extents, table, tile),
                    extents);
}

/// Queues the copies of one operand's part of a stage.
template <bool ContiguousR, int Lines, int Threads, class Machine>
PIPER_KERNEL_BODY void loadOperand(Machine& machine, const OperandView& view, int first,
                                   int shared) {
    const int piece = machine.thread() % kLinePieces;
    PIPER_UNROLL
    for (int i = 0; i < Lines * kLinePieces / Threads; ++i) {
        const int line = machine.thread() / kLinePieces + i * (Threads / kLinePieces);
        const PieceSource source = pieceSource<ContiguousR>(view, first, line, piece);
        machine.copyAsync(shared + swizzled(line, piece),
                          source.valid ? view.origin + source.element : view.origin, source.valid);
    }
}

/// Runs ahead of the products: the next stage to load.
template <class Config, class Machine>
struct GroupedLoader {
    int tile;
    int step = 0;
    int stage = 0;
    TileWork work;

    PIPER_KERNEL_BODY GroupedLoader(Machine& machine, const GroupedArguments& arguments, int tiles)
        : tile(machine.block()), work() {
        if (tile < tiles) work = find(machine, arguments);
    }
    PIPER_KERNEL_BODY TileWork find(Machine& machine, const GroupedArguments& arguments) const {
        return findTile(machine, Config::kKind, arguments, {Config::kTileM, Config::kTileN},
                        Config::kTableOffset, tile);
    }
    /// Queues one stage, or an empty group when no tile is left.
    PIPER_KERNEL_BODY void next(Machine& machine, const GroupedArguments& arguments, int tiles) {
        if (tile < tiles) {
            const int shared = stage * Config::kStageBytes;
            loadOperand<Config::kContiguousA, Config::kTileM, Config::kThreads>(
                machine, work.a, step * kTileR, shared);
            loadOperand<Config::kContiguousB, Config::kTileN, Config::kThreads>(
                machine, work.b, step * kTileR, shared + Config::kBytesA);
            stage = stage + 1 == Config::kStages ? 0 : stage + 1;
            if (++step == work.steps) {
                step = 0;
                tile += machine.blocks();
                if (tile < tiles) work = find(machine, arguments);
            }
        }
        machine.commitCopies();
    }
};

/// A warp's part of the result, in fragments.
template <class Config>
struct GroupedAccumulator {
    static constexpr int kRows = Config::kWarpM / 16;
    static constexpr int kColumns = Config::kWarpN / 8;
    float value[kRows][kColumns][4];
};

/// accumulator += a b over one stage.
template <class Config, class Machine>
PIPER_KERNEL_BODY void multiplyStage(Machine& machine, int shared, int warp_m, int warp_n,
                                     GroupedAccumulator<Config>& accumulator) {
    constexpr int kRows = GroupedAccumulator<Config>::kRows;
    constexpr int kColumns = GroupedAccumulator<Config>::kColumns;
    const int lane = machine.thread() % 32;
    PIPER_UNROLL
    for (int r = 0; r < kTileR; r += 16) {
        std::uint32_t a[kRows][4];
        std::uint32_t b[kColumns / 2][4];
        PIPER_UNROLL
        for (int i = 0; i < kRows; ++i) {
            machine.template loadMatrices<!Config::kContiguousA>(
                shared + fragmentAddressA<Config::kContiguousA>(warp_m + i * 16, r, lane), a[i]);
        }
        PIPER_UNROLL
        for (int j = 0; j < kColumns / 2; ++j) {
            machine.template loadMatrices<!Config::kContiguousB>(
                shared + Config::kBytesA +
                    fragmentAddressB<Config::kContiguousB>(warp_n + j * 16, r, lane),
                b[j]);
        }
        machine.multiply(accumulator.value, a, b);
    }
}

/// Four words of each of a quad's four lanes, exchanged as a 4 by 4 transpose.
template <class Machine>
PIPER_KERNEL_BODY void transposeQuad(Machine& machine, std::uint32_t (&v)[4]) {
    PIPER_UNROLL
    for (int step = 1; step <= 2; step *= 2) {
        const bool upper = (machine.thread() & step) != 0;
        PIPER_UNROLL
        for (int pair = 0; pair < 2; ++pair) {
            const int low = step == 1 ? pair * 2 : pair;
            const std::uint32_t sent = upper ? v[low] : v[low + step];
            const std::uint32_t received = machine.shuffleXor(sent, step);
            if (upper) {
                v[low] = received;
            } else {
                v[low + step] = received;
            }
        }
    }
}

/// Rounds to bf16 and writes 16 bytes a lane: a lane of a quad takes every fourth fragment's row.
template <class Config, class Machine>
PIPER_KERNEL_BODY void storeBf16(Machine& machine, const GroupedAccumulator<Config>& accumulator,
                                 const TileWork& work, Bf16* result, int warp_m, int warp_n) {
    const int lane = machine.thread() % 32;
    PIPER_UNROLL
    for (int i = 0; i < GroupedAccumulator<Config>::kRows; ++i) {
        PIPER_UNROLL
        for (int half = 0; half < 2; ++half) {
            const int row = warp_m + i * 16 + fragmentPlace(lane, half * 2).row;
            PIPER_UNROLL
            for (int j = 0; j < GroupedAccumulator<Config>::kColumns; j += 4) {
                std::uint32_t words[4];
                PIPER_UNROLL
                for (int f = 0; f < 4; ++f) {
                    const float* value = accumulator.value[i][j + f];
                    words[f] = packBf16(value[half * 2], value[half * 2 + 1]);
                }
                transposeQuad(machine, words);
                const int column = warp_n + (j + lane % 4) * 8;
                if (row < work.a.extent && column < work.b.extent) {
                    machine.store16(result + work.result_offset + row * work.result_stride + column,
                                    words);
                }
            }
        }
    }
}

/// Adds to f32; a quad meets 32 contiguous bytes.
template <class Config, class Machine>
PIPER_KERNEL_BODY void addF32(Machine& machine, const GroupedAccumulator<Config>& accumulator,
                              const TileWork& work, float* result, int warp_m, int warp_n) {
    const int lane = machine.thread() % 32;
    PIPER_UNROLL
    for (int i = 0; i < GroupedAccumulator<Config>::kRows; ++i) {
        PIPER_UNROLL
        for (int j = 0; j < GroupedAccumulator<Config>::kColumns; ++j) {
            PIPER_UNROLL
            for (int index = 0; index < 4; index += 2) {
                const TilePlace at = fragmentPlace(lane, index);
                const int row = warp_m + i * 16 + at.row;
                const int column = warp_n + j * 8 + at.column;
                if (row < work.a.extent && column < work.b.extent) {
                    float* to = result + work.result_offset + row * work.result_stride + column;
                    machine.add2(to, accumulator.value[i][j][index],
                                 accumulator.value[i][j][index + 1]);
                }
            }
        }
    }
}

template <class Config, class Machine>
PIPER_KERNEL_BODY void groupedBody(Machine& machine, const GroupedArguments& arguments) {
    constexpr TileExtents kTile{Config::kTileM, Config::kTileN};
    buildTileTable(machine, Config::kKind, arguments, kTile, Config::kTableOffset,
                   Config::kThreads);
    const int tiles = machine.loadInt(Config::kTableOffset + arguments.groups * 4);
    const int warp = machine.thread() / 32;
    const int warp_m = warp / Config::kWarpsN * Config::kWarpM;
    const int warp_n = warp % Config::kWarpsN * Config::kWarpN;

    GroupedLoader<Config, Machine> loader(machine, arguments, tiles);
    for (int i = 0; i < Config::kStages - 1; ++i) loader.next(machine, arguments, tiles);
    int stage = 0;
    for (int tile = machine.block(); tile < tiles; tile += machine.blocks()) {
        const TileWork work =
            findTile(machine, Config::kKind, arguments, kTile, Config::kTableOffset, tile);
        GroupedAccumulator<Config> accumulator;
        PIPER_UNROLL
        for (int i = 0; i < GroupedAccumulator<Config>::kRows; ++i) {
            PIPER_UNROLL
            for (int j = 0; j < GroupedAccumulator<Config>::kColumns; ++j) {
                PIPER_UNROLL
                for (int v = 0; v < 4; ++v) accumulator.value[i][j][v] = 0.0F;
            }
        }
        for (int step = 0; step < work.steps; ++step) {
            // After the barrier this stage is whole for all, and the one before it is read.
            machine.template waitCopies<Config::kStages - 2>();
            machine.syncBlock();
            loader.next(machine, arguments, tiles);
            multiplyStage<Config>(machine, stage * Config::kStageBytes, warp_m, warp_n,
                                  accumulator);
            stage = stage + 1 == Config::kStages ? 0 : stage + 1;
        }
        if constexpr (Config::kKind == GroupedKind::WeightGrad) {
            addF32(machine, accumulator, work, static_cast<float*>(arguments.result), warp_m,
                   warp_n);
        } else {
            storeBf16(machine, accumulator, work, static_cast<Bf16*>(arguments.result), warp_m,
                      warp_n);
        }
    }
}

}  // namespace piper::cuda
