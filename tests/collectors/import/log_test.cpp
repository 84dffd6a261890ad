// SPDX-License-Identifier: Apache-2.0
// Logs of training programs, nccl-tests' output with noise, rank profiles, workspace files.
#include <gmock/gmock.h>
#include <sqlite3.h>

#include <map>
#include <string>

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

TEST(TrainingLog, LabelsWithTheirOwnSignAndTerminalSequences) {
    const TextFile file("\x1b[2J\x1b[1;32mstep=5\x1b[0;0H loss:2.5 iter time (s): 0.5 m K\x1b[",
                        "ds.log");
    const Result<ImportedRun> run = importTrainingLog(file.path());
    ASSERT_TRUE(run.ok());
    ASSERT_EQ(run->run.ranks[0].steps.size(), 1U);
    EXPECT_EQ(run->run.ranks[0].steps[0].step, 5);
    EXPECT_DOUBLE_EQ(run->run.ranks[0].steps[0].loss, 2.5);
}

TEST(TrainingLog, MoreTimeThanThereIsIsCounted) {
    std::string text;
    for (int i = 0; i < 10000; ++i)
        text += fmt::format("iteration {} | elapsed time per iteration (ms): 999999999\n", i);
    const Result<ImportedRun> run = importTrainingLog(TextFile(text, "x.log").path());
    ASSERT_TRUE(run.ok());
    EXPECT_GT(run->counters.count("step_without_time"), 7000);
    for (const StepRecord& step : run->run.ranks[0].steps) EXPECT_GE(step.end_ns, step.start_ns);
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
    const std::string most = "9223372036854775807";
    const std::string row = "8 2 float sum -1 1e3 1 1 " + most + " 1e3 1 1 " + most + "\n";
    const auto limits = importNcclTests(
        TextFile("# Collective test starting: x\n" + row + row +
                     "8 2 float sum -1 2305843009213693 1 1 0 2305843009213693 1 1 0\n",
                 "l.log")
            .path());
    ASSERT_TRUE(limits.ok());
    EXPECT_EQ(limits->front().run.notes.at("nccl_tests.wrong_total"), most);
    EXPECT_EQ(limits->front().counters.count("malformed_row"), 1);
    EXPECT_FALSE(importNcclTests(TextFile("nothing", "n.log").path()).ok());
}

TEST(NcclTests, RowsOfOtherVersionsBehindLaunchersTags) {
    const std::string noise(400000, 'x');  // more than is looked at to tell formats apart
    const TextFile file(
        noise +
            "\n+ srun -l /opt/nccl-tests/build/alltoall_perf -b 8 -e 16 -S 1\n"
            "0: # nThread 1 nGpus 1 minBytes 8 maxBytes 16 step: 2(factor)\n"
            "0: #   Rank  0 Pid 1 on a device  0 [0x07] NVIDIA A100-SXM4-40GB\n"
            "0:            8             1     float    none      -1    31.51    0.10    0.20      "
            "0"
            "    30.10    0.20    0.30    N/A  2025-03-04 05:06:07\n"
            "0:           16             2  f4e2m1    none      -1    41.51    0.30    0.40      2"
            "    40.10    0.40    0.50      1  2025-03-04 05:06:08\n"
            "0: # Out of bounds values : 3 FAILED\n0: # Avg bus bandwidth    : 0.35 \n"
            "node-1: # nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor)\n"
            "node-1:  8   2   float   31.51    0.10    0.20    N/A    30.10    0.20    0.30    "
            "N/A\n"
            "node-1: # Avg bus bandwidth    : 0.25\n",
        "slurm.out");
    RoundTrip trip({file.path()});
    ASSERT_TRUE(trip.summary.ok()) << trip.summary.error().text();
    ASSERT_EQ(trip.summary->written.size(), 2U);
    const auto expectNotes = [](const auto& notes, const std::map<std::string, std::string>& want) {
        for (const auto& [key, value] : want)
            EXPECT_EQ(notes.at("nccl_tests." + key), value) << key;
    };
    expectNotes(trip.run(0).notes, {{"test", "alltoall_perf"},
                                    {"rows", "2"},
                                    {"ranks", "1"},
                                    {"gpu", "NVIDIA A100-SXM4-40GB"},
                                    {"max_bytes", "16"},
                                    {"busbw_oop_at_max", "0.40"},
                                    {"peak_busbw_ip", "0.50"},
                                    {"wrong_total", "3"},
                                    {"oob", "3 FAILED"},
                                    {"avg_busbw", "0.35"}});
    expectNotes(trip.run(1).notes, {{"rows", "1"}, {"avg_busbw", "0.25"}});
    EXPECT_FALSE(trip.summary->counters.lostData());
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

TEST(Import, NotesOfEveryFileOfAJoinedRunStay) {
    const TextFile trace(R"({"traceName": "t", "traceEvents": [
        {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2}]})",
                         "one.json");
    const TextFile log("iteration 1/ 9 | elapsed time per iteration (ms): 9.5 | lm loss: 1.0\n",
                       "two.log");
    RoundTrip trip({trace.path(), log.path()}, {"job"});
    const piper::Run run = trip.run();
    ASSERT_EQ(run.ranks.size(), 2U);
    EXPECT_EQ(run.notes.at("traceName"), "\"t\"");
    EXPECT_EQ(run.notes.at("program"), "megatron");
    EXPECT_EQ(run.notes.at("format"), "chrome");
    EXPECT_EQ(run.notes.at("format of two.log"), "training-log");
    EXPECT_EQ(trip.summary->counters.count("rank_renumbered"), 1);
    EXPECT_EQ(run.ranks[1].counters.at("import.info.rank_renumbered"), "1");
}

