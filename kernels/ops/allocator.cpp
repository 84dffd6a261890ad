// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace piper {

namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
/// Blocks from here up are cut from segments of kSegment or more.
constexpr std::int64_t kLarge = std::int64_t{256} << 10;
constexpr std::int64_t kSegment = 8 * kHugePage;

class HostMemory final : public MemorySource {
public:
    Result<void*> reserve(std::int64_t bytes) override {
        const std::int64_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
        void* data = nullptr;
        const int fault = ::posix_memalign(&data, static_cast<std::size_t>(alignment),
                                           static_cast<std::size_t>(bytes));
        if (fault != 0)
            return fail(ErrorCode::External, "this machine has no {} bytes of memory left", bytes);
        // Advice only: without huge pages everything still works, slower on the first touch.
        if (bytes >= kHugePage)
            (void)::madvise(data, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
        return data;
    }
    void release(void* data, std::int64_t) override { std::free(data); }
};

std::int64_t roundUp(std::int64_t bytes, std::int64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

/// Size of the block that serves a request: of a small one eighths of a power of two, so that
/// requests of nearly equal size share blocks.
std::int64_t blockSize(std::int64_t bytes) {
    if (bytes <= 8 * kAlignment || bytes >= kLarge) return roundUp(bytes, kAlignment);
    const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
    const std::int64_t step = power / 8;
    return roundUp(bytes, step);
}

std::size_t slot(MemoryTerm term) {
    return static_cast<std::size_t>(term);
}

}  // namespace

MemorySource& hostMemory() {
    static HostMemory source;
    return source;
}

void Buffer::swap(Buffer& other) noexcept {
    std::swap(m_owner, other.m_owner);
    std::swap(m_data, other.m_data);
    std::swap(m_bytes, other.m_bytes);
    std::swap(m_block, other.m_block);
    std::swap(m_term, other.m_term);
}

void Buffer::reset() {
    if (m_owner != nullptr) m_owner->release(*this);
    m_owner = nullptr;
    m_data = nullptr;
    m_bytes = 0;
    m_block = 0;
}

TaggedAllocator::TaggedAllocator(MemorySource& source, std::optional<std::int64_t> limit)
    : m_source(source), m_limit(limit) {}

TaggedAllocator::~TaggedAllocator() {
    PIPER_CHECK(m_current == 0);  // buffers do not outlive their allocator
    trimLocked();
}

Result<Buffer> TaggedAllocator::allocate(MemoryTerm term, std::int64_t bytes) {
    PIPER_CHECK(bytes >= 0);
    Buffer buffer;
    buffer.m_term = term;
    if (bytes == 0) return buffer;
    const std::scoped_lock lock(m_mutex);
    if (m_limit && m_current + bytes > *m_limit) {
        Error error = fail(ErrorCode::External,
                           "out of device memory: {} more bytes of term {} over {} held exceed the "
                           "limit of {} bytes",
                           bytes, toText(term), m_current, *m_limit);
        error.hint = "use a smaller micro_batch_size or seq_len, more stages, or more devices";
        return error;
    }
    const std::int64_t block = blockSize(bytes);
    PIPER_ASSIGN(buffer.m_data, takeBlock(block));
    buffer.m_owner = this;
    buffer.m_bytes = bytes;
    buffer.m_block = block;
    count(term, bytes);
    return buffer;
}

Result<void*> TaggedAllocator::takeBlock(std::int64_t block) {
    if (block >= kLarge) return cutPiece(block);
    if (const auto found = m_free.find(block); found != m_free.end() && !found->second.empty()) {
        void* data = found->second.back();
        found->second.pop_back();
        return data;
    }
    Result<void*> fresh = m_source.reserve(block);
    if (!fresh.ok()) {
        trimLocked();
        fresh = m_source.reserve(block);
    }
    if (fresh.ok()) m_pooled += block;
    return fresh;
}

/// The smallest free piece that is large enough; its rest stays free.
Result<void*> TaggedAllocator::cutPiece(std::int64_t bytes) {
    auto found = m_by_size.lower_bound({bytes, nullptr});
    if (found == m_by_size.end()) {
        PIPER_TRY(addSegment(bytes));
        found = m_by_size.lower_bound({bytes, nullptr});
    }
    const auto [size, data] = *found;
    takeFree(data, size);
    if (size > bytes) addFree(data + bytes, size - bytes);
    return data;
}

Status TaggedAllocator::addSegment(std::int64_t bytes) {
    std::int64_t size = std::max(kSegment, roundUp(bytes, kHugePage));
    Result<void*> fresh = m_source.reserve(size);
    if (!fresh.ok()) {
        trimLocked();
        size = bytes;
        fresh = m_source.reserve(size);
    }
    if (!fresh.ok()) return std::move(fresh).error();
    auto* const data = static_cast<std::byte*>(*fresh);
    m_pooled += size;
    m_segments.emplace(data, size);
    addFree(data, size);
    return {};
}

void TaggedAllocator::addFree(std::byte* data, std::int64_t bytes) {
    m_free_pieces.emplace(data, bytes);
    m_by_size.emplace(bytes, data);
}

void TaggedAllocator::takeFree(std::byte* data, std::int64_t bytes) {
    m_free_pieces.erase(data);
    m_by_size.erase({bytes, data});
}

/// Frees a piece together with its free neighbours of the same segment.
void TaggedAllocator::joinFree(std::byte* data, std::int64_t bytes) {
    const auto after = m_free_pieces.find(data + bytes);
    if (after != m_free_pieces.end() && !m_segments.contains(after->first)) {
        const std::int64_t size = after->second;
        takeFree(after->first, size);
        bytes += size;
    }
    const auto next = m_free_pieces.lower_bound(data);
    if (next != m_free_pieces.begin() && !m_segments.contains(data)) {
        const auto [before, size] = *std::prev(next);
        if (before + size == data) {
            takeFree(before, size);
            data = before;
            bytes += size;
        }
    }
    addFree(data, bytes);
}

void TaggedAllocator::release(Buffer& buffer) {
    const std::scoped_lock lock(m_mutex);
    if (buffer.m_block >= kLarge)
        joinFree(static_cast<std::byte*>(buffer.m_data), buffer.m_block);
    else
        m_free[buffer.m_block].push_back(buffer.m_data);
    count(buffer.m_term, -buffer.m_bytes);
}

void TaggedAllocator::count(MemoryTerm term, std::int64_t delta) {
    std::int64_t& current = m_term_current[slot(term)];
    current += delta;
    m_current += delta;
    m_term_peak[slot(term)] = std::max(m_term_peak[slot(term)], current);
    if (m_current > m_peak) {
        m_peak = m_current;
        m_at_peak = m_term_current;
    }
    if (m_observer) m_observer(term, current);
}

void TaggedAllocator::setObserver(Observer observer) {
    const std::scoped_lock lock(m_mutex);
    m_observer = std::move(observer);
}

std::int64_t TaggedAllocator::currentBytes(MemoryTerm term) const {
    const std::scoped_lock lock(m_mutex);
    return m_term_current[slot(term)];
}

std::int64_t TaggedAllocator::peakBytes(MemoryTerm term) const {
    const std::scoped_lock lock(m_mutex);
    return m_term_peak[slot(term)];
}

std::int64_t TaggedAllocator::currentBytes() const {
    const std::scoped_lock lock(m_mutex);
    return m_current;
}

std::int64_t TaggedAllocator::peakBytes() const {
    const std::scoped_lock lock(m_mutex);
    return m_peak;
}

std::array<std::int64_t, kNumMemoryTerms> TaggedAllocator::atPeak() const {
    const std::scoped_lock lock(m_mutex);
    return m_at_peak;
}

std::int64_t TaggedAllocator::pooledBytes() const {
    const std::scoped_lock lock(m_mutex);
    return m_pooled;
}

void TaggedAllocator::resetPeaks() {
    const std::scoped_lock lock(m_mutex);
    m_peak = m_current;
    m_at_peak = m_term_current;
    m_term_peak = m_term_current;
}

void TaggedAllocator::trim() {
    const std::scoped_lock lock(m_mutex);
    trimLocked();
}

void TaggedAllocator::trimLocked() {
    for (auto& [block, list] : m_free) {
        for (void* data : list) m_source.release(data, block);
        m_pooled -= block * static_cast<std::int64_t>(list.size());
        list.clear();
    }
    for (auto segment = m_segments.begin(); segment != m_segments.end();) {
        const auto [data, size] = *segment;
        const auto piece = m_free_pieces.find(data);
        if (piece == m_free_pieces.end() || piece->second != size) {
            ++segment;
            continue;
        }
        takeFree(data, size);
        m_source.release(data, size);
        m_pooled -= size;
        segment = m_segments.erase(segment);
    }
}

}  // namespace piper
