// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "core/run/clock_alignment.h"

namespace piper {
namespace {

/// Collectives of some ranks as a common clock sees them, then by clocks of their own.
class Traces {
public:
    explicit Traces(std::vector<std::int64_t> offsets, std::vector<double> drifts = {})
        : m_offsets(std::move(offsets)), m_drifts(std::move(drifts)), records(m_offsets.size()) {
        m_drifts.resize(m_offsets.size());
    }
    /// All of `members` arrive within 200 us, the transfer takes 30 us.
    void collective(const std::string& key, std::int64_t at,
                    std::initializer_list<std::size_t> members) {
        for (const std::size_t r : members) {
            const auto late = static_cast<std::int64_t>(m_random() % 200'000);
            const auto end = at + 230'000 + static_cast<std::int64_t>(m_random() % 4'000);
            records[r].push_back({key, own(r, at + late), own(r, end)});
        }
    }

private:
    [[nodiscard]] std::int64_t own(std::size_t r, std::int64_t common) const {
        return common - m_offsets[r] -
               static_cast<std::int64_t>(m_drifts[r] * static_cast<double>(common));
    }
    std::vector<std::int64_t> m_offsets;
    std::vector<double> m_drifts;
    std::mt19937 m_random{7};

public:
    std::vector<std::vector<CollectiveRecord>> records;
};

TEST(ClockAlignment, OffsetsAndDriftsComeFromSharedCollectives) {
    Traces traces({0, 5'000'000'000, -70'000'000}, {0.0, 0.0, 30e-6});
    for (int i = 0; i < 200; ++i)
        traces.collective("ncclAllReduce", i * std::int64_t{50'000'000}, {0, 1, 2});
    const auto aligned = alignClocks(traces.records, 0);
    ASSERT_EQ(aligned.size(), 3U);
    for (const AlignedRank& rank : aligned) EXPECT_TRUE(rank.aligned);
    EXPECT_EQ(aligned[1].matched, 200);
    EXPECT_GT(aligned[1].consistent, 190);
    EXPECT_NEAR(aligned[1].fit.offset_ns, 5e9, 4'000.0);
    EXPECT_EQ(aligned[1].fit.drift, 0.0);
    EXPECT_NEAR(aligned[2].fit.drift, 30e-6, 1e-6);
    EXPECT_NEAR(aligned[2].fit.offsetAt(0), -70e6, 8'000.0);
    EXPECT_LT(aligned[2].fit.residual_max_ns, 10'000.0);
}

TEST(ClockAlignment, ARankThatSharesNothingWithTheFirstIsReachedOverAnother) {
    Traces traces({0, 1'000'000, 2'000'000});
    for (int i = 0; i < 20; ++i) {
        traces.collective("a", i * std::int64_t{10'000'000}, {0, 1});
        traces.collective("b", i * std::int64_t{10'000'000} + 5'000'000, {1, 2});
    }
    const auto aligned = alignClocks(traces.records, 100);
    ASSERT_TRUE(aligned[2].aligned);
    EXPECT_EQ(aligned[2].reference, 1U);
    EXPECT_NEAR(aligned[2].fit.offset_ns, 2'000'100.0, 8'000.0);
}

TEST(ClockAlignment, KernelsOfDifferentGroupsDoNotAlign) {
    Traces traces({0, 0, 0});
    std::mt19937 random(3);
    for (int i = 0; i < 40; ++i) {
        traces.collective("ncclAllReduce", i * std::int64_t{10'000'000}, {0});
        // The same kernel, of another group, at moments of its own.
        const auto at = static_cast<std::int64_t>(random() % 400'000'000);
        traces.collective("ncclAllReduce", at, {1});
    }
    traces.collective("two only", 0, {0, 2});
    const auto aligned = alignClocks(traces.records, 0);
    EXPECT_FALSE(aligned[1].aligned);
    EXPECT_EQ(aligned[1].matched, 40);
    EXPECT_FALSE(aligned[2].aligned);
    EXPECT_TRUE(alignClocks({}, 0).empty());
}

}  // namespace
}  // namespace piper
