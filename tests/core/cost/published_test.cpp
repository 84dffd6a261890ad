// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "core/cost/call_table.h"
#include "core/cost/cost.h"
#include "tests/core/resources/plans.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

std::string dataFile(const std::string& name) {
    return test::readText(test::sourceDir() / "tests/data/collectives" / name);
}

CallTable table(const std::string& name) {
    Result<CallTable> read = readCallTable(dataFile(name), name);
    EXPECT_TRUE(read.ok());
    return read.ok() ? std::move(*read) : CallTable{};
}

class PublishedTable : public ::testing::TestWithParam<const char*> {};

TEST_P(PublishedTable, OneSizeInFourLeftOutIsWithinTenPercent) {
    const CallTable calls = table(GetParam());
    ASSERT_GT(calls.calls.size(), 1000U);
    for (const LeaveOutBy by : {LeaveOutBy::Row, LeaveOutBy::Size}) {
        const CallReport report = leaveOut(calls.calls, 4, by);
        EXPECT_EQ(report.all.n, static_cast<std::int64_t>(calls.calls.size()));
        EXPECT_LT(report.all.median, 0.10) << toText(by);
        EXPECT_LT(report.all.p90, 0.25) << toText(by);
        EXPECT_LT(std::abs(report.all.bias), 0.02) << toText(by);
        // The range that a prediction states is no narrower than what is seen here.
        EXPECT_GE(report.all.low, kPublishedLow) << toText(by);
        EXPECT_LE(report.all.high, kPublishedHigh) << toText(by);
    }
    // A device and group with all its sizes left out, predicted from the others.
    EXPECT_LT(leaveOut(calls.calls, 4, LeaveOutBy::Curve).all.median, 0.10);
}

TEST_P(PublishedTable, TheCurvesCompiledInReproduceIt) {
    const CallTable calls = table(GetParam());
    EXPECT_LT(leaveOut(calls.calls, 0).all.median, 0.05);
}

INSTANTIATE_TEST_SUITE_P(All, PublishedTable,
                         ::testing::Values("nccl_collectives.csv", "alltoall.csv"),
                         [](const auto& test) {
                             return std::string(test.param) == "alltoall.csv" ? "AllToAll" : "Nccl";
                         });

TEST(CallTable, BadRowsAreNamed) {
    const auto read = readCallTable(
        "library,gpu,nodes,ranks,message_bytes,time_us,algbw,notes,op\n"
        "NCCL 2.27,H100 SXM,1,8,1048576,16.2,,,alltoall\n"
        "NCCL 2.27,H100 SXM,1,8,,16.2,,,alltoall\n"
        "NCCL 2.27,H100 SXM,1,8,1048576,,,,alltoall\n"
        "NCCL 2.27,Abacus,1,8,1048576,16.2,,,alltoall\n"
        "NCCL 2.27,H100 SXM,1,1,1048576,16.2,,,alltoall\n"
        "NCCL 2.27,H100 SXM,9,8,1048576,16.2,,,alltoall\n"
        "NCCL 2.27,H100 SXM,1,8,1048576,16.2,,,all_to_some\n"
        "DeepEP normal dispatch,H100 SXM,1,8,,400,,no sizes,\n"
        "NCCL 2.27,\"H100 SXM,1,8,1048576,16.2,,,alltoall\n",
        "rows.csv");
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->calls.size(), 1U);
    ASSERT_EQ(read->skipped.size(), 8U);
    const std::vector<const char*> reasons = {"no message size",
                                              "neither a time nor algbw",
                                              "no link constants for device 'Abacus'",
                                              "ranks '1' is not 2 or more",
                                              "nodes '9' is not between 1 and the ranks",
                                              "unknown op 'all_to_some'",
                                              "no tokens in notes",
                                              "the quote of line 10 does not end"};
    for (std::size_t i = 0; i < reasons.size(); ++i) {
        EXPECT_EQ(read->skipped[i].reason, reasons[i]);
        EXPECT_EQ(read->skipped[i].line, static_cast<std::int64_t>(i) + 3);
    }
    const auto headless = readCallTable("gpu,nodes,ranks\n", "rows.csv");
    ASSERT_FALSE(headless.ok());
    EXPECT_NE(headless.error().text().find("library"), std::string::npos);
    EXPECT_FALSE(readCallTable("", "rows.csv").ok());
}

