// SPDX-License-Identifier: Apache-2.0
// Logs of training programs, nccl-tests' output with noise, rank profiles, workspace files.
#include <gmock/gmock.h>

#include "tests/collectors/import/import_support.h"

namespace piper::test {
namespace {

using testing::HasSubstr;

TEST(TrainingLog, Megatron) {
    const TextFile file(
        "> initializing\n"
        "[Rank 0] (after 2 iterations) memory (MB) | allocated: 10.0 | max allocated: 20.5 | "
        "reserved:"
        " 30.0 | max reserved: 40.0\n"
        " [2024-05-01 10:00:00] iteration        1/     100 | consumed samples:   256 | elapsed "
        "time "
        "per iteration (ms): 1500.5 | throughput per GPU (TFLOP/s/GPU): 400.0 | learning rate: "
        "1.0E-04"
        " | global batch size: 256 | lm loss: 1.100000E+01 | grad norm: 2.5 |\n"
        " [2024-05-01 10:00:01] iteration        2/     100 | elapsed time per iteration (ms): "
        "1000.0 |"
        " throughput per GPU (TFLOP/s/GPU): 420.0 | lm loss: 1.000000E+01 | grad norm: 2.0 |\n",
        "train.log");
    RoundTrip trip({file.path()});
    const piper::Run run = trip.run();
    ASSERT_EQ(run.ranks.size(), 1U);
    const RankTimeline& rank = run.ranks[0];
    ASSERT_EQ(rank.steps.size(), 2U);
    EXPECT_EQ(rank.steps[0].end_ns, 1500500000);
    EXPECT_EQ(rank.steps[1].end_ns - rank.steps[1].start_ns, 1000000000);
    EXPECT_DOUBLE_EQ(rank.steps[0].loss, 11.0);
    EXPECT_DOUBLE_EQ(rank.steps[1].gradient_norm, 2.0);
    EXPECT_EQ(rank.counters.at("tflops_per_device"), "410");
    EXPECT_EQ(rank.counters.at("memory.max_allocated_bytes"), "21495808");
    EXPECT_EQ(run.notes.at("program"), "megatron");
}

TEST(TrainingLog, DeepSpeedTorchtitanAndXMoe) {
    const TextFile deepspeed(
        "[INFO] steps: 10 loss: 2.5000 iter time (s): 0.250 samples/sec: 128.0\n"
        "[INFO] steps: 20 loss: 2.4000 iter time (s): 0.200 samples/sec: 160.0, "
        "MemAllocated=1.0GB, "
        "MaxMemAllocated=2.0GB\n",
        "ds.log");
    const Result<ImportedRun> ds = importTrainingLog(deepspeed.path());
    ASSERT_TRUE(ds.ok());
    ASSERT_EQ(ds->run.ranks[0].steps.size(), 2U);
    EXPECT_EQ(ds->run.ranks[0].steps[1].step, 20);
    EXPECT_EQ(ds->run.ranks[0].counters.at("memory.max_allocated_bytes"), "2147483648");

    const TextFile titan(
        "[rank0]:\x1b[31mstep: 10\x1b[0m  loss:  7.1  grad_norm: 1.5  memory: 41.5GiB(52.0%)  "
        "tps: 1,234  tflops: 321.5  mfu: 32.5%\n",
        "titan.log");
    const Result<ImportedRun> tt = importTrainingLog(titan.path());
    ASSERT_TRUE(tt.ok());
    EXPECT_EQ(tt->run.ranks[0].counters.at("tokens_per_second_per_device"), "1234");
    EXPECT_EQ(tt->run.ranks[0].counters.at("tflops_per_device"), "321.5");
    EXPECT_EQ(tt->run.notes.at("program"), "torchtitan");

    const TextFile xmoe(
        "iteration  3/  10 | elapsed time per iteration (ms): 100.0 | lm loss: 9.0 | moe loss: 0.5 "
        "|"
        " samples per second: 12.0 | TFLOPs: 44.0\n"
        "1st_a2a: 1.5, experts: 2.5, 2nd_a2a: 3.5\nOverall Peak Reserved: 2 GB\n",
        "x.log");
    const Result<ImportedRun> x = importTrainingLog(xmoe.path());
    ASSERT_TRUE(x.ok());
    EXPECT_EQ(x->run.ranks[0].counters.at("profile.2nd_a2a_milliseconds"), "3.5");
    EXPECT_EQ(x->run.ranks[0].counters.at("moe_loss"), "0.5");
}

TEST(TrainingLog, TextWithoutAStepIsRefused) {
    const TextFile file("hello\nloss of power\n", "x.log");
    const Result<ImportedRun> run = importTrainingLog(file.path());
    ASSERT_FALSE(run.ok());
    EXPECT_EQ(run.error().code, ErrorCode::InvalidInput);
    EXPECT_THAT(run.error().text(), HasSubstr("no training step"));
}

TEST(NcclTests, TagsOfMpirunOldColumnsAndABrokenRow) {
    const TextFile file(
        "[1,0]<stdout>:# nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor)\n"
        "[1,0]<stdout>:#  Rank  0 Pid 1 on a device  0 [0x00] A100\n"
        "[1,1]<stdout>:#  Rank  1 Pid 2 on b device  0 [0x00] A100\n"
        "some other line 1 2 3\n"
        "[1,0]<stdout>:           8             2   float     sum    10.00    0.10    0.20  0e+00  "
        "  "
        "11.00    0.10    0.30  0e+00\n"
        "[1,0]<stdout>:          16             4   float     sum    20.00    0.20    0.40  0e+00  "
        "  "
        "21.00    broken  0.50  0e+00\n"
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0.25\n",
        "old.log");
    const Result<std::vector<ImportedRun>> runs = importNcclTests(file.path());
    ASSERT_TRUE(runs.ok());
    ASSERT_EQ(runs->size(), 1U);
    const auto& notes = runs->front().run.notes;
    EXPECT_EQ(notes.at("nccl_tests.rows"), "1");
    EXPECT_EQ(notes.at("nccl_tests.ranks"), "2");
    EXPECT_EQ(notes.at("nccl_tests.peak_busbw_ip"), "0.30");
    EXPECT_TRUE(runs->front().counters.lostData());
    EXPECT_FALSE(importNcclTests(TextFile("nothing", "n.log").path()).ok());
}

TEST(RankProfile, PartsBecomeOneLayer) {
    const TextFile file(R"({"avg_qkv_gemm": 1.5, "avg_attn_gemm": 2, "avg_out_gemm": 0.5,
        "avg_1st_a2a_per_layer": 3, "avg_experts_per_layer": 4, "avg_2nd_a2a_per_layer": 5,
        "fwd_gemm_time_per_layer": 8, "fwd_comm_time_per_layer": 8})");
    RoundTrip trip({file.path()});
    const piper::Run run = trip.run();
    ASSERT_EQ(run.ranks[0].events.size(), 6U);
    EXPECT_EQ(run.ranks[0].steps[0].end_ns, 16000000);
    EXPECT_EQ(run.ranks[0].events[3].phase, Phase::Dispatch);
    EXPECT_FALSE(importRankProfile(TextFile("{}").path()).ok());
    EXPECT_FALSE(importRankProfile(TextFile("[").path()).ok());
}

TEST(Import, AWorkspaceFileComesAsItIsUnderAFreeName) {
    const TextFile trace(R"([{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2}])",
                         "one.json");
    RoundTrip first({trace.path()});
    ASSERT_TRUE(first.summary.ok());
    const std::string path = first.workspace->path();
    ASSERT_TRUE(first.workspace->close().ok());
    RoundTrip second({trace.path(), path});
    ASSERT_TRUE(second.summary.ok()) << second.summary.error().text();
    const auto runs = second.workspace->runs();
    ASSERT_EQ(runs->size(), 2U);
    EXPECT_EQ((*runs)[0].name, "one");
    EXPECT_EQ((*runs)[1].name, "one 2");
    EXPECT_EQ(second.statistics(1)["kernel_sum_ns"], 2000);
}

TEST(Import, UnusableFilesAreNamed) {
    RoundTrip trip({TextFile("\x01\x02 binary rubbish", "x.bin").path()});
    ASSERT_FALSE(trip.summary.ok());
    EXPECT_EQ(trip.summary.error().code, ErrorCode::InvalidInput);
    RoundTrip missing({"/nowhere/trace.json"});
    EXPECT_EQ(missing.summary.error().code, ErrorCode::NotFound);
    RoundTrip directory({missing.directory.path()});
    EXPECT_EQ(directory.summary.error().code, ErrorCode::InvalidInput);
}

}  // namespace
}  // namespace piper::test
