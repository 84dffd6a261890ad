// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace piper {
namespace {

using ::testing::HasSubstr;

Buffer take(TaggedAllocator& from, MemoryTerm term, std::int64_t bytes) {
    Result<Buffer> made = from.allocate(term, bytes);
    EXPECT_TRUE(made.ok());
    return std::move(made).value();
}

TEST(TaggedAllocator, CountsWhatEachTermHoldsAndItsPeak) {
    TaggedAllocator allocator;
    Buffer weights = take(allocator, MemoryTerm::Weights, 1000);
    {
        Buffer rows = take(allocator, MemoryTerm::DispatchedRows, 5000);
        Buffer moved = std::move(rows);
        EXPECT_EQ(allocator.currentBytes(), 6000);
        EXPECT_EQ(allocator.currentBytes(MemoryTerm::DispatchedRows), 5000);
    }
    EXPECT_EQ(allocator.currentBytes(MemoryTerm::DispatchedRows), 0);
    EXPECT_EQ(allocator.peakBytes(MemoryTerm::DispatchedRows), 5000);
    EXPECT_EQ(allocator.peakBytes(), 6000);
    EXPECT_EQ(allocator.atPeak()[static_cast<std::size_t>(MemoryTerm::Weights)], 1000);
    allocator.resetPeaks();
    EXPECT_EQ(allocator.peakBytes(), 1000);
    weights = take(allocator, MemoryTerm::Weights, 10);  // assignment gives the old one back
    EXPECT_EQ(allocator.currentBytes(), 10);
}

TEST(TaggedAllocator, AlignsAndReusesBlocks) {
    TaggedAllocator allocator;
    const void* first = nullptr;
    for (const std::int64_t bytes : {100003, 100001, 99990}) {
        Buffer buffer = take(allocator, MemoryTerm::Workspace, bytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.floats().data()) % 64, 0U);
        if (first == nullptr) first = buffer.floats().data();
        EXPECT_EQ(buffer.floats().data(), first);
    }
    EXPECT_GE(allocator.pooledBytes(), 100003);
    EXPECT_LE(allocator.pooledBytes(), 100003 * 9 / 8 + 64);
    allocator.trim();
    EXPECT_EQ(allocator.pooledBytes(), 0);
}

TEST(TaggedAllocator, BigBlocksAreAlignedToHugePages) {
    TaggedAllocator allocator;
    Buffer buffer = take(allocator, MemoryTerm::Weights, std::int64_t{5} << 20);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.floats().data()) % (2U << 20U), 0U);
    buffer.as<std::byte>().back() = std::byte{1};
}

TEST(TaggedAllocator, LargeBlocksOfManySizesShareMemoryAndJoinAgain) {
    constexpr std::int64_t kMib = 1 << 20;
    TaggedAllocator allocator;
    const void* first = nullptr;
    std::int64_t pooled = 0;
    for (const std::int64_t step : {0, 7, 3, 11, 5}) {
        // In every order of release, with contents of their own.
        std::vector<Buffer> held;
        for (std::int64_t i = 0; i < 5; ++i) {
            held.push_back(
                take(allocator, MemoryTerm::DispatchedRows, kMib + (i * step) % 5 * 70000));
            for (std::byte& b : held.back().as<std::byte>()) b = std::byte(i);
        }
        for (std::int64_t i = 0; i < 5; ++i) {
            const auto bytes = held[static_cast<std::size_t>(i)].as<std::byte>();
            EXPECT_EQ(std::ranges::count(bytes, std::byte(i)), std::ssize(bytes));
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % 64, 0U);
        }
        for (const std::int64_t i : {2, 4, 3, 0, 1})
            held[static_cast<std::size_t>((i + step) % 5)].reset();
        // All of it is one piece again.
        const Buffer whole = take(allocator, MemoryTerm::Workspace, 16 * kMib);
        if (first == nullptr) first = whole.floats().data();
        EXPECT_EQ(whole.floats().data(), first);
        if (pooled == 0) pooled = allocator.pooledBytes();
        EXPECT_EQ(allocator.pooledBytes(), pooled);
    }
    const Buffer kept = take(allocator, MemoryTerm::Workspace, kMib);
    allocator.trim();
    EXPECT_EQ(allocator.pooledBytes(), 16 * kMib);  // still used in part
}

TEST(TaggedAllocator, ToldObserverSeesEveryChange) {
    TaggedAllocator allocator;
    std::vector<std::pair<MemoryTerm, std::int64_t>> seen;
    allocator.setObserver([&](MemoryTerm term, std::int64_t now) { seen.emplace_back(term, now); });
    {
        Buffer a = take(allocator, MemoryTerm::Gradients, 64);
        Buffer b = take(allocator, MemoryTerm::Gradients, 36);
    }
    const std::vector<std::pair<MemoryTerm, std::int64_t>> want{{MemoryTerm::Gradients, 64},
                                                                {MemoryTerm::Gradients, 100},
                                                                {MemoryTerm::Gradients, 64},
                                                                {MemoryTerm::Gradients, 0}};
    EXPECT_EQ(seen, want);
}

TEST(TaggedAllocator, NothingIsAnEmptyBuffer) {
    TaggedAllocator allocator;
    const Buffer none = take(allocator, MemoryTerm::DispatchedRows, 0);
    EXPECT_TRUE(none.empty());
    EXPECT_EQ(none.matrix(0, 7).size(), 0);
}

TEST(TaggedAllocator, LimitFailsWithTermAndNumbersAndLeavesTheRest) {
    TaggedAllocator allocator(hostMemory(), 1000);
    Buffer held = take(allocator, MemoryTerm::Weights, 700);
    const Result<Buffer> refused = allocator.allocate(MemoryTerm::ExpertIntermediate, 301);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::External);
    for (const char* part : {"301", "expert_intermediate", "700", "1000"})
        EXPECT_THAT(refused.error().message, HasSubstr(part));
    EXPECT_EQ(allocator.currentBytes(), 700);
    const Buffer fits = take(allocator, MemoryTerm::ExpertIntermediate, 300);
}

/// A device with room for one block at a time.
class SmallSource final : public MemorySource {
public:
    Result<void*> reserve(std::int64_t bytes) override {
        if (m_used) return fail(ErrorCode::External, "no {} bytes left", bytes);
        m_used = true;
        return std::malloc(static_cast<std::size_t>(bytes));
    }
    void release(void* data, std::int64_t) override {
        std::free(data);
        m_used = false;
    }

private:
    bool m_used = false;
};

TEST(TaggedAllocator, GivesPooledBlocksBackBeforeItFails) {
    SmallSource source;
    TaggedAllocator allocator(source);
    { Buffer a = take(allocator, MemoryTerm::Other, 1 << 12); }
    Buffer b = take(allocator, MemoryTerm::Other, 1 << 16);  // the pooled 4 KiB had to go
    const Result<Buffer> c = allocator.allocate(MemoryTerm::Other, 64);
    ASSERT_FALSE(c.ok());
    EXPECT_THAT(c.error().message, HasSubstr("no 64 bytes left"));
}

}  // namespace
}  // namespace piper
