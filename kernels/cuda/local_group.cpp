// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/local_group.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace piper::cuda {

/// A new file is zeros, which is the state before the first barrier.
struct LocalGroup::Shared {
    std::atomic<std::uint32_t> arrived;
    std::atomic<std::uint32_t> generation;
    std::atomic<std::uint32_t> failed;
    unsigned char blocks[kMaxRanks][kBlockBytes];
};

LocalGroup::LocalGroup(const std::string& file, int rank, int ranks)
    : m_rank(rank), m_ranks(ranks) {
    static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
    if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks) {
        throw std::runtime_error("rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                                 ": ranks must be 1 to 64, numbered from 0");
    }
    const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void* mapped = MAP_FAILED;
    if (descriptor >= 0 && ftruncate(descriptor, sizeof(Shared)) == 0) {
        mapped = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    }
    const int error = errno;
    if (descriptor >= 0) close(descriptor);
    if (mapped == MAP_FAILED) throw std::runtime_error(file + ": " + std::strerror(error));
    m_shared = static_cast<Shared*>(mapped);
}

LocalGroup::~LocalGroup() {
    munmap(m_shared, sizeof(Shared));
}

void LocalGroup::barrier(double seconds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    const std::uint32_t mine = m_shared->generation.load();
    if (m_shared->arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(m_ranks)) {
        m_shared->arrived.store(0);
        m_shared->generation.fetch_add(1);
        return;
    }
    for (int turn = 0; m_shared->generation.load() == mine; ++turn) {
        if (m_shared->failed.load() != 0) throw std::runtime_error("another rank has failed");
        if (std::chrono::steady_clock::now() > deadline) {
            fail();
            throw std::runtime_error("a rank did not come to the barrier");
        }
        if (turn > 1000) {
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        } else {
            std::this_thread::yield();
        }
    }
}

std::vector<std::vector<unsigned char>> LocalGroup::exchange(
    const std::vector<unsigned char>& mine) {
    if (mine.size() > kBlockBytes) throw std::runtime_error("a block of more than 4096 bytes");
    std::memcpy(m_shared->blocks[m_rank], mine.data(), mine.size());
    barrier();
    std::vector<std::vector<unsigned char>> all;
    for (int r = 0; r < m_ranks; ++r) {
        all.emplace_back(m_shared->blocks[r], m_shared->blocks[r] + mine.size());
    }
    barrier();  // the blocks may be written again
    return all;
}

void LocalGroup::fail() {
    m_shared->failed.store(1);
}

}  // namespace piper::cuda
