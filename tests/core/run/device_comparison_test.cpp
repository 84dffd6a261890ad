// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <limits>

#include "core/base/json.h"
#include "core/run/device_comparison.h"
#include "core/run/report.h"
#include "tests/support/device_sums.h"

namespace piper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A rank with kernels {name, start, duration} on one stream.
struct Kernel {
    const char* name;
    std::int64_t start, duration;
};

Run traceOf(const std::string& name, std::initializer_list<Kernel> kernels,
            const std::string& world = "1") {
    Run run;
    run.name = name;
    run.notes["world"] = world;
    RankTimeline rank;
    rank.rank = RankId(0);
    rank.tracks = {{"stream 7", "0", "7", 0, 7}, {"stream 8", "0", "8", 0, 8}};
    for (const Kernel& k : kernels) {
        Event e;
        e.category = EventCategory::Kernel;
        e.lane = Lane::Stream;
        e.track = std::string_view(k.name).starts_with("nccl") ? 1 : 0;
        e.start_ns = k.start;
        e.duration_ns = k.duration;
        e.name = static_cast<std::int32_t>(rank.names.size());
        rank.names.emplace_back(k.name);
        rank.events.push_back(e);
    }
    run.ranks.push_back(std::move(rank));
    return run;
}

DeviceStatistics sums(const Run& run) {
    return test::deviceStatistics(run, CommunicationRule::standard());
}

TEST(DeviceStatistics, SumsUnionsOverlapAndIdle) {
    const piper::Run run = traceOf("a", {{"gemm", 0, 100},
                                         {"ncclKernel", 50, 100},
                                         {"gemm", 200, 50},
                                         {"gemm", 210, 10},
                                         {"empty", 300, 0}});
    const DeviceStatistics s = sums(run);
    EXPECT_EQ(s.kernels, 5);
    EXPECT_EQ(s.kernel_sum_ns, 260);
    EXPECT_EQ(s.kernel_union_ns, 200);
    EXPECT_EQ(s.gpu_span_ns, 300);
    EXPECT_EQ(s.idle_in_span_ns, 100);
    EXPECT_EQ(s.same_stream_overlaps, 1);
    EXPECT_DOUBLE_EQ(*s.overlap_nccl_pct, 50.0);
    EXPECT_EQ(s.ranks[0].exposed_communication_ns, 50);
    EXPECT_EQ(s.ranks[0].compute_union_ns, 150);
    EXPECT_EQ(s.streams, 2);
    ASSERT_EQ(s.by_name.size(), 3U);
    EXPECT_EQ(s.by_name[0].name, "gemm");
    EXPECT_EQ(s.by_name[0].count, 3);
    EXPECT_EQ(s.by_name[0].min_ns, 10);
}

