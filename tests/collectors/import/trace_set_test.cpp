// SPDX-License-Identifier: Apache-2.0
// Traces of others with what a right reader reports of them (tests/data/traces).
#include <gmock/gmock.h>

#include "core/base/csv.h"
#include "tests/collectors/import/import_support.h"

namespace piper::test {
namespace {

CsvTable table(const std::string& name) {
    Result<CsvTable> parsed = CsvTable::parse(readText(traceFile(name)), name);
    EXPECT_TRUE(parsed.ok());
    return std::move(parsed).value();
}

constexpr const char* kNumbers[] = {"events_total",
                                    "devices",
                                    "memcpy",
                                    "memset",
                                    "kernels",
                                    "kernel_sum_ns",
                                    "kernel_union_ns",
                                    "busy_union_ns",
                                    "nccl_kernels",
                                    "nccl_sum_ns",
                                    "nccl_union_ns",
                                    "comm_ext_kernels",
                                    "comm_ext_sum_ns",
                                    "comm_ext_union_ns",
                                    "same_stream_overlaps",
                                    "gpu_span_ns",
                                    "idle_in_span_ns",
                                    "streams",
                                    "distinct_kernel_names"};

TEST(TraceSet, EveryNumberIsExact) {
    const CsvTable expected = table("expected.csv");
    ASSERT_EQ(expected.size(), 18U);
    for (std::size_t row = 0; row < expected.size(); ++row) {
        const std::string file(expected.at(row, "file"));
        RoundTrip trip({traceFile(file)});
        Json got = trip.statistics();
        if (!got.contains("busy_union_ns")) got["busy_union_ns"] = got["idle_in_span_ns"] = 0;
        for (const char* key : kNumbers)
            EXPECT_EQ(got[key].dump(), expected.at(row, key)) << file << " " << key;
        for (const char* key : {"overlap_nccl_pct", "overlap_comm_ext_pct"}) {
            const std::string_view wanted = expected.at(row, key);
            ASSERT_EQ(got[key].is_null(), wanted.empty()) << file;
            if (wanted.empty()) continue;
            EXPECT_EQ(fmt::format("{:.4f}", got[key].get<double>()), wanted) << file;
        }
        EXPECT_FALSE(trip.summary->counters.lostData()) << trip.summary->counters.text();
    }
}

/// "13.60" is 13.6.
bool sameValue(std::string_view a, std::string_view b) {
    const std::optional<double> x = numberIn(a), y = numberIn(b);
    return x && y ? *x == *y : a == b;
}

TEST(TraceSet, EveryCollectiveTestIsExact) {
    const CsvTable expected = table("expected_nccltests.csv");
    ASSERT_EQ(expected.size(), 11U);
    std::map<std::string, std::size_t> seen;
    for (std::size_t row = 0; row < expected.size(); ++row) {
        const std::string file(expected.at(row, "file"));
        RoundTrip trip({traceFile(file)});
        const piper::Run run = trip.run(seen[file]++);
        for (const char* key :
             {"version", "test", "ranks", "gpu", "rows", "min_bytes", "max_bytes", "peak_busbw_oop",
              "peak_busbw_ip", "time_us_oop_at_max", "algbw_oop_at_max", "busbw_oop_at_max",
              "wrong_total", "avg_busbw", "oob"})
            EXPECT_TRUE(
                sameValue(run.notes.at(fmt::format("nccl_tests.{}", key)), expected.at(row, key)))
                << file << " " << key;
        EXPECT_EQ(run.ranks.front().events.size(),
                  2 * static_cast<std::size_t>(*parseWhole(expected.at(row, "rows"))));
    }
}

std::vector<std::filesystem::path> filesOfFolder(const std::string& name) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(traceFile(name)))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

TEST(TraceSet, EightRanksOfOneJobBecomeOneRunOnOneClock) {
    RoundTrip trip(filesOfFolder("param/dlrm_kineto"));
    const piper::Run run = trip.run();
    ASSERT_EQ(run.ranks.size(), 8U);
    EXPECT_EQ(trip.workspace->runs()->size(), 1U);
    const Json got = trip.statistics();
    EXPECT_EQ(got["nccl_kernels"], 64);
    EXPECT_EQ(got["devices"], 8);
    EXPECT_EQ(got["nccl_sum_ns"],
              5798000 + 11336000 + 3492000 + 9774000 + 6587000 + 6251000 + 3558000 + 1746000);
    for (const RankTimeline& rank : run.ranks) {
        const std::int64_t first = std::stoll(rank.counters.at("first_timestamp_ns"));
        const std::int64_t origin = std::stoll(run.ranks[0].counters.at("first_timestamp_ns"));
        EXPECT_EQ(rank.offset_ns, first - origin);
    }
}

TEST(TraceSet, FilesOfDifferentJobsStayApartAndMissingRanksAreNamed) {
    RoundTrip trip({traceFile("hta/trace_filter__sampled_rank-0.json.gz"),
                    traceFile("hta/trace_filter__sampled_rank-1.json.gz"),
                    traceFile("hta/mixed_files__rank_non_gpu.json.gz")});
    ASSERT_TRUE(trip.summary.ok());
    EXPECT_EQ(trip.workspace->runs()->size(), 2U);
    const piper::Run run = trip.run();
    ASSERT_EQ(run.ranks.size(), 2U);
    EXPECT_EQ(run.notes.at("problems"), "2 of 128 ranks are loaded");
    EXPECT_THAT(trip.summary->counters.text(), testing::HasSubstr("no GPU kernel"));
}

TEST(TraceSet, ARuleOfTheUsersOwnReplacesTheStandardOne) {
    RoundTrip trip({traceFile("param/dlrm_kineto/worker0_step_12.1694128201545.pt.trace.json.gz")});
    const Json got = trip.statistics(0, "ncclkernel_sendrecv");
    EXPECT_EQ(got["comm_ext_sum_ns"], 3999000);
    EXPECT_EQ(got["nccl_sum_ns"], 5798000);
    EXPECT_FALSE(CommunicationRule::parse("a(b").ok());
    const CommunicationRule standard = CommunicationRule::standard();
    EXPECT_TRUE(standard.matches("void dpsk::ep::internode::dispatch<true>(int)"));
    EXPECT_TRUE(standard.matches("void vllm::cross_device_reduce_1stage<half>"));
    EXPECT_FALSE(standard.matches("flash_fwd_splitkv_combine_kernel"));
    EXPECT_FALSE(standard.matches("step::internode"));
    // Names longer than is matched at once.
    const std::string filling(4090, 'x');
    EXPECT_TRUE(standard.matches(filling + "nvshmem" + filling));
    EXPECT_TRUE(standard.matches(filling + " ep::internode"));
    for (std::size_t length = 3060; length < 3080; ++length)
        EXPECT_FALSE(standard.matches(std::string(length, 'x') + "ep::internode" + filling));
    EXPECT_TRUE(CommunicationRule::parse("end$")->matches(filling + filling + "end"));
    EXPECT_FALSE(CommunicationRule::parse("x$")->matches(filling + filling + "end"));
    for (std::size_t length = 4085; length < 4100; ++length)
        EXPECT_FALSE(CommunicationRule::parse("foo\\b")->matches(std::string(length, ' ') +
                                                                 "foobar" + filling));
}

}  // namespace
}  // namespace piper::test
