// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda/emulated_block.h"

#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <numeric>
#include <string>

#include "kernels/cuda/host_device.h"

namespace piper::test {
namespace {

constexpr std::size_t kStackBytes = 128 * 1024;
constexpr int kNamedBarriers = 16;

/// Stacks are kept from block to block: fresh pages are dear.
unsigned char* stackOf(std::size_t fiber) {
    static std::vector<std::vector<unsigned char>> stacks;
    while (stacks.size() <= fiber) stacks.emplace_back(kStackBytes);
    return stacks[fiber].data();
}

}  // namespace

struct EmulatedBlock::Fibers {
    struct Fiber {
        ucontext_t context{};
        unsigned char* stack = nullptr;
        const std::function<bool()>* ready = nullptr;  ///< what it waits for
        bool done = false;
    };

    std::vector<Fiber> all;
    ucontext_t home{};
    int current = -1;
    const std::function<void(int)>* body = nullptr;
    std::exception_ptr error;

    void resume(int thread) {
        Fiber& fiber = all[static_cast<std::size_t>(thread)];
        current = thread;
        swapcontext(&home, &fiber.context);
    }
    void yield() {
        Fiber& fiber = all[static_cast<std::size_t>(current)];
        swapcontext(&fiber.context, &home);
    }
    void main() {
        const int thread = current;
        try {
            (*body)(thread);
        } catch (...) {
            if (!error) error = std::current_exception();
        }
        Fiber& fiber = all[static_cast<std::size_t>(thread)];
        fiber.done = true;
        swapcontext(&fiber.context, &home);
    }
    static void start(unsigned low, unsigned high) {
        const auto bits = static_cast<std::uintptr_t>(high) << 32U | low;
        reinterpret_cast<Fibers*>(bits)->main();
    }
};

EmulatedBlock::EmulatedBlock(int block, int blocks, int threads, int shared_bytes,
                             std::uint32_t seed)
    : m_block(block),
      m_blocks(blocks),
      m_threads(threads),
      m_shared_room(static_cast<std::size_t>(shared_bytes) + 1024, 0xFF),  // NaN
      m_shared(m_shared_room.data()),
      m_shared_bytes(shared_bytes),
      m_random(seed),
      m_barriers(kNamedBarriers),
      m_warps(static_cast<std::size_t>(threads) / 32 + 1),
      m_warpgroups(static_cast<std::size_t>(threads) / 128 + 1),
      m_fibers(std::make_unique<Fibers>()) {
    while (reinterpret_cast<std::uintptr_t>(m_shared) % 1024 != 0) ++m_shared;
}
EmulatedBlock::~EmulatedBlock() = default;

void EmulatedBlock::run(const std::function<void(int)>& body) {
    Fibers& fibers = *m_fibers;
    fibers.body = &body;
    fibers.all.resize(static_cast<std::size_t>(m_threads));
    for (std::size_t i = 0; i < fibers.all.size(); ++i) {
        Fibers::Fiber& fiber = fibers.all[i];
        fiber.stack = stackOf(i);
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack;
        fiber.context.uc_stack.ss_size = kStackBytes;
        const auto bits = reinterpret_cast<std::uintptr_t>(&fibers);
        makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Fibers::start), 2,
                    static_cast<unsigned>(bits), static_cast<unsigned>(bits >> 32U));
    }
    std::vector<int> order(static_cast<std::size_t>(m_threads));
    std::iota(order.begin(), order.end(), 0);
    while (!order.empty()) {
        std::shuffle(order.begin(), order.end(), m_random);
        const std::uint64_t before = m_progress;
        for (const int thread : order) {
            Fibers::Fiber& fiber = fibers.all[static_cast<std::size_t>(thread)];
            if (fiber.ready != nullptr && !(*fiber.ready)()) continue;
            fiber.ready = nullptr;
            ++m_progress;
            fibers.resume(thread);
            if (fibers.error) std::rethrow_exception(fibers.error);
        }
        std::erase_if(
            order, [&](int thread) { return fibers.all[static_cast<std::size_t>(thread)].done; });
        for (std::size_t i = 0; i < m_later.size();) {
            if (m_progress != before && flip()) {
                ++i;
                continue;
            }
            m_later[i]();
            m_later.erase(m_later.begin() + static_cast<std::ptrdiff_t>(i));
            ++m_progress;
        }
        if (m_progress == before) {
            throw EmulationError(
                "every thread waits: a barrier or an instruction of a warp that "
                "not all of its threads reach");
        }
    }
}