TEST(DeviceStatistics, IdleTimeHasItsCausesAndAddsUp) {
    piper::Run run = traceOf("a", {{"gemm", 100, 100},
                                   {"ncclKernel", 150, 100},
                                   {"gemm", 400, 100},
                                   {"gemm", 700, 100},
                                   {"gemm", 900, 50}});
    RankTimeline& rank = run.ranks[0];
    Event copy = rank.events[0];
    copy.category = EventCategory::Memcpy;
    copy.start_ns = 240;
    copy.duration_ns = 30;
    rank.events.push_back(copy);
    const auto launch = [&](std::size_t of, std::int64_t start, std::int64_t duration) {
        const auto correlation = static_cast<std::int64_t>(of) + 10;
        rank.events[of].correlation = correlation;
        Event call;
        call.category = EventCategory::Runtime;
        call.lane = Lane::Host;
        call.correlation = correlation;
        call.start_ns = start;
        call.duration_ns = duration;
        rank.events.push_back(call);
    };
    launch(2, 330, 60);   // of the 130 ns before it, 120 until its call returned
    launch(2, 340, 20);   // the driver within: returned after 90
    launch(3, 10, 5);     // long ago: 200 ns are not the host's
    launch(4, 850, 100);  // returns after the kernel began: all 100 ns
    const DeviceIdle idle = sums(run).idle;
    EXPECT_EQ(idle.devices, 1);
    EXPECT_EQ(idle.span_ns, 850);
    EXPECT_EQ(idle.compute_ns, 100 + 100 + 100 + 50);
    EXPECT_EQ(idle.waiting_communication_ns, 50);
    EXPECT_EQ(idle.copying_ns, 20);
    EXPECT_EQ(idle.waiting_launch_ns, 90 + 0 + 100);
    EXPECT_EQ(idle.unknown_ns, 40 + 200);
    EXPECT_EQ(idle.pieces, 6);
    EXPECT_EQ(idle.pieces_with_launch, 3);
    EXPECT_THAT(deviceTable(run, sums(run)), HasSubstr("waiting for a launch 22.35 %"));
    Json out;
    addDeviceStatistics(run, sums(run), out);
    EXPECT_EQ(out["idle_by_cause"]["waiting_launch_ns"], 190);
    // Another rank's call of the same number is not the kernel's.
    run.ranks.push_back(rank);
    run.ranks[1].rank = RankId(1);
    std::erase_if(run.ranks[1].events,
                  [](const Event& e) { return e.category == EventCategory::Runtime; });
    EXPECT_EQ(sums(run).idle.waiting_launch_ns, 190);
    EXPECT_EQ(sums(run).idle.devices, 2);
    run.ranks.erase(run.ranks.begin());
    Json without;
    addDeviceStatistics(run, sums(run), without);
    EXPECT_TRUE(without["idle_by_cause"]["waiting_launch_ns"].is_null());
    EXPECT_EQ(without["idle_by_cause"]["unknown_ns"], 430);
}

TEST(DeviceStatistics, OffsetsMoveRanksAndSharedDevicesAreOne) {
    piper::Run run = traceOf("a", {{"gemm", 0, 100}});
    run.ranks.push_back(run.ranks[0]);
    run.ranks[1].rank = RankId(1);
    run.ranks[1].offset_ns = 50;
    EXPECT_EQ(sums(run).devices, 2);
    EXPECT_EQ(sums(run).kernel_union_ns, 200);
    EXPECT_EQ(sums(run).gpu_span_ns, 150);
    for (RankTimeline& rank : run.ranks) rank.counters["devices_shared"] = "1";
    EXPECT_EQ(sums(run).devices, 1);
    EXPECT_EQ(sums(run).kernel_union_ns, 150);
}

TEST(DeviceStatistics, DevicesOfDifferentFilesAndStreamsOfDifferentProcessesAreApart) {
    piper::Run run = traceOf("a", {{"gemm", 0, 100}});
    run.ranks.push_back(run.ranks[0]);
    run.ranks[1].rank = RankId(1);
    run.ranks[0].counters["devices_shared"] = "1";
    run.ranks[1].counters["devices_shared"] = "2";
    EXPECT_EQ(sums(run).devices, 2);
    EXPECT_EQ(sums(run).kernel_union_ns, 200);
    run.ranks[1].counters["devices_shared"] = "1";
    for (Track& track : run.ranks[1].tracks) track.process = "other";
    EXPECT_EQ(sums(run).devices, 1);
    EXPECT_EQ(sums(run).streams, 2);
    EXPECT_EQ(sums(run).same_stream_overlaps, 0);
}

TEST(DeviceStatistics, ARankOfSeveralDevicesIsNeverIdleForLessThanNothing) {
    piper::Run run = traceOf("a", {{"gemm", 0, 100}, {"nccl", 0, 80}});
    run.ranks[0].tracks[1].device = 1;
    const DeviceStatistics s = sums(run);
    EXPECT_EQ(s.ranks[0].busy_union_ns, 180);
    EXPECT_EQ(s.ranks[0].span_ns, 180);
    const DeviceComparison same = compareDevices(run, s, run, s);
    EXPECT_DOUBLE_EQ(same.attribution.step_a_seconds, 180e-9);
    const piper::Run none = traceOf("b", {});
    EXPECT_GE(compareDevices(none, sums(none), run, s).attribution.bubble_seconds, 0.0);
}