TEST(Import, ARunWhoseRecordsCannotBeStoredHasFailed) {
    const TextFile first(R"([{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1}])",
                         "one.json");
    const TextFile second(R"([{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1}])",
                          "two.json");
    const TemporaryDirectory directory;
    const std::filesystem::path path = directory.path() / "w.piper";
    ASSERT_TRUE(Workspace::create(path)->close().ok());
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database,
                           "CREATE TRIGGER full BEFORE INSERT ON chunk WHEN NEW.source_id > 1 "
                           "BEGIN SELECT RAISE(FAIL, 'no room'); END",
                           nullptr, nullptr, nullptr),
              SQLITE_OK);
    sqlite3_close(database);
    Result<Workspace> into = Workspace::open(path, Workspace::Mode::ReadWrite);
    ASSERT_TRUE(into.ok());
    const Result<ImportSummary> summary = importTraces({first.path(), second.path()}, *into);
    ASSERT_FALSE(summary.ok());
    EXPECT_THAT(summary.error().text(), HasSubstr("no room"));
    EXPECT_THAT(summary.error().text(), HasSubstr("no_duration"));
    const auto runs = into->runs();
    ASSERT_EQ(runs->size(), 2U);
    EXPECT_EQ((*runs)[0].outcome, RunOutcome::Finished);
    EXPECT_EQ((*runs)[1].outcome, RunOutcome::Failed);
    EXPECT_THAT((*runs)[1].outcome_reason, HasSubstr("no room"));
}

TEST(Import, UnusableFilesAreNamed) {
    RoundTrip trip({TextFile("\x01\x02 binary rubbish", "x.bin").path()});
    ASSERT_FALSE(trip.summary.ok());
    EXPECT_EQ(trip.summary.error().code, ErrorCode::InvalidInput);
    RoundTrip missing({"/nowhere/trace.json"});
    EXPECT_EQ(missing.summary.error().code, ErrorCode::NotFound);
    RoundTrip directory({missing.directory.path()});
    EXPECT_EQ(directory.summary.error().code, ErrorCode::InvalidInput);
    RoundTrip device({"/dev/null"});
    EXPECT_EQ(device.summary.error().code, ErrorCode::InvalidInput);
    EXPECT_THAT(device.summary.error().text(), HasSubstr("no regular file"));
}

}  // namespace
}  // namespace piper::test