TEST(CallTable, SizesOfExpertParallelRowsStandInTheirNotes) {
    const auto read = readCallTable(
        "library,gpu,nodes,ranks,message_bytes,time_us,algbw,notes\n"
        "DeepEP ll combine (x collector),H100 SXM,2,16,,186,,"
        "\"tokens=128 per rank, hidden=7168, top-8, experts=256\"\n"
        "HybridEP dispatch FP8,B200,1,8,,,400,\"16 SMs; kernel only; 4096 tokens, hidden 7168, "
        "top-8\"\n"
        "UCCL RDMA all-to-all rail-optimized,unspecified 400G NIC per GPU,2,16,8192,,2.4,\n",
        "rows.csv");
    ASSERT_TRUE(read.ok());
    ASSERT_EQ(read->calls.size(), 3U);
    EXPECT_EQ(read->calls[0].kind, CallKind::LowLatencyCombine);
    EXPECT_EQ(read->calls[0].size.row_bytes, 14336);
    EXPECT_EQ(read->calls[0].size.bytes, 128.0 * 8 * 14336);
    const PublishedCall& hybrid = read->calls[1];
    EXPECT_EQ(hybrid.kind, CallKind::Dispatch);
    EXPECT_EQ(hybrid.size.row_bytes, 7168);
    EXPECT_EQ(hybrid.sms, 16);
    EXPECT_TRUE(hybrid.kernel_only);
    // 8 ranks, 8 picks: 5.25 copies of a token.
    EXPECT_NEAR(hybrid.time.value, 4096 * 7168 * distinctDomains(8, 8) / 400e9, 1e-9);
    EXPECT_EQ(read->calls[2].kind, CallKind::RailAllToAll);
    EXPECT_NEAR(read->calls[2].time.value, 15 * 8192 / 2.4e9, 1e-9);
}

Plan planOn(const char* device, std::int64_t nodes, Layout layout) {
    Plan plan = test::smallPlan(layout);
    plan.precision = Precision::Bf16;
    plan.cluster = *defaultCluster(device, nodes);
    return plan;
}

CommunicationWork sent(CollectiveKind kind, const char* dimension, std::int64_t group,
                       double bytes) {
    CommunicationWork w;
    w.kind = kind;
    w.dimension = dimension;
    w.group_size = group;
    w.bytes = w.hottest_bytes = Bytes(bytes);
    return w;
}

TEST(Published, APrintedTimeComesBack) {
    // H100, 8 ranks, NCCL 2.29.2, all-reduce of 512 MiB: a point that the table keeps.
    const Plan plan = planOn("H100 SXM", 1, {.tp = 8});
    const CostModel model(plan);
    const double buffer = 512.0 * 1024 * 1024;
    const Cost c =
        model.communication(sent(CollectiveKind::AllReduce, "tp", 8, buffer * 2 * 7 / 8));
    EXPECT_EQ(c.evidence.kind, EvidenceKind::Published);
    EXPECT_FALSE(c.evidence.extrapolated);
    double printed = 0.0;
    for (const PublishedCall& call : table("nccl_collectives.csv").calls)
        if (call.kind == CallKind::AllReduce && call.device == "H100 SXM" && call.ranks == 8 &&
            call.size.bytes == buffer)
            printed = call.time.value;
    ASSERT_GT(printed, 0.0);
    EXPECT_NEAR(c.time.value / printed, 1.0, 0.02);
    EXPECT_LT(c.evidence.low, printed);
    EXPECT_GT(c.evidence.high, printed);
}

