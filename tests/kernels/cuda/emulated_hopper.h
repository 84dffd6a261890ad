// SPDX-License-Identifier: Apache-2.0
#pragma once

// What kernels/cuda/hopper_machine.cuh adds, on the emulated block: TMA copies that arrive at
// random, barriers that count threads and bytes, and WGMMA that reads its operands as late as its
// wait allows, through the descriptor as the PTX manual defines it.

#include <map>

#include "kernels/cuda/hopper_kernel.h"
#include "tests/kernels/cuda/emulated_block.h"

namespace piper::test {

/// A tensor map: groups of rows of columns of bf16, read in boxes of 64 columns.
struct EmulatedMap {
    const cuda::Bf16* data = nullptr;
    std::int64_t columns = 0;
    std::int64_t rows = 0;
    std::int64_t groups = 1;
    int box_rows = 0;
};
struct EmulatedMaps {
    EmulatedMap a, b;
};

/// What threads of a block share beside its memory.
class HopperState {
public:
    struct Barrier {
        int count = 0;
        int pending = 0;
        int bytes = 0;
        int phase = 0;
        void settle();
    };
    struct Product {
        std::uint64_t a, b;
        int columns;
        bool transposed_a, transposed_b;
        std::vector<float*> d;  ///< of 128 lanes
    };
    struct Warpgroup {
        std::vector<Product> open;
        std::vector<std::vector<Product>> groups;
    };

    std::map<int, Barrier> barriers;
    Warpgroup warpgroups[3];

    [[nodiscard]] Barrier& barrier(int at);
};

class EmulatedHopperMachine : public EmulatedMachine {
public:
    EmulatedHopperMachine(EmulatedBlock& block, int thread, HopperState& state)
        : EmulatedMachine(block, thread), m_state(state) {}

    void barrier(int number, int members) { m_block.barrier(number, members); }
    void initBarrier(int at, int count) { m_state.barriers[at] = {count, count, 0, 0}; }
    void fenceBarriers() {}
    void fenceAsync() {}
    void expectBytes(int at, int bytes);
    void arriveBarrier(int at);
    void waitBarrier(int at, int parity);
    void copyBox(int to, const EmulatedMap& map, int x, int y, int z, int at);

    template <int N>
    void holdRegisters(float (&)[N]) {}
    void beginProducts() {}
    template <int N, bool TransposedA, bool TransposedB>
    void product(float (&d)[N / 2], int a, int b) {
        product(d, N, TransposedA, TransposedB, a, b);
    }
    void commitProducts();
    template <int Pending>
    void waitProducts() {
        waitProducts(Pending);
    }
    void storeMatricesTransposed(int to, const std::uint32_t (&words)[4]);
    void storeShared16(int at, const std::uint32_t (&words)[4]) { store(at, words, 16); }
    void loadShared16(int at, std::uint32_t (&words)[4]);

private:
    void product(float* d, int columns, bool transposed_a, bool transposed_b, int a, int b);
    void waitProducts(int pending);
    void execute(const HopperState::Product& product);
    [[nodiscard]] float element(std::uint64_t descriptor, bool transposed, int mn, int k);

    HopperState& m_state;
};

}  // namespace piper::test
