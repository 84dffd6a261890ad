// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/run/vocabulary.h"
#include "kernels/ops/tensor.h"

namespace piper {

class TaggedAllocator;

/// Where bytes come from: host memory here, device memory in a plugin.
class MemorySource {
public:
    virtual ~MemorySource() = default;
    /// Aligned to 64 bytes or better. Errors: External when the source has none left.
    [[nodiscard]] virtual Result<void*> reserve(std::int64_t bytes) = 0;
    virtual void release(void* data, std::int64_t bytes) = 0;
};

/// Host memory; blocks of 2 MiB or more ask for huge pages (a first touch of a 4 KiB page costs
/// more than a copy of it on virtual machines).
[[nodiscard]] MemorySource& hostMemory();

/// Bytes held for a term; gives them back to its allocator's pool when destroyed.
/// The allocator outlives its buffers. Content is whatever was there before.
class Buffer {
public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        Buffer taken(std::move(other));
        swap(taken);
        return *this;
    }
    ~Buffer() { reset(); }

    void reset();
    [[nodiscard]] bool empty() const { return m_data == nullptr; }
    [[nodiscard]] std::int64_t bytes() const { return m_bytes; }
    [[nodiscard]] MemoryTerm term() const { return m_term; }
    template <class T>
    [[nodiscard]] std::span<T> as() const {
        return {static_cast<T*>(m_data), static_cast<std::size_t>(m_bytes) / sizeof(T)};
    }
    [[nodiscard]] Vector floats() const { return as<float>(); }
    /// The first rows * cols floats as a matrix.
    [[nodiscard]] Matrix matrix(std::int64_t rows, std::int64_t cols) const {
        PIPER_CHECK(rows * cols * static_cast<std::int64_t>(sizeof(float)) <= m_bytes);
        return {static_cast<float*>(m_data), rows, cols};
    }

private:
    friend class TaggedAllocator;
    void swap(Buffer& other) noexcept;

    TaggedAllocator* m_owner = nullptr;
    void* m_data = nullptr;
    std::int64_t m_bytes = 0;  ///< asked for
    std::int64_t m_block = 0;  ///< size of the pool's block under it
    MemoryTerm m_term = MemoryTerm::Other;
};

/// Hands out buffers by memory term, reuses freed blocks, and counts what each term holds.
/// Counted are the bytes asked for, so that they compare with the model's; what is taken from the
/// source is more (pooledBytes()). Small blocks come in sizes an eighth apart. Large ones are cut
/// from segments, and what is freed joins its free neighbours: rows routed differ from micro-batch
/// to micro-batch, and memory that was never touched costs as much as the work on it. Calls are
/// serialised by a lock.
class TaggedAllocator {
public:
    /// Called after each change with the term and the bytes it now holds; from inside allocate()
    /// and Buffer's destructor, so it must not allocate here itself.
    using Observer = std::function<void(MemoryTerm, std::int64_t current_bytes)>;

    /// limit: bytes all terms together may hold, as a device of that memory would.
    explicit TaggedAllocator(MemorySource& source = hostMemory(),
                             std::optional<std::int64_t> limit = std::nullopt);
    ~TaggedAllocator();
    TaggedAllocator(const TaggedAllocator&) = delete;
    TaggedAllocator& operator=(const TaggedAllocator&) = delete;

    /// bytes >= 0; zero gives an empty buffer.
    /// Errors: External when the limit or the source's memory is exceeded; names term and numbers.
    [[nodiscard]] Result<Buffer> allocate(MemoryTerm term, std::int64_t bytes);
    [[nodiscard]] Result<Buffer> allocateFloats(MemoryTerm term, std::int64_t count) {
        return allocate(term, count * static_cast<std::int64_t>(sizeof(float)));
    }

    void setObserver(Observer observer);
    [[nodiscard]] std::int64_t currentBytes(MemoryTerm term) const;
    [[nodiscard]] std::int64_t peakBytes(MemoryTerm term) const;
    [[nodiscard]] std::int64_t currentBytes() const;
    [[nodiscard]] std::int64_t peakBytes() const;
    /// What each term held when all together held most.
    [[nodiscard]] std::array<std::int64_t, kNumMemoryTerms> atPeak() const;
    /// Bytes taken from the source, in use or waiting for reuse.
    [[nodiscard]] std::int64_t pooledBytes() const;
    /// Peaks start again from what is held now.
    void resetPeaks();
    /// Gives unused blocks back to the source.
    void trim();

private:
    friend class Buffer;
    Result<void*> takeBlock(std::int64_t block);
    Result<void*> cutPiece(std::int64_t bytes);
    Status addSegment(std::int64_t bytes);
    void addFree(std::byte* data, std::int64_t bytes);
    void takeFree(std::byte* data, std::int64_t bytes);
    void joinFree(std::byte* data, std::int64_t bytes);
    void release(Buffer& buffer);
    void count(MemoryTerm term, std::int64_t delta);
    void trimLocked();

    mutable std::mutex m_mutex;
    MemorySource& m_source;
    std::optional<std::int64_t> m_limit;
    Observer m_observer;
    std::map<std::int64_t, std::vector<void*>> m_free;        ///< small blocks: size -> blocks
    std::map<std::byte*, std::int64_t> m_segments;            ///< from the source, to cut
    std::map<std::byte*, std::int64_t> m_free_pieces;         ///< of segments
    std::set<std::pair<std::int64_t, std::byte*>> m_by_size;  ///< the same
    std::int64_t m_pooled = 0;
    std::int64_t m_current = 0;
    std::int64_t m_peak = 0;
    std::array<std::int64_t, kNumMemoryTerms> m_term_current{};
    std::array<std::int64_t, kNumMemoryTerms> m_term_peak{};
    std::array<std::int64_t, kNumMemoryTerms> m_at_peak{};
};

}  // namespace piper
