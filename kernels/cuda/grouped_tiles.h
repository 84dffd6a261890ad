// SPDX-License-Identifier: Apache-2.0
#pragma once

// The walk of the grouped GEMM over output tiles, for host and device. How many rows a group (local
// expert) has stands in device memory only, so every block builds the table of first tiles itself.
//
// Every kind is a product c [m, n] = sum over r of a(m, r) b(n, r):
//   Forward     y  = x w^T     m: rows of the group   n: out    r: in
//   InputGrad   dx = dy w      m: rows of the group   n: in     r: out
//   WeightGrad  dw += dy^T x   m: out                 n: in     r: rows of the group

#include "kernels/cuda/host_device.h"

namespace piper::cuda {

enum class GroupedKind : int { Forward = 0, InputGrad = 1, WeightGrad = 2 };

constexpr int kMaxGroups = 1024;
/// Reduction elements of one pipeline stage: 128 bytes of bf16, a line of shared memory.
constexpr int kTileR = 64;

/// Sizes and addresses of one grouped product. Row-major, contiguous, 16-byte aligned; in and out
/// are multiples of 8.
struct GroupedArguments {
    const Bf16* x;                ///< [rows, in] (Forward, WeightGrad)
    const Bf16* dy;               ///< [rows, out] (InputGrad, WeightGrad)
    const Bf16* w;                ///< [groups * out, in] (Forward, InputGrad)
    void* result;                 ///< bf16 [rows, out] or [rows, in]; f32 [groups * out, in]
    const std::int64_t* offsets;  ///< [groups + 1] on the device: first row of each group
    int groups;
    int in;
    int out;
};

/// An operand as a tile sees it: element (mn, r) lies at origin[mn * stride + r], or, when the
/// other index is contiguous, at origin[r * stride + mn].
struct OperandView {
    const Bf16* origin;
    std::int64_t stride;
    int extent;  ///< valid mn
    int length;  ///< valid r
};

/// One output tile: its operands and the place of its first element in the result.
struct TileWork {
    OperandView a;
    OperandView b;
    std::int64_t result_offset;  ///< elements
    std::int64_t result_stride;
    int steps;  ///< pipeline stages of kTileR
};

struct TileExtents {
    int m, n;
};

PIPER_HOST_DEVICE int resultColumns(GroupedKind kind, int in, int out) {
    return kind == GroupedKind::Forward ? out : in;
}

/// Rows of tiles of one group; 0 for a group without rows.
PIPER_HOST_DEVICE int tileRows(GroupedKind kind, int rows, int out, int tile_m) {
    if (rows == 0) return 0;
    return ceilDiv(kind == GroupedKind::WeightGrad ? out : rows, tile_m);
}
PIPER_HOST_DEVICE int tileColumns(GroupedKind kind, int in, int out, int tile_n) {
    return ceilDiv(resultColumns(kind, in, out), tile_n);
}

/// The group of a tile: the last g with first_tile[g] <= tile and a tile of its own.
/// first_tile [groups + 1] ascends from 0 to the number of tiles, which is above `tile`.
PIPER_HOST_DEVICE int groupOfTile(const int* first_tile, int groups, int tile) {
    int low = 0;
    int high = groups;  // first_tile[low] <= tile < first_tile[high]
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (first_tile[middle] <= tile) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

struct TilePlace {
    int row, column;
};

/// Row and column of tile `index` within its group. Blocks that run together take bands of up to
/// kBand rows of tiles, rows first: both operands of a band stay in the L2 cache.
PIPER_HOST_DEVICE TilePlace tilePlace(int index, int tile_rows, int tile_columns) {
    constexpr int kBand = 16;
    const int band = index / (kBand * tile_columns);
    const int height = smaller(kBand, tile_rows - band * kBand);
    const int within = index - band * kBand * tile_columns;
    return {band * kBand + within % height, within / height};
}

/// Where a tile lies: its group, the group's rows, and its place among the group's tiles.
struct TileSpot {
    int group;
    std::int64_t first_row;
    int rows;
    TilePlace place;
};

/// Pipeline stages of a tile of a group with `rows` rows.
PIPER_HOST_DEVICE int stepsOf(GroupedKind kind, const GroupedArguments& arguments, int rows) {
    const int length = kind == GroupedKind::Forward     ? arguments.in
                       : kind == GroupedKind::InputGrad ? arguments.out
                                                        : rows;
    return ceilDiv(length, kTileR);
}

/// Operands and result of the tile at `spot`.
PIPER_HOST_DEVICE TileWork tileWork(GroupedKind kind, const GroupedArguments& arguments,
                                    const TileSpot& spot, TileExtents tile) {
    const int m = spot.place.row * tile.m;
    const int n = spot.place.column * tile.n;
    const int rows = spot.rows;
    const std::int64_t first_row = spot.first_row;
    const int steps = stepsOf(kind, arguments, rows);
    const std::int64_t in = arguments.in;
    const std::int64_t out = arguments.out;
    const std::int64_t weights = spot.group * out * in;
    const int columns = smaller(tile.n, resultColumns(kind, arguments.in, arguments.out) - n);
    if (kind == GroupedKind::WeightGrad) {
        const int extent = smaller(tile.m, arguments.out - m);
        return {{arguments.dy + first_row * out + m, out, extent, rows},
                {arguments.x + first_row * in + n, in, columns, rows},
                weights + m * in + n,
                in,
                steps};
    }
    const std::int64_t row = first_row + m;
    const int extent = smaller(tile.m, rows - m);
    if (kind == GroupedKind::Forward) {
        return {{arguments.x + row * in, in, extent, arguments.in},
                {arguments.w + weights + n * in, in, columns, arguments.in},
                row * out + n,
                out,
                steps};
    }
    return {{arguments.dy + row * out, out, extent, arguments.out},
            {arguments.w + weights + n, in, columns, arguments.out},
            row * in + n,
            in,
            steps};
}

// ---- shared memory: lines of 128 bytes, eight pieces of 16, the pieces of a line exchanged by the
// line's number so that eight lines of one piece meet all banks (the 128-byte swizzle of TMA).
// An operand whose r is contiguous has a line for each mn. One whose mn is contiguous has panels of
// 64 mn, in each a line for each r.

constexpr int kLineBytes = 128;
constexpr int kLinePieces = 8;
constexpr int kPieceElements = 8;
constexpr int kPanel = 64;

/// Byte offset of piece `piece` of line `line`.
PIPER_HOST_DEVICE int swizzled(int line, int piece) {
    return line * kLineBytes + ((piece ^ (line & 7)) << 4);
}

/// Where a piece of a stage comes from.
struct PieceSource {
    std::int64_t element;  ///< of the operand's origin
    bool valid;
};

/// Source of the piece `piece` of line `line` for the stage whose first r is `first`.
template <bool ContiguousR>
PIPER_HOST_DEVICE PieceSource pieceSource(const OperandView& view, int first, int line, int piece) {
    if (ContiguousR) {
        const int r = first + piece * kPieceElements;
        return {line * view.stride + r, line < view.extent && r < view.length};
    }
    const int mn = line / kPanel * kPanel + piece * kPieceElements;
    const int r = first + line % kPanel;
    return {r * view.stride + mn, mn < view.extent && r < view.length};
}

// ---- fragments of mma.sync.m16n8k16 and the lanes' addresses for ldmatrix.x4 that fill them

/// Address that lane `lane` gives for the 16 mn by 16 r of an A fragment at (mn, r) of the tile.
template <bool ContiguousR>
PIPER_HOST_DEVICE int fragmentAddressA(int mn, int r, int lane) {
    if (ContiguousR) return swizzled(mn + (lane & 15), r / kPieceElements + (lane >> 4));
    const int line = mn / kPanel * kPanel + r + (lane & 7) + ((lane >> 4) << 3);
    return swizzled(line, mn % kPanel / kPieceElements + ((lane >> 3) & 1));
}

/// The same for two B fragments, 16 mn by 16 r: registers 0, 1 are the first's, 2, 3 the second's.
template <bool ContiguousR>
PIPER_HOST_DEVICE int fragmentAddressB(int mn, int r, int lane) {
    if (ContiguousR) {
        return swizzled(mn + (lane & 7) + ((lane >> 4) << 3),
                        r / kPieceElements + ((lane >> 3) & 1));
    }
    const int line = mn / kPanel * kPanel + r + (lane & 15);
    return swizzled(line, mn % kPanel / kPieceElements + (lane >> 4));
}

/// Place in a 16 by 8 result fragment of a lane's value `index` (0..3).
PIPER_HOST_DEVICE TilePlace fragmentPlace(int lane, int index) {
    return {(lane >> 2) + (index >> 1) * 8, (lane & 3) * 2 + (index & 1)};
}

}  // namespace piper::cuda
