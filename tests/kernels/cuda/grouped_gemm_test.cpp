// SPDX-License-Identifier: Apache-2.0
// The body of the portable grouped GEMM on emulated blocks against a plain loop, its index
// functions one by one, and the choice of kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "kernels/cuda/grouped_kernel.h"
#include "kernels/cuda/grouped_plan.h"
#include "tests/kernels/cuda/emulated_block.h"
#include "tests/kernels/cuda/grouped_case.h"

namespace piper::cuda {
namespace {

using test::GroupedCase;
using test::runGrid;

TEST(GroupedTiles, PlacesOfAGroupAreABijection) {
    for (int rows = 1; rows <= 40; ++rows) {
        for (int columns = 1; columns <= 9; ++columns) {
            std::set<std::pair<int, int>> seen;
            for (int i = 0; i < rows * columns; ++i) {
                const TilePlace at = tilePlace(i, rows, columns);
                ASSERT_TRUE(at.row >= 0 && at.row < rows) << rows << "x" << columns << " " << i;
                ASSERT_TRUE(at.column >= 0 && at.column < columns);
                seen.insert({at.row, at.column});
            }
            ASSERT_EQ(seen.size(), static_cast<std::size_t>(rows * columns));
        }
    }
}

TEST(GroupedTiles, GroupOfTilePassesOverEmptyGroups) {
    std::mt19937 random(1);
    for (int round = 0; round < 200; ++round) {
        const int groups = 1 + static_cast<int>(random() % 20);
        std::vector<int> first{0};
        std::vector<int> group_of_tile;
        for (int g = 0; g < groups; ++g) {
            const int tiles = random() % 3 == 0 ? 0 : static_cast<int>(random() % 5);
            group_of_tile.insert(group_of_tile.end(), static_cast<std::size_t>(tiles), g);
            first.push_back(first.back() + tiles);
        }
        for (std::size_t tile = 0; tile < group_of_tile.size(); ++tile) {
            ASSERT_EQ(groupOfTile(first.data(), groups, static_cast<int>(tile)),
                      group_of_tile[tile]);
        }
    }
}

TEST(GroupedTiles, SwizzledPiecesFillTheirLinesAndMeetAllBanks) {
    std::set<int> offsets;
    for (int line = 0; line < 64; ++line) {
        for (int piece = 0; piece < kLinePieces; ++piece) {
            const int offset = swizzled(line, piece);
            EXPECT_EQ(offset / kLineBytes, line);
            EXPECT_EQ(offset % 16, 0);
            offsets.insert(offset);
        }
    }
    EXPECT_EQ(offsets.size(), 64U * kLinePieces);
    for (int piece = 0; piece < kLinePieces; ++piece) {
        std::set<int> banks;
        for (int line = 0; line < 8; ++line) banks.insert(swizzled(8 + line, piece) % kLineBytes);
        EXPECT_EQ(banks.size(), 8U) << "eight lines of piece " << piece;
    }
}

TEST(GroupedTiles, OffsetsBeyond32BitsKeepTheirPlace) {
    const GroupedArguments a{nullptr, nullptr, nullptr, nullptr, nullptr, 512, 7168, 4096};
    const std::int64_t first = std::int64_t{1} << 30U;
    const TileWork y = tileWork(GroupedKind::Forward, a, {511, first, 300, {1, 2}}, {128, 128});
    EXPECT_EQ(y.result_offset, (first + 128) * 4096 + 256);
    EXPECT_EQ(y.b.origin - a.w, std::int64_t{511} * 7168 * 4096 + std::int64_t{256} * 7168);
    const TileWork dw = tileWork(GroupedKind::WeightGrad, a, {511, first, 300, {3, 2}}, {128, 128});
    EXPECT_EQ(dw.result_offset, (std::int64_t{511} * 4096 + 3 * 128) * 7168 + 256);
    EXPECT_EQ(dw.steps, 5);
}

/// Runs the kernel over `blocks` blocks and compares.
template <class Config>
void expectEqualsPlainLoop(const std::vector<int>& rows, int in, int out, int blocks,
                           std::uint32_t seed) {
    GroupedCase item(Config::kKind, rows, in, out, seed);
    runGrid(blocks, Config::kThreads, groupedSharedBytes<Config>(static_cast<int>(rows.size())),
            seed, [&](auto& machine) { groupedBody<Config>(machine, item.arguments()); });
    item.expectRight();
}

/// Skewed, empty groups first, last and between, one row, one more than a tile.
const std::vector<std::vector<int>> kRoutings{{0, 17, 0, 0, 1, 33, 0}, {129, 4}, {0, 0}};

template <class Config>
void expectAllRoutings() {
    std::uint32_t seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const auto& rows : kRoutings) {
        SCOPED_TRACE("routing " + testing::PrintToString(rows));
        // Reduction of one part of a stage, of several, and columns that end inside a tile.
        expectEqualsPlainLoop<Config>(rows, 72, 136, 2, ++seed);
        if (testing::Test::HasFailure()) return;
    }
    expectEqualsPlainLoop<Config>({1}, 8, 8, 2, ++seed);
    expectEqualsPlainLoop<Config>({5, 16}, 328, 200, 1, ++seed);
}

TEST(GroupedKernel, ForwardEqualsAPlainLoop) {
    expectAllRoutings<GroupedConfig<GroupedKind::Forward, 16, 128, 1, 4, 4>>();
    expectAllRoutings<GroupedConfig<GroupedKind::Forward, 32, 128, 1, 4, 4>>();
}
TEST(GroupedKernel, ForwardOfLargeTilesEqualsAPlainLoop) {
    expectAllRoutings<GroupedConfig<GroupedKind::Forward, 64, 128, 2, 2, 3>>();
    expectAllRoutings<GroupedConfig<GroupedKind::Forward, 128, 128, 2, 2, 3>>();
}
TEST(GroupedKernel, InputGradientEqualsAPlainLoop) {
    expectAllRoutings<GroupedConfig<GroupedKind::InputGrad, 16, 128, 1, 4, 4>>();
    expectAllRoutings<GroupedConfig<GroupedKind::InputGrad, 32, 128, 1, 4, 4>>();
}
TEST(GroupedKernel, InputGradientOfLargeTilesEqualsAPlainLoop) {
    expectAllRoutings<GroupedConfig<GroupedKind::InputGrad, 64, 128, 2, 2, 3>>();
    expectAllRoutings<GroupedConfig<GroupedKind::InputGrad, 128, 128, 2, 2, 3>>();
}
TEST(GroupedKernel, WeightGradientIsAddedToWhatIsThere) {
    expectAllRoutings<GroupedConfig<GroupedKind::WeightGrad, 128, 128, 2, 2, 3>>();
}

TEST(GroupedPlan, ASkinnyExpertTakesASmallTile) {
    GroupedSizes sizes{GroupedKind::Forward, 0, 8, 2048, 1408};
    int last = 0;
    for (const auto& [rows, tile_m] : {std::pair{1, 16},
                                       {4, 16},
                                       {16, 16},
                                       {17, 32},
                                       {32, 32},
                                       {33, 64},
                                       {65, 128},
                                       {4096, 128}}) {
        sizes.rows = std::int64_t{8} * rows;
        const int tile = choosePortableTile(sizes);
        EXPECT_EQ(kPortableTiles[tile].m, tile_m) << rows;
        EXPECT_GE(tile, last);
        last = tile;
    }
    sizes.kind = GroupedKind::WeightGrad;
    sizes.rows = 8;
    EXPECT_EQ(kPortableTiles[choosePortableTile(sizes)].m, 128);
}

TEST(GroupedPlan, MostTilesBoundsEveryRouting) {
    std::mt19937 random(7);
    for (int round = 0; round < 2000; ++round) {
        const int groups = 1 + static_cast<int>(random() % 6);
        const TileExtents tile = kPortableTiles[random() % kPortableTileCount];
        const auto kind = static_cast<GroupedKind>(random() % 3);
        const GroupedSizes sizes{kind, static_cast<std::int64_t>(random() % 400), groups, 136, 264};
        std::int64_t left = sizes.rows;
        std::int64_t tiles = 0;
        for (int g = 0; g < groups; ++g) {
            const auto rows = static_cast<int>(
                g + 1 == groups ? left : static_cast<std::int64_t>(random()) % (left + 1));
            left -= rows;
            tiles += std::int64_t{tileRows(kind, rows, sizes.out, tile.m)} *
                     tileColumns(kind, sizes.in, sizes.out, tile.n);
        }
        ASSERT_LE(tiles, mostTiles(sizes, tile)) << "rows " << sizes.rows << " groups " << groups;
    }
    // Tight: one row each.
    EXPECT_EQ(mostTiles({GroupedKind::Forward, 6, 6, 136, 264}, {16, 128}), 6 * 3);
}

TEST(GroupedPlan, ThePathFollowsTheDevice) {
    const DeviceTraits ampere{8, 108, true};
    const DeviceTraits hopper{9, 132, true};
    const DeviceTraits old_driver{9, 132, false};
    const DeviceTraits blackwell{10, 148, true};
    EXPECT_EQ(choosePath(GroupedPath::Automatic, ampere), GroupedPath::Portable);
    EXPECT_EQ(choosePath(GroupedPath::Automatic, hopper), GroupedPath::Hopper);
    EXPECT_EQ(choosePath(GroupedPath::Portable, hopper), GroupedPath::Portable);
    EXPECT_EQ(choosePath(GroupedPath::Automatic, old_driver), GroupedPath::Portable);
    EXPECT_EQ(choosePath(GroupedPath::Automatic, blackwell), GroupedPath::Portable);
    EXPECT_EQ(choosePath(GroupedPath::Hopper, blackwell), GroupedPath::Automatic);
    EXPECT_EQ(choosePath(GroupedPath::Automatic, {7, 80, false}), GroupedPath::Automatic);
}

TEST(GroupedPlan, ABlockForEachTileUpToAFullDevice) {
    EXPECT_EQ(persistentBlocks(0, 132, 2), 1);
    EXPECT_EQ(persistentBlocks(100, 132, 2), 100);
    EXPECT_EQ(persistentBlocks(std::int64_t{1} << 40U, 132, 2), 264);
    EXPECT_EQ(persistentBlocks(1000, 132, 0), 132);
}

TEST(GroupedPlan, SizesOutsideTheRulesAreNamed) {
    const GroupedSizes good{GroupedKind::Forward, 64, 8, 2048, 1408};
    EXPECT_EQ(unusableSizes(good), nullptr);
    GroupedSizes bad = good;
    bad.in = 2044;
    EXPECT_STREQ(unusableSizes(bad), "in must be a multiple of 8 from 8 to 2^20");
    bad = good;
    bad.out = 0;
    EXPECT_STREQ(unusableSizes(bad), "out must be a multiple of 8 from 8 to 2^20");
    bad = good;
    bad.groups = kMaxGroups + 1;
    EXPECT_STREQ(unusableSizes(bad), "groups must be 1 to 1024");
    bad = good;
    bad.rows = -1;
    EXPECT_STREQ(unusableSizes(bad), "rows must be 0 to 2^30");
}

// ---- the emulated block itself finds what a device would punish

TEST(EmulatedBlock, AMissingBarrierIsSeen) {
    int wrong = 0;
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        runGrid(1, 64, 256, seed, [&](auto& machine) {
            machine.storeInt(machine.thread() * 4, machine.thread());
            // no syncBlock
            if (machine.loadInt((63 - machine.thread()) * 4) != 63 - machine.thread()) ++wrong;
        });
    }
    EXPECT_GT(wrong, 0);
}

TEST(EmulatedBlock, AMissingWaitIsSeen) {
    alignas(16) const std::uint32_t source[4] = {1, 2, 3, 4};
    int wrong = 0;
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
        runGrid(1, 32, 16 * 32, seed, [&](auto& machine) {
            machine.copyAsync(machine.thread() * 16, source, true);
            machine.commitCopies();
            machine.template waitCopies<1>();
            if (machine.loadInt(machine.thread() * 16) != 1) ++wrong;
            machine.template waitCopies<0>();
            EXPECT_EQ(machine.loadInt(machine.thread() * 16), 1);
        });
    }
    EXPECT_GT(wrong, 0);
}

TEST(EmulatedBlock, ABarrierThatNotAllReachIsAnError) {
    EXPECT_THROW(runGrid(1, 64, 16, 1,
                         [](auto& machine) {
                             if (machine.thread() < 63) machine.syncBlock();
                         }),
                 test::EmulationError);
    EXPECT_THROW(runGrid(1, 32, 16, 1, [](auto& machine) { (void)machine.loadInt(16); }),
                 test::EmulationError);
}

}  // namespace
}  // namespace piper::cuda
