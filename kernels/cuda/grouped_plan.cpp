// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/grouped_plan.h"

#include <algorithm>

namespace piper::cuda {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 30U;
constexpr int kMostColumns = 1 << 20U;

std::int64_t averageRows(const GroupedSizes& sizes) {
    return ceilDiv<std::int64_t>(sizes.rows, sizes.groups);
}

}  // namespace

int choosePortableTile(const GroupedSizes& sizes) {
    if (sizes.kind == GroupedKind::WeightGrad) return kPortableTileCount - 1;
    const std::int64_t rows = averageRows(sizes);
    for (int i = 0; i < kPortableTileCount - 1; ++i) {
        if (rows <= kPortableTiles[i].m) return i;
    }
    return kPortableTileCount - 1;
}

int chooseHopperTokens(const GroupedSizes& sizes) {
    if (sizes.kind == GroupedKind::WeightGrad) return 256;
    const std::int64_t rows = averageRows(sizes);
    for (const int tokens : {16, 32, 64, 128}) {
        if (rows <= tokens) return tokens;
    }
    return 256;
}

GroupedPath choosePath(GroupedPath asked, const DeviceTraits& device) {
    const bool hopper = device.compute_major == 9 && device.tensor_maps;
    if (asked == GroupedPath::Hopper) return hopper ? GroupedPath::Hopper : GroupedPath::Automatic;
    if (device.compute_major < 8) return GroupedPath::Automatic;
    if (asked == GroupedPath::Portable) return GroupedPath::Portable;
    return hopper ? GroupedPath::Hopper : GroupedPath::Portable;
}

std::int64_t mostTiles(const GroupedSizes& sizes, TileExtents tile) {
    const std::int64_t columns = tileColumns(sizes.kind, sizes.in, sizes.out, tile.n);
    const std::int64_t groups = std::min<std::int64_t>(sizes.groups, sizes.rows);  // not empty
    if (sizes.kind == GroupedKind::WeightGrad) {
        return groups * ceilDiv(sizes.out, tile.m) * columns;
    }
    return ((sizes.rows - groups) / tile.m + groups) * columns;
}

int persistentBlocks(std::int64_t most_tiles, int multiprocessors, int blocks_per_multiprocessor) {
    const std::int64_t full =
        std::int64_t{multiprocessors} * std::max(blocks_per_multiprocessor, 1);
    return static_cast<int>(std::max<std::int64_t>(1, std::min(full, most_tiles)));
}

const char* unusableSizes(const GroupedSizes& sizes) {
    if (sizes.groups < 1 || sizes.groups > kMaxGroups) return "groups must be 1 to 1024";
    if (sizes.rows < 0 || sizes.rows > kMostRows) return "rows must be 0 to 2^30";
    if (sizes.in < 8 || sizes.in % 8 != 0 || sizes.in > kMostColumns) {
        return "in must be a multiple of 8 from 8 to 2^20";
    }
    if (sizes.out < 8 || sizes.out % 8 != 0 || sizes.out > kMostColumns) {
        return "out must be a multiple of 8 from 8 to 2^20";
    }
    // Tile numbers are int.
    const TileExtents smallest = kPortableTiles[choosePortableTile(sizes)];
    if (mostTiles(sizes, smallest) > INT32_MAX) return "more than 2^31 tiles";
    return nullptr;
}

}  // namespace piper::cuda