void EmulatedBlock::waitUntil(const std::function<bool()>& ready) {
    if (ready()) return;
    m_fibers->all[static_cast<std::size_t>(m_fibers->current)].ready = &ready;
    m_fibers->yield();
}

void EmulatedBlock::barrier(int number, int members) {
    Barrier& barrier = m_barriers.at(static_cast<std::size_t>(number));
    const std::uint64_t mine = barrier.generation;
    if (++barrier.arrived == members) {
        barrier.arrived = 0;
        ++barrier.generation;
        // The last to come need not be the first to go on.
        if (flip()) m_fibers->yield();
        return;
    }
    waitUntil([&] { return barrier.generation != mine; });
}

void EmulatedBlock::collective(int thread, const char* name, void* argument,
                               const std::function<void(void* const*)>& all, int lanes) {
    Lanes& group = (lanes == 32 ? m_warps : m_warpgroups)
                       .at(static_cast<std::size_t>(thread) / static_cast<std::size_t>(lanes));
    if (group.arrived > 0 && std::strcmp(group.name, name) != 0) {
        throw EmulationError(std::string("lanes of one warp at ") + group.name + " and " + name);
    }
    group.name = name;
    group.arguments[thread % lanes] = argument;
    const std::uint64_t mine = group.generation;
    if (++group.arrived == lanes) {
        all(group.arguments);
        group.arrived = 0;
        ++group.generation;
        return;
    }
    waitUntil([&] { return group.generation != mine; });
}

void EmulatedBlock::later(std::function<void()> work) {
    if (flip()) {
        work();
    } else {
        m_later.push_back(std::move(work));
    }
}

unsigned char* EmulatedBlock::shared(int offset, int bytes) {
    if (offset < 0 || offset + bytes > m_shared_bytes || offset % bytes != 0) {
        throw EmulationError("shared memory: " + std::to_string(bytes) + " bytes at " +
                             std::to_string(offset) + " of " + std::to_string(m_shared_bytes));
    }
    return m_shared + offset;
}

void EmulatedMachine::syncWarp() {
    m_block.collective(m_thread, "syncWarp", nullptr, [](void* const*) {});
}

void EmulatedMachine::copyAsync(int to, const void* from, bool valid) {
    if (reinterpret_cast<std::uintptr_t>(from) % 16 != 0) {
        throw EmulationError("a copy from an address that is not 16-byte aligned");
    }
    Copy copy{to, {}};
    if (valid) std::memcpy(copy.bytes, from, sizeof copy.bytes);
    unsigned char* place = m_block.shared(to, 16);
    if (m_block.flip()) {
        std::memcpy(place, copy.bytes, sizeof copy.bytes);
    } else {
        std::memset(place, 0xFF, sizeof copy.bytes);
        m_groups.back().push_back(copy);
    }
}

void EmulatedMachine::arrive(int pending) {
    // The last entry collects what is not committed yet.
    while (static_cast<int>(m_groups.size()) - 1 > pending) {
        for (const Copy& copy : m_groups.front()) {
            std::memcpy(m_block.shared(copy.to, 16), copy.bytes, sizeof copy.bytes);
        }
        m_groups.erase(m_groups.begin());
    }
}

void EmulatedMachine::loadMatrices(bool transposed, int from, std::uint32_t (&to)[4]) {
    struct Lane {
        int from;
        std::uint32_t to[4];
    } lane{from, {}};
    m_block.collective(
        m_thread, transposed ? "ldmatrix.trans" : "ldmatrix", &lane, [&](void* const* lanes) {
            for (int matrix = 0; matrix < 4; ++matrix) {
                std::uint16_t value[8][8];
                for (int row = 0; row < 8; ++row) {
                    const auto* source = static_cast<const Lane*>(lanes[matrix * 8 + row]);
                    std::memcpy(value[row], m_block.shared(source->from, 16), 16);
                }
                for (int l = 0; l < 32; ++l) {
                    const int row = l / 4;
                    const int column = l % 4 * 2;
                    const std::uint32_t low = transposed ? value[column][row] : value[row][column];
                    const std::uint32_t high =
                        transposed ? value[column + 1][row] : value[row][column + 1];
                    static_cast<Lane*>(lanes[l])->to[matrix] = low | high << 16U;
                }
            }
        });
    std::copy_n(lane.to, 4, to);
}