TEST(Published, OutsideOfWhatWasMeasuredIsFlagged) {
    const Plan plan = planOn("H100 SXM", 8, {.tp = 8, .pp = 2, .ep = 32, .etp = 1, .dp = 4});
    const CostModel model(plan);
    const auto flagged = [&](CollectiveKind kind, const char* dimension, std::int64_t group,
                             double bytes) {
        return model.communication(sent(kind, dimension, group, bytes)).evidence.extrapolated;
    };
    EXPECT_FALSE(flagged(CollectiveKind::AllGather, "tp", 8, 64e6));
    EXPECT_TRUE(flagged(CollectiveKind::AllGather, "tp", 8, 64e9));   // message
    EXPECT_TRUE(flagged(CollectiveKind::AllGather, "tp", 16, 64e6));  // ranks
    EXPECT_TRUE(flagged(CollectiveKind::AllToAll, "ep", 32, 64e6));   // no such NCCL curve
    EXPECT_TRUE(flagged(CollectiveKind::PointToPoint, "pp", 2, 64e6));
    const Plan other = planOn("H800", 1, {.tp = 8});  // the H100's curve on other links
    EXPECT_TRUE(CostModel(other)
                    .communication(sent(CollectiveKind::AllGather, "tp", 8, 64e6))
                    .evidence.extrapolated);
}

TEST(Published, TimesGrowWithSize) {
    for (const char* device : {"A100", "H100", "B200", "GB200", "MI300X", "MI250X"})
        for (const CollectiveKind kind : {CollectiveKind::AllReduce, CollectiveKind::AllGather}) {
            const Plan plan = planOn(device, 4, {.tp = 4, .dp = 4});
            const CostModel model(plan);
            for (double bytes = 1e3; bytes < 1e9; bytes *= 4) {
                const double t = model.communication(sent(kind, "tp", 4, bytes)).time.value;
                EXPECT_GT(model.communication(sent(kind, "tp", 4, bytes * 64)).time.value, t)
                    << device << " " << bytes;
                EXPECT_GT(model.communication(sent(kind, "dp", 4, bytes)).time.value, 0.0);
            }
        }
}

TEST(Published, ExpertLibrariesSendATokenOnceToANode) {
    // Top-8 over 4 nodes: 3.6 copies of a token instead of 8.
    Plan plan = planOn("H100 SXM", 4, {.ep = 32, .dp = 32});
    plan.model.moe->router_topk = 8;
    plan.model.hidden_size = 7168;
    const CommunicationWork w =
        sent(CollectiveKind::AllToAll, "ep", 32, 4096.0 * 8 * 14336 * 31 / 32);
    const double nccl = CostModel(plan).communication(w).time.value;
    plan.all_to_all.library = AllToAllLibrary::DeepEp;
    CommunicationWork back = w;
    back.combine = true;
    const CostModel deepep(plan);
    EXPECT_GT(nccl / deepep.communication(back).time.value, 2.0);
    // DeepEP's collector, H100, 4 nodes, 4096 tokens of 14336 bytes, combine: 3522 us.
    EXPECT_NEAR(deepep.communication(back).time.value, 3522e-6, 0.05 * 3522e-6);
    EXPECT_FALSE(deepep.communication(back).evidence.extrapolated);
    const double anywhere = deepep.communication(back).time.value;
    plan.all_to_all.node_limit = 2;
    const double limited = CostModel(plan).communication(back).time.value;
    EXPECT_LT(limited, anywhere);
    // A router that picks 2 of 8 groups of experts reaches as many nodes.
    plan.all_to_all.node_limit = 0;
    plan.model.moe->num_groups = 8;
    plan.model.moe->topk_groups = 2;
    EXPECT_DOUBLE_EQ(CostModel(plan).communication(back).time.value, limited);
}

TEST(Published, AlgorithmsOverNodes) {
    Plan plan = planOn("H100 SXM", 8, {.ep = 64, .dp = 64});
    const auto time_of = [&](AllToAllAlgorithm algorithm, double bytes) {
        plan.all_to_all.algorithm = algorithm;
        return CostModel(plan)
            .communication(sent(CollectiveKind::AllToAll, "ep", 64, bytes))
            .time.value;
    };
    // Large: rails use the NICs better than straight sends, gathering a node pays NVLink once more.
    EXPECT_LT(time_of(AllToAllAlgorithm::Rail, 1e9), time_of(AllToAllAlgorithm::Flat, 1e9));
    EXPECT_EQ(time_of(AllToAllAlgorithm::Auto, 1e9), time_of(AllToAllAlgorithm::Rail, 1e9));
    EXPECT_GT(time_of(AllToAllAlgorithm::Node, 1e9), time_of(AllToAllAlgorithm::Rail, 1e9));
    EXPECT_LT(time_of(AllToAllAlgorithm::Node, 1e9), 1.5 * time_of(AllToAllAlgorithm::Rail, 1e9));
    // Never faster than the NICs: 7/8 of the rank's buffer leaves its node.
    EXPECT_GT(time_of(AllToAllAlgorithm::Rail, 1e9), 1e9 * 56 / 63 / 50e9);
}