TEST(DeviceStatistics, WholeCountersKeepEveryDigit) {
    piper::Run run = traceOf("a", {});
    run.ranks[0].counters["first_timestamp_ns"] = "1666149715033200001";
    run.ranks[0].counters["half"] = "0.5";
    Json out = Json::object();
    addDeviceStatistics(run, sums(run), out);
    EXPECT_EQ(out["counters"]["first_timestamp_ns"].dump(), "1666149715033200001");
    EXPECT_EQ(out["counters"]["half"], 0.5);
}

TEST(DeviceStatistics, TimesThatCannotBeAreLeftOut) {
    const std::int64_t most = std::numeric_limits<std::int64_t>::max();
    const DeviceStatistics s =
        sums(traceOf("a", {{"gemm", 0, 100}, {"gemm", most, most}, {"gemm", -most, 5}}));
    EXPECT_EQ(s.kernels, 1);
    EXPECT_EQ(s.gpu_span_ns, 100);
}

TEST(DeviceStatistics, WithoutDeviceWorkEverythingIsZero) {
    piper::Run run = traceOf("a", {});
    run.ranks[0].events.resize(3);
    const DeviceStatistics s = sums(run);
    EXPECT_EQ(s.events, 3);
    EXPECT_EQ(s.devices, 0);
    EXPECT_EQ(s.gpu_span_ns, 0);
    EXPECT_FALSE(s.overlap_nccl_pct.has_value());
}

TEST(DeviceComparison, KernelsByNameAndAnAttributionThatAddsUp) {
    const piper::Run a =
        traceOf("a", {{"gemm", 0, 100}, {"ncclKernel", 100, 100}, {"old", 200, 10}});
    const piper::Run b = traceOf(
        "b", {{"gemm", 0, 150}, {"gemm", 150, 150}, {"ncclKernel", 250, 100}, {"new", 400, 20}});
    const DeviceComparison c = compareDevices(a, sums(a), b, sums(b));
    ASSERT_EQ(c.kernels.size(), 4U);
    EXPECT_EQ(c.kernels[0].key, "gemm");
    EXPECT_EQ(c.kernels[0].b_sum_ns - c.kernels[0].a_sum_ns, 200);
    EXPECT_DOUBLE_EQ(c.kernels[0].bMean(), 150.0);
    EXPECT_THAT(c.only_in_a, ElementsAre("kernel old"));
    EXPECT_THAT(c.only_in_b, ElementsAre("kernel new"));
    const Attribution& why = c.attribution;
    EXPECT_NEAR(why.difference(), 210e-9, 1e-15);
    EXPECT_NEAR(why.compute_seconds, 210e-9, 1e-15);
    EXPECT_NEAR(why.exposed_communication_seconds, -50e-9, 1e-15);
    EXPECT_NEAR(why.bubble_seconds, 50e-9, 1e-15);
    EXPECT_NEAR(why.compute_seconds + why.exposed_communication_seconds + why.bubble_seconds +
                    why.rest_seconds,
                why.difference(), 1e-18);
    const Json json = deviceComparisonJson(a, b, c);
    EXPECT_EQ(json["kernels"][0]["difference_ns"], 200);
    EXPECT_EQ(json["ranks"][0]["rank"], 0);
}

TEST(DeviceComparison, SaysWhenTracesAreNotComparable) {
    const piper::Run a = traceOf("a", {{"gemm", 0, 100}}, "8"),
                     b = traceOf("b", {{"gemm", 0, 300}}, "2");
    EXPECT_THAT(compareDevices(a, sums(a), b, sums(b)).warnings,
                ElementsAre(HasSubstr("jobs of 8 and of 2 ranks"), HasSubstr("windows differ")));
    const piper::Run c = traceOf("c", {{"gemm", 0, 50}, {"gemm", 50, 50}}, "8");
    EXPECT_THAT(compareDevices(a, sums(a), c, sums(c)).warnings,
                ElementsAre(HasSubstr("1 against 2 kernels")));
    const piper::Run empty = traceOf("e", {}, "8");
    EXPECT_THAT(compareDevices(a, sums(a), empty, sums(empty)).warnings,
                testing::Contains(HasSubstr("'e' has no device work")));
}

}  // namespace
}  // namespace piper
