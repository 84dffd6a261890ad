// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/grouped_tiles.h"

// Which kernel a grouped product takes: pure host functions, tested without a device.

namespace piper::cuda {

enum class GroupedPath : int { Automatic = 0, Portable = 1, Hopper = 2 };

/// What of the device a choice needs.
struct DeviceTraits {
    int compute_major = 0;
    int multiprocessors = 1;
    bool tensor_maps = false;  ///< the driver encodes tensor maps (TMA)
};

/// Sizes the host knows. `rows` is the room for rows; how many are routed stands on the device.
struct GroupedSizes {
    GroupedKind kind = GroupedKind::Forward;
    std::int64_t rows = 0;
    int groups = 1;
    int in = 0;
    int out = 0;
};

/// Number of the portable tile: its index in kPortableTiles.
constexpr TileExtents kPortableTiles[] = {{16, 128}, {32, 128}, {64, 128}, {128, 128}};
constexpr int kPortableTileCount = 4;

/// Tile by the average rows of a group: the smallest that holds them, so that a skinny expert
/// multiplies few rows of padding; weight gradients have no rows of tokens and take the largest.
[[nodiscard]] int choosePortableTile(const GroupedSizes& sizes);

/// Tokens of a Hopper tile (its n), by the same rule: 16, 32, 64, 128 or 256.
[[nodiscard]] int chooseHopperTokens(const GroupedSizes& sizes);

/// Portable where Hopper's instructions are not to be had; a path that was asked for and does not
/// exist on the device is Automatic again, which the caller refuses.
[[nodiscard]] GroupedPath choosePath(GroupedPath asked, const DeviceTraits& device);

/// The most tiles the routing can give: every group may end in a part of a tile.
[[nodiscard]] std::int64_t mostTiles(const GroupedSizes& sizes, TileExtents tile);

/// Blocks of a persistent launch: a full device, or one for each possible tile if those are fewer.
[[nodiscard]] int persistentBlocks(std::int64_t most_tiles, int multiprocessors,
                                   int blocks_per_multiprocessor);

/// Why the sizes cannot be taken, or nullptr.
[[nodiscard]] const char* unusableSizes(const GroupedSizes& sizes);

}  // namespace piper::cuda
