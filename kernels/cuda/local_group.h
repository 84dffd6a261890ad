// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace piper::cuda {

/// Ranks of one host that meet in a shared file: a barrier, and a small block of bytes from each
/// for the handles of its device memory. Plain host code.
class LocalGroup {
public:
    static constexpr int kMaxRanks = 64;
    static constexpr std::size_t kBlockBytes = 4096;

    /// The file is made by whoever comes first; one file serves one group, once. Throws
    /// std::runtime_error when it cannot be mapped or a number is out of range.
    LocalGroup(const std::string& file, int rank, int ranks);
    ~LocalGroup();
    LocalGroup(const LocalGroup&) = delete;
    LocalGroup& operator=(const LocalGroup&) = delete;

    [[nodiscard]] int rank() const { return m_rank; }
    [[nodiscard]] int ranks() const { return m_ranks; }

    /// Waits for all ranks. Throws when one has failed or does not come in `seconds`.
    void barrier(double seconds = 20);
    /// Every rank's bytes (at most kBlockBytes, the same number from each), by rank.
    [[nodiscard]] std::vector<std::vector<unsigned char>> exchange(
        const std::vector<unsigned char>& mine);
    /// Makes the others' barriers throw.
    void fail();

private:
    struct Shared;

    int m_rank, m_ranks;
    Shared* m_shared = nullptr;
};

}  // namespace piper::cuda
