// SPDX-License-Identifier: Apache-2.0
// Truncated and bit-flipped input of every importer: no crash, no hang, an answer or a reason.
#include <sqlite3.h>

#include <random>

#include "tests/collectors/import/import_support.h"

namespace piper::test {
namespace {

/// Imports `rounds` mutations of a file; returns how many still gave a run.
int mutate(const std::string& whole, const std::string& name, int rounds, unsigned seed) {
    std::mt19937 random(seed);
    const TemporaryDirectory directory;
    const std::filesystem::path path = directory.path() / name;
    int imported = 0;
    for (int round = 0; round < rounds; ++round) {
        std::string bytes = whole;
        if (round % 3 == 0) bytes.resize(random() % bytes.size());
        for (int flips = round % 3; flips > 0 && !bytes.empty(); --flips) {
            const std::size_t at = random() % bytes.size();
            if (round % 2)
                bytes[at] = static_cast<char>(random());
            else
                bytes[at] ^= static_cast<char>(1U << random() % 8);
        }
        std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
        std::error_code ignored;
        std::filesystem::remove(directory.path() / "w.piper", ignored);
        Result<Workspace> into = Workspace::create(directory.path() / "w.piper");
        EXPECT_TRUE(into.ok());
        const Result<ImportSummary> summary = importTraces({path}, *into);
        if (!summary.ok()) {
            EXPECT_FALSE(summary.error().message.empty());
            continue;
        }
        ++imported;
        for (const ImportSummary::Written& w : summary->written) {
            const Result<piper::Run> run = into->readRun(w.run);
            EXPECT_TRUE(run.ok());
            if (run.ok()) (void)deviceStatistics(*run, CommunicationRule::standard());
        }
    }
    return imported;
}

/// Parsers alone, without a workspace file: many more rounds in the same time.
template <class Parse>
void mutateText(const std::string& whole, int rounds, Parse parse) {
    std::mt19937 random(7);
    const TemporaryDirectory directory;
    const std::filesystem::path path = directory.path() / "x";
    for (int round = 0; round < rounds; ++round) {
        std::string bytes = whole;
        if (round % 4 == 0) bytes.resize(random() % bytes.size());
        for (int flips = 1 + round % 8; flips > 0 && !bytes.empty(); --flips)
            bytes[random() % bytes.size()] = static_cast<char>(random());
        std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
        parse(path);
    }
}

TEST(Mutations, OfWholeImports) {
    EXPECT_GT(mutate(readText(traceFile("hta/call_stack__backward_thread.json")), "a.json", 30, 1),
              10);
    EXPECT_GT(
        mutate(readText(traceFile("hta/critical_path__cuda_event_sync__event_sync_trace.json.gz")),
               "b.json.gz", 20, 2),
        1);
    EXPECT_GT(mutate(readText(traceFile("nccl-tests/h100_smoke_N2_G1.log")), "c.log", 20, 3), 10);
}

TEST(Mutations, OfEveryTextParser) {
    mutateText(readText(traceFile("hta/call_stack__backward_thread.json")), 1500,
               [](const auto& path) { (void)importChrome(path); });
    mutateText(readText(traceFile("nccl-tests/h100_smoke_N2_G1.log")), 1000,
               [](const auto& path) { (void)importNcclTests(path); });
    mutateText(
        "iteration 1/ 9 | elapsed time per iteration (ms): 9.5 | lm loss: 1.0E+01 | TFLOPs: 3\n",
        1000, [](const auto& path) { (void)importTrainingLog(path); });
    mutateText(R"({"avg_qkv_gemm": 1.5, "avg_experts_per_layer": 4})", 1000,
               [](const auto& path) { (void)importRankProfile(path); });
}

/// A small export with every kind of column.
std::string exportOfNsys() {
    const TemporaryDirectory directory;
    const std::filesystem::path path = directory.path() / "t.sqlite";
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(
        sqlite3_exec(
            database,
            "PRAGMA page_size=512;"
            "CREATE TABLE StringIds(id INTEGER, value TEXT);"
            "INSERT INTO StringIds VALUES(1,'void gemm(int)'),(2,'ncclDevKernel_SendRecv');"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, \"end\" INTEGER, deviceId "
            "INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName "
            "INTEGER);"
            "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM r LIMIT 100) "
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL "
            "SELECT i*9,i*9+8,i%2,7,i,17*16777216,i%2+1 FROM r;"
            "CREATE TABLE NVTX_EVENTS(start INTEGER, \"end\" INTEGER, text TEXT, globalTid "
            "INTEGER);"
            "INSERT INTO NVTX_EVENTS VALUES(1,9,'range',17*16777216+1),(4,NULL,'mark',0);",
            nullptr, nullptr, nullptr),
        SQLITE_OK);
    sqlite3_close(database);
    return readText(path);
}

TEST(Mutations, OfAnExportOfNsys) {
    mutateText(exportOfNsys(), 600, [](const auto& path) { (void)importNsys(path); });
}

TEST(Mutations, OfAWorkspaceFile) {
    RoundTrip whole({traceFile("hta/call_stack__backward_thread.json")});
    ASSERT_TRUE(whole.summary.ok());
    const std::string path = whole.workspace->path();
    ASSERT_TRUE(whole.workspace->close().ok());
    (void)mutate(readText(path), "w0.piper", 100, 4);
}

TEST(Mutations, OfACompressedTrace) {
    mutateText(readText(traceFile("hta/amd_trace__mi250_minitoy_train_ROCm6_2_kineto.json.gz")),
               300, [](const auto& path) { (void)importChrome(path); });
}

}  // namespace
}  // namespace piper::test
