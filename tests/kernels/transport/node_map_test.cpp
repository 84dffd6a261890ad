// SPDX-License-Identifier: Apache-2.0
#include "kernels/transport/node_map.h"

#include <gtest/gtest.h>

#include <map>

namespace piper {
namespace {

struct FakeEnvironment {
    std::map<std::string, std::string> values;
    const char* operator()(const char* name) const {
        const auto found = values.find(name);
        return found == values.end() ? nullptr : found->second.c_str();
    }
};

TEST(NodeMap, OneEntryPerRankPretendsNodes) {
    const FakeEnvironment env{{{"PIPER_NODE", "0,0,7,7"}, {"SLURM_NODEID", "4"}}};
    std::vector<NodeHint> hints;
    for (std::int64_t rank = 0; rank < 4; ++rank)
        hints.push_back(readNodeHint(rank, "same", env).value());
    EXPECT_EQ(nodeIndices(hints), (std::vector<std::int64_t>{0, 0, 1, 1}));
}

TEST(NodeMap, BadListNamesTheRank) {
    for (const char* text : {"0,0", "0,1,x,1", "", "0,1,,1", "-1"}) {
        const Result<NodeHint> hint =
            readNodeHint(2, "host", FakeEnvironment{{{"PIPER_NODE", text}}});
        ASSERT_FALSE(hint.ok()) << text;
        EXPECT_EQ(hint.error().code, ErrorCode::InvalidInput);
        EXPECT_NE(hint.error().text().find("rank 2"), std::string::npos);
    }
}

TEST(NodeMap, SlurmNodeIdWinsOverHostName) {
    const FakeEnvironment env{{{"SLURM_NODEID", "3"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}};
    EXPECT_EQ(readNodeHint(0, "host", env).value().label, "slurm:3");
}

TEST(NodeMap, HostNamesInterleaved) {
    const std::vector<NodeHint> hints{
        {"host:a", 0, 2}, {"host:b", 0, 2}, {"host:a", 1, 2}, {"host:b", 1, 2}};
    EXPECT_EQ(nodeIndices(hints), (std::vector<std::int64_t>{0, 1, 0, 1}));
}

TEST(NodeMap, LocalSizesDecideWhereHostNamesAreShared) {
    // Two nodes with the same host name (containers): two ranks each, says the launcher.
    const std::vector<NodeHint> hints{
        {"host:a", 0, 2}, {"host:a", 1, 2}, {"host:a", 0, 2}, {"host:a", 1, 2}};
    EXPECT_EQ(nodeIndices(hints), (std::vector<std::int64_t>{0, 0, 1, 1}));
}

TEST(NodeMap, LaunchersAreRecognised) {
    EXPECT_FALSE(launchedByMpi(FakeEnvironment{}));
    EXPECT_TRUE(launchedByMpi(FakeEnvironment{{{"OMPI_COMM_WORLD_SIZE", "1"}}}));
    EXPECT_TRUE(launchedByMpi(FakeEnvironment{{{"PMIX_RANK", "0"}}}));
}

}  // namespace
}  // namespace piper
