// SPDX-License-Identifier: Apache-2.0
#pragma once

// A block of a CUDA grid on the host: runs a kernel's body once for each thread, the threads as
// fibers in random order. Shared memory starts poisoned, asynchronous copies arrive at random
// between their start and the wait for them, warp instructions need all 32 lanes, and a barrier
// that not everybody reaches is an error. So a body that lacks a barrier or a wait, or reads what
// nobody wrote, gives wrong results or stops here as it would on a device.

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

namespace piper::test {

/// What a body did that a device would punish; the message says what.
struct EmulationError : std::logic_error {
    using std::logic_error::logic_error;
};

class EmulatedBlock {
public:
    EmulatedBlock(int block, int blocks, int threads, int shared_bytes, std::uint32_t seed);
    ~EmulatedBlock();
    EmulatedBlock(const EmulatedBlock&) = delete;
    EmulatedBlock& operator=(const EmulatedBlock&) = delete;

    /// Runs body(thread) for every thread to its end; throws what a body throws.
    void run(const std::function<void(int)>& body);

    // ---- called from a body
    /// Goes on with other threads until `ready` says so. Everybody waiting is an error.
    void waitUntil(const std::function<bool()>& ready);
    /// Waits until `members` threads have come to it.
    void barrier(int number, int members);
    /// Every lane of a warp (or of a warpgroup, with 128 lanes) brings its argument; the last runs
    /// `all` over the lanes' arguments; then all go on. `name` must be the same in all lanes.
    void collective(int thread, const char* name, void* argument,
                    const std::function<void(void* const* lanes)>& all, int lanes = 32);
    /// Runs an asynchronous engine's work some time later, or at once.
    void later(std::function<void()> work);

    [[nodiscard]] unsigned char* shared(int offset, int bytes);
    [[nodiscard]] bool flip() { return (m_random() & 1U) != 0; }
    [[nodiscard]] int block() const { return m_block; }
    [[nodiscard]] int blocks() const { return m_blocks; }
    [[nodiscard]] int threads() const { return m_threads; }

private:
    struct Fibers;
    struct Barrier {
        int arrived = 0;
        std::uint64_t generation = 0;
    };
    struct Lanes {
        const char* name = nullptr;
        int arrived = 0;
        std::uint64_t generation = 0;
        void* arguments[128] = {};
    };

    int m_block, m_blocks, m_threads;
    std::vector<unsigned char> m_shared_room;
    unsigned char* m_shared;
    int m_shared_bytes;
    std::mt19937 m_random;
    std::uint64_t m_progress = 0;
    std::vector<Barrier> m_barriers;
    std::vector<Lanes> m_warps;
    std::vector<Lanes> m_warpgroups;
    std::vector<std::function<void()>> m_later;
    std::unique_ptr<Fibers> m_fibers;
};

/// The Machine of kernel bodies (kernels/cuda/portable_machine.cuh) as one thread of an emulated
/// block has it.
class EmulatedMachine {
public:
    EmulatedMachine(EmulatedBlock& block, int thread) : m_block(block), m_thread(thread) {}

    [[nodiscard]] int thread() const { return m_thread; }
    [[nodiscard]] int threads() const { return m_block.threads(); }
    [[nodiscard]] int block() const { return m_block.block(); }
    [[nodiscard]] int blocks() const { return m_block.blocks(); }
    void syncBlock() { m_block.barrier(0, m_block.threads()); }
    void syncWarp();

    void copyAsync(int to, const void* from, bool valid);
    void commitCopies() { m_groups.emplace_back(); }
    template <int Pending>
    void waitCopies() {
        arrive(Pending);
    }
    template <bool Transposed>
    void loadMatrices(int from, std::uint32_t (&to)[4]) {
        loadMatrices(Transposed, from, to);
    }
    template <int Rows, int Columns>
    void multiply(float (&d)[Rows][Columns][4], const std::uint32_t (&a)[Rows][4],
                  const std::uint32_t (&b)[Columns / 2][4]) {
        multiply(&d[0][0], a, b, Rows, Columns);
    }
    [[nodiscard]] std::uint32_t shuffleXor(std::uint32_t value, int mask);
    [[nodiscard]] std::uint32_t matchAny(int key);

    void store16(void* to, const std::uint32_t (&words)[4]) const;
    void add2(float* to, float first, float second) const;

    void storeInt(int at, int value) { store(at, &value, sizeof value); }
    [[nodiscard]] int loadInt(int at) { return *ints(at); }
    [[nodiscard]] const int* ints(int at);
    void storeFloat(int at, float value) { store(at, &value, sizeof value); }
    [[nodiscard]] float loadFloat(int at);

protected:
    void store(int at, const void* value, int bytes);
    EmulatedBlock& m_block;

private:
    struct Copy {
        int to;
        unsigned char bytes[16];
    };
    void loadMatrices(bool transposed, int from, std::uint32_t (&to)[4]);
    void multiply(float (*d)[4], const std::uint32_t (*a)[4], const std::uint32_t (*b)[4], int rows,
                  int columns);
    void arrive(int pending);

    int m_thread;
    std::vector<std::vector<Copy>> m_groups = std::vector<std::vector<Copy>>(1);
};

/// Runs body(machine) for all threads of all blocks of a grid, block after block.
template <class Machine = EmulatedMachine, class Body>
void runGrid(int blocks, int threads, int shared_bytes, std::uint64_t seed, Body body) {
    for (int b = 0; b < blocks; ++b) {
        EmulatedBlock block(b, blocks, threads, shared_bytes,
                            static_cast<std::uint32_t>(seed) + static_cast<std::uint32_t>(b));
        block.run([&](int thread) {
            Machine machine(block, thread);
            body(machine);
        });
    }
}

}  // namespace piper::test
