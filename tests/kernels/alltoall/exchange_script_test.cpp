// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/exchange_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace piper {
namespace {

/// A group in which every receive takes so many rounds of waiting, one after the other.
class SlowGroup final : public Communicator {
public:
    explicit SlowGroup(std::int64_t rounds) : m_rounds(rounds) {}

    [[nodiscard]] std::int64_t rank() const override { return 0; }
    [[nodiscard]] std::int64_t size() const override { return 4; }
    [[nodiscard]] const std::vector<std::int64_t>& nodes() const override { return m_nodes; }
    Result<std::unique_ptr<PendingTransfer>> send(std::span<const std::byte>, std::int64_t,
                                                  int) override {
        return std::unique_ptr<PendingTransfer>(std::make_unique<Transfer>(*this, 0));
    }
    Result<std::unique_ptr<PendingTransfer>> receive(std::span<std::byte>, std::int64_t,
                                                     int) override {
        m_last += m_rounds;
        return std::unique_ptr<PendingTransfer>(std::make_unique<Transfer>(*this, m_last));
    }
    Status allToAllV(std::span<const std::byte>, std::span<const std::int64_t>,
                     std::span<std::byte>, std::span<const std::int64_t>) override {
        return {};
    }
    Status allReduceSum(std::span<float>) override { return {}; }
    Status allReduceSum(std::span<double>) override { return {}; }
    Status allReduceMax(std::span<double>) override { return {}; }
    Status allGather(std::span<const std::byte>, std::span<std::byte>) override { return {}; }
    Status reduceScatterSum(std::span<const float>, std::span<float>) override { return {}; }
    Status broadcast(std::span<std::byte>, std::int64_t) override { return {}; }
    Status barrier() override { return {}; }
    [[nodiscard]] const TransportCounters& counters() const override { return m_counters; }
    Status pause(std::int64_t round, std::span<PendingTransfer* const>) override {
        pauses.push_back(round);
        return {};
    }

    std::vector<std::int64_t> pauses;

private:
    class Transfer final : public PendingTransfer {
    public:
        Transfer(SlowGroup& group, std::int64_t after) : m_group(group), m_after(after) {}
        [[nodiscard]] bool test() override { return std::ssize(m_group.pauses) >= m_after; }
        Status wait() override { return {}; }

    private:
        SlowGroup& m_group;
        std::int64_t m_after;
    };

    std::int64_t m_rounds, m_last = 0;
    std::vector<std::int64_t> m_nodes{0, 0, 0, 0};
    TransportCounters m_counters;
};

TEST(ExchangeScript, WaitsShortlyAgainOnceSomethingCame) {
    SlowGroup group(3);
    std::array<std::byte, 3> came{};
    ExchangeScript script;
    for (std::size_t i = 0; i < came.size(); ++i)
        script.receives.push_back(
            {std::span(came).subspan(i, 1), static_cast<std::int64_t>(i) + 1});
    // Whether the next one is posted when one is there or they all wait at once.
    auto exchange = runScript(group, std::move(script), 0);
    ASSERT_TRUE(exchange.ok()) << exchange.error().text();
    ASSERT_TRUE((*exchange)->wait().ok());
    EXPECT_THAT(group.pauses, ::testing::ElementsAre(0, 1, 2, 0, 1, 2, 0, 1, 2));

    SlowGroup one_by_one(2);
    script = {};
    for (std::size_t i = 0; i < came.size(); ++i)
        script.receives.push_back(
            {std::span(came).subspan(i, 1), static_cast<std::int64_t>(i) + 1});
    exchange = runScript(one_by_one, std::move(script), 0, 1);
    ASSERT_TRUE(exchange.ok()) << exchange.error().text();
    ASSERT_TRUE((*exchange)->wait().ok());
    EXPECT_THAT(one_by_one.pauses, ::testing::ElementsAre(0, 1, 0, 1, 0, 1));
}

}  // namespace
}  // namespace piper