namespace {

/// What a lane brings to mma.sync: Rows fragments of a, Columns of b, their sums.
struct MmaLane {
    float (*d)[4];
    const std::uint32_t (*a)[4];
    const std::uint32_t (*b)[4];
};

float half(std::uint32_t word, int index) {
    return cuda::toFloat(cuda::Bf16{static_cast<std::uint16_t>(word >> (16 * index))});
}

/// One product. PTX: a0 (g, 2q), a1 (g + 8, 2q), a2 (g, 2q + 8), a3 (g + 8, 2q + 8); b0 (2q, g), b1
/// (2q + 8, g); c0, c1 (g, 2q), c2, c3 (g + 8, 2q); g = lane / 4, q = lane % 4.
void multiplyFragments(void* const* lanes, int row, int column, int columns) {
    float a[16][16];
    float b[16][8];
    for (int l = 0; l < 32; ++l) {
        const auto* from = static_cast<const MmaLane*>(lanes[l]);
        for (int i = 0; i < 2; ++i) {
            for (int reg = 0; reg < 4; ++reg) {
                a[l / 4 + reg % 2 * 8][l % 4 * 2 + i + reg / 2 * 8] = half(from->a[row][reg], i);
            }
            for (int reg = 0; reg < 2; ++reg) {
                b[l % 4 * 2 + i + reg * 8][l / 4] =
                    half(from->b[column / 2][column % 2 * 2 + reg], i);
            }
        }
    }
    for (int l = 0; l < 32; ++l) {
        float* to = static_cast<const MmaLane*>(lanes[l])->d[row * columns + column];
        for (int index = 0; index < 4; ++index) {
            const int m = l / 4 + index / 2 * 8;
            const int n = l % 4 * 2 + index % 2;
            for (int k = 0; k < 16; ++k) to[index] += a[m][k] * b[k][n];
        }
    }
}

}  // namespace

void EmulatedMachine::multiply(float (*d)[4], const std::uint32_t (*a)[4],
                               const std::uint32_t (*b)[4], int rows, int columns) {
    MmaLane lane{d, a, b};
    m_block.collective(m_thread, "mma", &lane, [&](void* const* lanes) {
        for (int row = 0; row < rows; ++row) {
            for (int column = 0; column < columns; ++column) {
                multiplyFragments(lanes, row, column, columns);
            }
        }
    });
}

std::uint32_t EmulatedMachine::shuffleXor(std::uint32_t value, int mask) {
    struct Lane {
        std::uint32_t value, received;
        int mask;
    } lane{value, 0, mask};
    m_block.collective(m_thread, "shfl.xor", &lane, [](void* const* lanes) {
        for (int l = 0; l < 32; ++l) {
            auto* to = static_cast<Lane*>(lanes[l]);
            to->received = static_cast<const Lane*>(lanes[l ^ to->mask])->value;
        }
    });
    return lane.received;
}

std::uint32_t EmulatedMachine::matchAny(int key) {
    struct Lane {
        int key;
        std::uint32_t same;
    } lane{key, 0};
    m_block.collective(m_thread, "match.any", &lane, [](void* const* lanes) {
        for (int l = 0; l < 32; ++l) {
            auto* to = static_cast<Lane*>(lanes[l]);
            for (int other = 0; other < 32; ++other) {
                const bool same = static_cast<const Lane*>(lanes[other])->key == to->key;
                to->same |= static_cast<std::uint32_t>(same) << static_cast<unsigned>(other);
            }
        }
    });
    return lane.same;
}

void EmulatedMachine::store16(void* to, const std::uint32_t (&words)[4]) const {
    if (reinterpret_cast<std::uintptr_t>(to) % 16 != 0) {
        throw EmulationError("16 bytes stored to an address that is not aligned");
    }
    std::memcpy(to, words, 16);
}

void EmulatedMachine::add2(float* to, float first, float second) const {
    if (reinterpret_cast<std::uintptr_t>(to) % 8 != 0) {
        throw EmulationError("8 bytes at an address that is not aligned");
    }
    to[0] += first;
    to[1] += second;
}

const int* EmulatedMachine::ints(int at) {
    return reinterpret_cast<const int*>(m_block.shared(at, 4));
}

float EmulatedMachine::loadFloat(int at) {
    float value = 0;
    std::memcpy(&value, m_block.shared(at, 4), sizeof value);
    return value;
}

void EmulatedMachine::store(int at, const void* value, int bytes) {
    std::memcpy(m_block.shared(at, bytes), value, static_cast<std::size_t>(bytes));
}

}  // namespace piper::test
