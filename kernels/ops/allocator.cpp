// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

namespace piper {

namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

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

/// Size of the block that serves a request: eighths of a power of two, so that requests of nearly
/// equal size (rows routed differ from micro-batch to micro-batch) share blocks.
std::int64_t blockSize(std::int64_t bytes) {
    if (bytes <= 8 * kAlignment) return (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
    const std::int64_t step = power / 8;
    return (bytes + step - 1) / step * step;
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

void TaggedAllocator::release(Buffer& buffer) {
    const std::scoped_lock lock(m_mutex);
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
}

}  // namespace piper
