// SPDX-License-Identifier: Apache-2.0
// The body of the Hopper grouped GEMM on emulated blocks against a plain loop.
#include <gtest/gtest.h>

#include <random>

#include "kernels/cuda/hopper_kernel.h"
#include "tests/kernels/cuda/emulated_hopper.h"
#include "tests/kernels/cuda/grouped_case.h"

namespace piper::cuda {
namespace {

using test::EmulatedBlock;
using test::EmulatedHopperMachine;
using test::EmulatedMaps;
using test::GroupedCase;

template <class Config>
EmulatedMaps mapsOf(const GroupedArguments& a, std::int64_t rows) {
    if (Config::kKind == GroupedKind::Forward) {
        return {{a.w, a.in, a.out, a.groups, kHopperFeatures},
                {a.x, a.in, rows, 1, Config::kColumns}};
    }
    if (Config::kKind == GroupedKind::InputGrad) {
        return {{a.w, a.in, a.out, a.groups, kTileR}, {a.dy, a.out, rows, 1, Config::kColumns}};
    }
    return {{a.dy, a.out, rows, 1, kTileR}, {a.x, a.in, rows, 1, kTileR}};
}

template <class Config>
void expectHopperEquals(const std::vector<int>& rows, int in, int out, int blocks) {
    const std::uint32_t seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed) + " routing " + testing::PrintToString(rows));
    GroupedCase item(Config::kKind, rows, in, out, seed);
    const auto maps = mapsOf<Config>(item.arguments(), item.rows());
    for (int b = 0; b < blocks; ++b) {
        EmulatedBlock block(b, blocks, kHopperThreads,
                            hopperSharedBytes<Config>(static_cast<int>(rows.size())),
                            seed + static_cast<unsigned>(b));
        test::HopperState state;
        block.run([&](int thread) {
            EmulatedHopperMachine machine(block, thread, state);
            hopperBody<Config>(machine, item.arguments(), maps);
        });
    }
    item.expectRight();
}

template <class Config>
void expectHopperRoutings() {
    // Reductions of a part of a stage and of several, columns that end inside a tile and a panel.
    expectHopperEquals<Config>({0, 17, 0, 1, 33, 0}, 72, 136, 2);
    expectHopperEquals<Config>({129, 70}, 200, 328, 1);
    expectHopperEquals<Config>({0, 0}, 8, 8, 1);
    expectHopperEquals<Config>({1}, 8, 8, 2);
}

TEST(HopperKernel, ForwardOfFewTokensEqualsAPlainLoop) {
    expectHopperRoutings<HopperConfig<GroupedKind::Forward, 16, 5>>();
    expectHopperRoutings<HopperConfig<GroupedKind::Forward, 32, 4>>();
}
TEST(HopperKernel, ForwardOfManyTokensEqualsAPlainLoop) {
    expectHopperRoutings<HopperConfig<GroupedKind::Forward, 64, 6>>();
    expectHopperRoutings<HopperConfig<GroupedKind::Forward, 128, 5>>();
    expectHopperRoutings<HopperConfig<GroupedKind::Forward, 256, 3>>();
}
TEST(HopperKernel, InputGradientOfFewTokensEqualsAPlainLoop) {
    expectHopperRoutings<HopperConfig<GroupedKind::InputGrad, 16, 5>>();
    expectHopperRoutings<HopperConfig<GroupedKind::InputGrad, 32, 4>>();
}
TEST(HopperKernel, InputGradientOfManyTokensEqualsAPlainLoop) {
    expectHopperRoutings<HopperConfig<GroupedKind::InputGrad, 64, 6>>();
    expectHopperRoutings<HopperConfig<GroupedKind::InputGrad, 128, 5>>();
    expectHopperRoutings<HopperConfig<GroupedKind::InputGrad, 256, 3>>();
}
TEST(HopperKernel, WeightGradientIsAddedAndStaysInItsGroup) {
    expectHopperRoutings<HopperConfig<GroupedKind::WeightGrad, 256, 4>>();
}

TEST(HopperKernel, TheLargestTableFitsTheSharedMemoryOfAMultiprocessor) {
    constexpr int kMost = 232448;  // 227 KiB a block on compute 9.0
    EXPECT_LE((hopperSharedBytes<HopperConfig<GroupedKind::Forward, 256, 3>>(kMaxGroups)), kMost);
    EXPECT_LE((hopperSharedBytes<HopperConfig<GroupedKind::Forward, 128, 5>>(kMaxGroups)), kMost);
    EXPECT_LE((hopperSharedBytes<HopperConfig<GroupedKind::WeightGrad, 256, 4>>(kMaxGroups)),
              kMost);
    // Two blocks at a time where weights are read once and bandwidth is what counts (each keeps
    // 1 KiB for the system).
    EXPECT_LE(2 * (hopperSharedBytes<HopperConfig<GroupedKind::Forward, 16, 5>>(256) + 1024),
              233472);
    EXPECT_LE(2 * (hopperSharedBytes<HopperConfig<GroupedKind::Forward, 32, 4>>(256) + 1024),
              233472);
}

TEST(HopperKernel, TheRingTurnsItsParityEachRound) {
    RingPlace<3> place;
    std::string seen;
    for (int i = 0; i < 7; ++i) {
        seen += std::to_string(place.stage) + std::to_string(place.parity) + " ";
        place.next();
    }
    EXPECT_EQ(seen, "00 10 20 01 11 21 00 ");
}

}  // namespace
}  // namespace piper::cuda
