// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/cuda/emulated_hopper.h"

#include <cstring>
#include <string>

namespace piper::test {

void HopperState::Barrier::settle() {
    if (pending < 0) throw EmulationError("more arrivals at a barrier than it counts");
    if (pending == 0 && bytes == 0) {
        pending = count;
        ++phase;
    }
}

HopperState::Barrier& HopperState::barrier(int at) {
    const auto found = barriers.find(at);
    if (found == barriers.end()) {
        throw EmulationError("no barrier at " + std::to_string(at) + " of shared memory");
    }
    return found->second;
}

void EmulatedHopperMachine::expectBytes(int at, int bytes) {
    m_state.barrier(at).bytes += bytes;
    arriveBarrier(at);
}

void EmulatedHopperMachine::arriveBarrier(int at) {
    HopperState::Barrier& barrier = m_state.barrier(at);
    --barrier.pending;
    barrier.settle();
}

void EmulatedHopperMachine::waitBarrier(int at, int parity) {
    const HopperState::Barrier& barrier = m_state.barrier(at);
    m_block.waitUntil([&] { return barrier.phase % 2 != parity; });
}

void EmulatedHopperMachine::copyBox(int to, const EmulatedMap& map, int x, int y, int z, int at) {
    if (to % 1024 != 0) throw EmulationError("a box to an address that is not a multiple of 1024");
    m_block.later([this, to, &map, x, y, z, at] {
        for (int line = 0; line < map.box_rows; ++line) {
            for (int piece = 0; piece < cuda::kLinePieces; ++piece) {
                cuda::Bf16 values[8] = {};
                for (int i = 0; i < 8; ++i) {
                    const std::int64_t column = x + piece * 8 + i;
                    const std::int64_t row = y + line;
                    if (column >= map.columns || row >= map.rows || z >= map.groups) continue;
                    values[i] = map.data[(z * map.rows + row) * map.columns + column];
                }
                // The 128-byte swizzle works on bits of the address.
                const int address = to + line * 128 + piece * 16;
                std::memcpy(m_block.shared(address ^ (address >> 7 & 7) << 4, 16), values, 16);
            }
        }
        HopperState::Barrier& barrier = m_state.barrier(at);
        barrier.bytes -= map.box_rows * 128;
        barrier.settle();
    });
}

void EmulatedHopperMachine::product(float* d, int columns, bool transposed_a, bool transposed_b,
                                    int a, int b) {
    HopperState::Warpgroup& group = m_state.warpgroups[thread() / 128];
    m_block.collective(
        thread(), "wgmma", d,
        [&](void* const* lanes) {
            HopperState::Product product{cuda::wgmmaDescriptor(static_cast<std::uint32_t>(a)),
                                         cuda::wgmmaDescriptor(static_cast<std::uint32_t>(b)),
                                         columns,
                                         transposed_a,
                                         transposed_b,
                                         {}};
            for (int lane = 0; lane < 128; ++lane) {
                product.d.push_back(static_cast<float*>(lanes[lane]));
            }
            group.open.push_back(std::move(product));
        },
        128);
}

void EmulatedHopperMachine::commitProducts() {
    HopperState::Warpgroup& group = m_state.warpgroups[thread() / 128];
    m_block.collective(
        thread(), "wgmma.commit_group", nullptr,
        [&](void* const*) {
            group.groups.push_back(std::move(group.open));
            group.open.clear();
        },
        128);
    if (thread() % 128 == 0 && m_block.flip()) {
        // The tensor cores may be done at once.
        for (const auto& products : group.groups) {
            for (const auto& product : products) execute(product);
        }
        for (auto& products : group.groups) products.clear();
    }
}

void EmulatedHopperMachine::waitProducts(int pending) {
    HopperState::Warpgroup& group = m_state.warpgroups[thread() / 128];
    m_block.collective(
        thread(), "wgmma.wait_group", nullptr,
        [&](void* const*) {
            while (static_cast<int>(group.groups.size()) > pending) {
                for (const auto& product : group.groups.front()) execute(product);
                group.groups.erase(group.groups.begin());
            }
        },
        128);
}

/// PTX, "Strides" and "Canonical layouts" of wgmma: bits 0-13 the start, 16-29 the leading, 32-45
/// the stride offset, each in 16 bytes; bits 62-63 the swizzle, 1 for 128 bytes.
///   k contiguous:  8 mn of 128 bytes each, the next 8 at the stride offset.
///   mn contiguous: 64 mn in 128 bytes, 8 k at 128 bytes each, the next 8 k at the stride offset,
///                  the next 64 mn at the leading offset.
float EmulatedHopperMachine::element(std::uint64_t descriptor, bool transposed, int mn, int k) {
    const auto field = [&](int bit) {
        return static_cast<int>(descriptor >> static_cast<unsigned>(bit) & 0x3FFFU) * 16;
    };
    if (descriptor >> 62U != 1) throw EmulationError("a descriptor without the 128-byte swizzle");
    const int start = field(0);
    const int leading = field(16);
    const int stride = field(32);
    const int address = transposed
                            ? start + mn / 64 * leading + mn % 64 * 2 + k % 8 * 128 + k / 8 * stride
                            : start + mn / 8 * stride + mn % 8 * 128 + k * 2;
    cuda::Bf16 value{};
    std::memcpy(&value, m_block.shared(address ^ (address >> 7 & 7) << 4, 2), 2);
    return cuda::toFloat(value);
}

void EmulatedHopperMachine::execute(const HopperState::Product& product) {
    float a[64][16];
    std::vector<float> b(static_cast<std::size_t>(product.columns) * 16);
    for (int k = 0; k < 16; ++k) {
        for (int m = 0; m < 64; ++m) a[m][k] = element(product.a, product.transposed_a, m, k);
        for (int n = 0; n < product.columns; ++n) {
            b[static_cast<std::size_t>(n * 16 + k)] =
                element(product.b, product.transposed_b, n, k);
        }
    }
    // Register 4 j + i of a lane: row 16 * warp + lane / 4 + 8 * (i / 2), column 8 j + 2 * (lane %
    // 4) + i % 2.
    for (int thread = 0; thread < 128; ++thread) {
        const int lane = thread % 32;
        for (int reg = 0; reg < product.columns / 2; ++reg) {
            const int row = thread / 32 * 16 + lane / 4 + reg % 4 / 2 * 8;
            const int column = reg / 4 * 8 + lane % 4 * 2 + reg % 2;
            float sum = 0;
            for (int k = 0; k < 16; ++k) {
                sum += a[row][k] * b[static_cast<std::size_t>(column * 16 + k)];
            }
            product.d[static_cast<std::size_t>(thread)][reg] += sum;
        }
    }
}

void EmulatedHopperMachine::storeMatricesTransposed(int to, const std::uint32_t (&words)[4]) {
    struct Lane {
        int to;
        const std::uint32_t* words;
    } lane{to, words};
    m_block.collective(thread(), "stmatrix.trans", &lane, [&](void* const* lanes) {
        for (int matrix = 0; matrix < 4; ++matrix) {
            std::uint16_t value[8][8];
            for (int l = 0; l < 32; ++l) {
                const std::uint32_t word = static_cast<const Lane*>(lanes[l])->words[matrix];
                value[l % 4 * 2][l / 4] = static_cast<std::uint16_t>(word);
                value[l % 4 * 2 + 1][l / 4] = static_cast<std::uint16_t>(word >> 16U);
            }
            for (int row = 0; row < 8; ++row) {
                const auto* target = static_cast<const Lane*>(lanes[matrix * 8 + row]);
                std::memcpy(m_block.shared(target->to, 16), value[row], 16);
            }
        }
    });
}

void EmulatedHopperMachine::loadShared16(int at, std::uint32_t (&words)[4]) {
    std::memcpy(words, m_block.shared(at, 16), 16);
}

}  // namespace piper::test
