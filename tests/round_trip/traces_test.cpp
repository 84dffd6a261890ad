// SPDX-License-Identifier: Apache-2.0
// Traces of others that go out again and come back: the same device work, by our own importers.
#include <gmock/gmock.h>

#include "collectors/export/chrome.h"
#include "collectors/export/nsys_sqlite.h"
#include "tests/collectors/import/import_support.h"

namespace piper::test {
namespace {

/// The keys of `piperctl stats` that a file of another program can carry.
constexpr const char* kKeys[] = {
    "kernels",       "kernel_sum_ns",    "kernel_union_ns",      "memcpy",
    "memset",        "busy_union_ns",    "nccl_kernels",         "nccl_sum_ns",
    "nccl_union_ns", "comm_ext_kernels", "comm_ext_sum_ns",      "comm_ext_union_ns",
    "gpu_span_ns",   "idle_in_span_ns",  "same_stream_overlaps", "overlap_nccl_pct",
    "streams",       "devices",          "distinct_kernel_names"};

class OneRankTraces : public testing::TestWithParam<const char*> {};

TEST_P(OneRankTraces, ComeBackFromChromeAsTheyWere) {
    RoundTrip first({traceFile(GetParam())});
    const piper::Run run = first.run();
    ASSERT_EQ(run.ranks.size(), 1U);
    const TemporaryDirectory directory;
    const std::filesystem::path path = directory.path() / "again.json";
    ASSERT_TRUE(exportChromeTrace(run, path).ok());
    RoundTrip again({path});
    Json before = first.statistics(), after = again.statistics();
    for (const char* key : kKeys) EXPECT_EQ(after[key], before[key]) << key;
    EXPECT_EQ(again.summary->counters.count("flow_start"),
              first.summary->counters.count("flow_start"));
    EXPECT_EQ(again.summary->counters.count("flow_end_without_start"),
              first.summary->counters.count("flow_end_without_start"));
}

TEST_P(OneRankTraces, ComeBackFromNsightSystemsTablesAsTheyWere) {
    RoundTrip first({traceFile(GetParam())});
    const piper::Run run = first.run();
    const TemporaryDirectory directory;
    const std::filesystem::path path = directory.path() / "again.sqlite";
    const Result<LeftOut> left_out = exportNsysSqlite(run, path);
    ASSERT_TRUE(left_out.ok()) << left_out.error().text();
    RoundTrip again({path});
    Json before = first.statistics(), after = again.statistics();
    for (const char* key : kKeys) EXPECT_EQ(after[key], before[key]) << key;
    EXPECT_EQ(left_out->contains("flow_start") ? left_out->at("flow_start") : 0,
              first.summary->counters.count("flow_start"));
    EXPECT_FALSE(exportNsysSqlite(run, path).ok());  // it is there already
}

INSTANTIATE_TEST_SUITE_P(
    Traces, OneRankTraces,
    testing::Values("hta/trace_filter__sampled_rank-1.json.gz",
                    "hta/cupti_profiler__benchmark_result_924719_1679055439_trace.json.gz",
                    "hta/call_stack__backward_thread.json",
                    "hta/amd_trace__mi250_minitoy_train_ROCm6_2_kineto.json.gz",
                    "hta/critical_path__cuda_event_sync__event_sync_trace.json.gz",
                    "hta/mixed_files__rank_non_gpu.json.gz",
                    "param/dlrm_kineto/worker1_step_12.1694128201556.pt.trace.json.gz",
                    "tracelens/mi210__gpu_only_trace__gpu_only_trace.json.gz",
                    "tracelens/inference__vllm_decode_full__graph_execution.json.gz",
                    "tracelens/mi300__gaunernst_bert-small-uncased__1016001.json.gz"));

/// What a record is, without the numbers that a file gives to names, tracks and processes.
std::vector<std::string> recordsOf(const piper::Run& run) {
    std::vector<std::string> out;
    for (const RankTimeline& rank : run.ranks)
        for (const Event& e : rank.events) {
            const Track* track = rank.trackOf(e);
            out.push_back(fmt::format(
                "{} {} {} {} {} {} {} {} {} {}", rank.rank.value, toText(e.category),
                rank.nameOf(e), e.start_ns + rank.offset_ns, e.duration_ns, e.bytes, e.correlation,
                track->device, track->stream, track->device < 0 ? track->name : ""));
        }
    std::sort(out.begin(), out.end());
    return out;
}

/// Two ranks that both call their device 0, with a record of each kind.
piper::Run twoRanks() {
    piper::Run run;
    run.name = "pair";
    for (int r = 0; r < 2; ++r) {
        RankTimeline rank;
        rank.rank = RankId(r);
        rank.names = {"void gemm()", "Memcpy HtoD (Pinned -> Device)",
                      "fill",        "cudaLaunchKernel",
                      "step",        "stream wait"};
        rank.tracks = {{"device 0 stream 7", "0", "7", 0, 7}, {"python 1", "5", "1", -1, -1}};
        const auto add = [&](EventCategory category, std::int32_t name, std::int32_t track) {
            Event e;
            e.category = category;
            e.lane = track == 0 ? Lane::Stream : Lane::Host;
            e.name = name;
            e.track = track;
            e.start_ns = 10 * std::ssize(rank.events) + r;
            e.duration_ns = isMark(category) ? 0 : 7;
            e.bytes = category == EventCategory::Memcpy ? 4096 : 0;
            e.correlation = category == EventCategory::Annotation ? -1 : std::ssize(rank.events);
            rank.events.push_back(e);
        };
        add(EventCategory::Kernel, 0, 0);
        add(EventCategory::Memcpy, 1, 0);
        add(EventCategory::Memset, 2, 0);
        add(EventCategory::Synchronization, 5, 0);
        add(EventCategory::Runtime, 3, 1);
        add(EventCategory::Annotation, 4, 1);
        add(EventCategory::Instant, 4, 1);
        add(EventCategory::FlowStart, 4, 1);
        run.ranks.push_back(std::move(rank));
    }
    return run;
}

TEST(NsysSqlite, WhatWasReadFromItsTablesComesBackEqual) {
    const TemporaryDirectory directory;
    const std::filesystem::path one = directory.path() / "one.sqlite",
                                two = directory.path() / "two.sqlite";
    const Result<LeftOut> left_out = exportNsysSqlite(twoRanks(), one);
    ASSERT_TRUE(left_out.ok()) << left_out.error().text();
    EXPECT_EQ(*left_out, (LeftOut{{"flow_start", 2}}));
    RoundTrip first({one});
    const piper::Run run = first.run();
    EXPECT_EQ(run.notes.at("nsys_schema"), "3.16.1");
    ASSERT_EQ(run.ranks.size(), 2U);
    const Json statistics = first.statistics();
    EXPECT_EQ(statistics["devices"], 2);
    EXPECT_EQ(statistics["kernels"], 2);
    EXPECT_EQ(statistics["memcpy"], 2);
    EXPECT_EQ(run.ranks[0].events.size(), 7U);
    EXPECT_THAT(run.ranks[0].names, testing::Contains("memcpy Host-to-Device"));
    EXPECT_FALSE(first.summary->counters.lostData());
    ASSERT_TRUE(exportNsysSqlite(run, two).ok());
    RoundTrip again({two});
    EXPECT_EQ(recordsOf(again.run()), recordsOf(run));
}

TEST(NsysSqlite, OperationsOfOurOwnAreRanges) {
    piper::Run run;
    run.ranks.resize(1);
    run.ranks[0].rank = RankId(0);
    Event e;
    e.phase = Phase::Dispatch;
    e.kind = OperationKind::Dispatch;
    e.lane = Lane::Ep;
    e.duration_ns = 5;
    e.start_ns = -7;
    run.ranks[0].events = {e};
    const TemporaryDirectory directory;
    ASSERT_TRUE(exportNsysSqlite(run, directory.path() / "own.sqlite").ok());
    RoundTrip again({directory.path() / "own.sqlite"});
    const piper::Run back = again.run();
    ASSERT_EQ(back.ranks[0].events.size(), 1U);
    EXPECT_EQ(back.ranks[0].nameOf(back.ranks[0].events[0]), "dispatch");
    EXPECT_EQ(back.ranks[0].events[0].duration_ns, 5);
    EXPECT_EQ(back.ranks[0].tracks[0].name, "rank 0 · ep 2");
}

}  // namespace
}  // namespace piper::test
