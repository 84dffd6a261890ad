// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/routing_trace.h"

#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "tests/support/paths.h"

namespace piper {
namespace {

TEST(RoutingTrace, ReadsBackWhatSeveralRanksWrote) {
    const test::TemporaryDirectory directory;
    const std::string path = (directory.path() / "routing").string();
    RoutingTrace first(2, 3), second(2, 3), both(2, 3);
    const std::array<std::int32_t, 6> a{0, 1, 2, 3, 4, 5}, b{5, 4, 3, 2, 1, 0};
    first.record(0, LayerId(1), 7, a);
    second.record(0, LayerId(1), 8, b);
    both.record(0, LayerId(1), 7, a);
    both.record(0, LayerId(1), 8, b);
    ASSERT_TRUE(first.write(path + ".0").ok());
    ASSERT_TRUE(second.write(path + ".1").ok());
    const Result<RoutingTrace> read = RoutingTrace::read(path, 2, 3);
    ASSERT_TRUE(read.ok()) << read.error().text();
    EXPECT_EQ(*read, both);
    std::array<std::int32_t, 6> out{};
    ASSERT_TRUE(read->choose(0, LayerId(1), 8, out, 0).ok());
    EXPECT_EQ(out, b);
}

TEST(RoutingTrace, BadInputIsNamed) {
    const test::TemporaryDirectory directory;
    const std::string path = (directory.path() / "routing").string();
    EXPECT_EQ(RoutingTrace::read(path, 2, 3).error().code, ErrorCode::NotFound);
    RoutingTrace trace(2, 3);
    trace.record(4, LayerId(0), 1, std::array<std::int32_t, 6>{});
    ASSERT_TRUE(trace.write(path).ok());
    EXPECT_NE(RoutingTrace::read(path, 2, 4).error().message.find("seq_len 3"), std::string::npos);
    std::array<std::int32_t, 6> out{};
    const Status missing = RoutingTrace::read(path, 2, 3)->choose(5, LayerId(0), 1, out, 0);
    ASSERT_FALSE(missing.ok());
    EXPECT_NE(missing.error().message.find("step 5, layer 0, sample 1"), std::string::npos);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    EXPECT_NE(RoutingTrace::read(path, 2, 3).error().message.find("ends inside record 0"),
              std::string::npos);
    std::ofstream(path) << "something else\n";
    EXPECT_EQ(RoutingTrace::read(path, 2, 3).error().code, ErrorCode::InvalidInput);
}

}  // namespace
}  // namespace piper