TEST(Published, GroupsThatMeetShareTheNics) {
    // dp over 8 nodes, one rank of every node a group, eight groups at once: a NIC each, 50 GB/s.
    const Plan all = planOn("H100 SXM", 8, {.tp = 8, .dp = 8});
    const double t =
        CostModel(all).communication(sent(CollectiveKind::AllGather, "dp", 8, 1e9)).time.value;
    EXPECT_GT(t, 1e9 / 50e9);
    EXPECT_LT(t, 1.2 * 1e9 / 50e9);
    // One group over all ranks drives eight NICs a node.
    const Plan one = planOn("H100 SXM", 8, {.dp = 64});
    const double shared =
        CostModel(one).communication(sent(CollectiveKind::AllGather, "dp", 64, 1e9)).time.value;
    EXPECT_LT(shared, t / 6);
    // Four stages a node: two devices send to the next node, on Frontier each over a whole NIC.
    const Plan inner = planOn("MI250X", 2, {.pp = 8, .dp = 2});
    const Plan outer = planOn("MI250X", 2, {.pp = 2, .dp = 8});
    const CommunicationWork hop = sent(CollectiveKind::PointToPoint, "pp", 2, 1e9);
    EXPECT_NEAR(CostModel(outer).communication(hop).time.value /
                    CostModel(inner).communication(hop).time.value,
                2.0, 0.02);
}

TEST(Published, RingsOfAmdDevicesAreAssumed) {
    const CommunicationWork ring = sent(CollectiveKind::AllReduce, "tp", 8, 64e6);
    for (const char* device : {"MI250X", "MI300X"})
        EXPECT_EQ(CostModel(planOn(device, 1, {.tp = 8})).communication(ring).evidence.kind,
                  EvidenceKind::Assumed)
            << device;
    EXPECT_EQ(CostModel(planOn("H100 SXM", 1, {.tp = 8})).communication(ring).evidence.kind,
              EvidenceKind::Published);
}

TEST(Published, AGroupThatLeavesItsSwitchIsSlowerOverSlingshot) {
    // X-MoE, figures: 352 MB off-node in 39 ms on the four nodes of a switch; one layer of Large
    // over eight nodes, 411 MB in 88 to 93 ms.
    const auto time = [](std::int64_t ranks, double off_node) {
        const Plan plan = planOn("MI250X", ranks / 8, {.ep = ranks, .dp = ranks});
        const double g = static_cast<double>(ranks);
        const double bytes = off_node * (g - 1.0) / (g - 8.0);  // to other ranks, of all nodes
        return CostModel(plan)
            .communication(sent(CollectiveKind::AllToAll, "ep", ranks, bytes))
            .time.value;
    };
    EXPECT_NEAR(time(32, 352e6), 39e-3, 3e-3);
    EXPECT_NEAR(time(64, 411e6), 90.5e-3, 4e-3);
    // Farther groups pay no more for a byte.
    EXPECT_NEAR(time(256, 411e6) / time(64, 411e6), 1.0, 0.1);
}

TEST(Published, LinesOfTheTableAreChecked) {
    EXPECT_TRUE(readCalls(embeddedCalls("published_calls")).ok());
    EXPECT_FALSE(readCalls("all_reduce|NCCL|H100|1|8|0").ok());
    EXPECT_FALSE(readCalls("all_reduce|NCCL|H100|1|8|0|512:x").ok());
    EXPECT_FALSE(readCalls("all_reduce|NCCL|H100|1|1|0|512:8").ok());
    EXPECT_FALSE(readCalls("all_talk|NCCL|H100|1|8|0|512:8").ok());
    EXPECT_GT(PublishedCurves::bundled().size(), 100U);
}

}  // namespace
}  // namespace piper
