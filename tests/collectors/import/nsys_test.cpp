// SPDX-License-Identifier: Apache-2.0
// Exports as different versions of Nsight Systems write them: tables and columns come and go.
#include <gmock/gmock.h>
#include <sqlite3.h>

#include "tests/collectors/import/import_support.h"

namespace piper::test {
namespace {

using testing::HasSubstr;

constexpr const char* kStrings =
    "CREATE TABLE StringIds(id INTEGER, value TEXT);"
    "INSERT INTO StringIds VALUES(1,'void gemm(int)'),(2,'ncclDevKernel_SendRecv'),(3,'range'),"
    "(4,'cudaLaunchKernel'),(5,'pt_main');";
// Processes 17 and 18; a process id stands in bits 24 to 47.
constexpr const char* kKernels =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, \"end\" INTEGER, deviceId INTEGER,"
    " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER,"
    " shortName INTEGER);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
    "(1000,1100,0,7,1,17*16777216,1,1),(1050,1200,0,9,2,17*16777216,2,2),"
    "(1000,1300,1,7,1,18*16777216,1,1);";

class NsysTest : public testing::Test {
protected:
    void sql(const std::string& text) {
        sqlite3* database = nullptr;
        ASSERT_EQ(sqlite3_open(file().c_str(), &database), SQLITE_OK);
        char* fault = nullptr;
        EXPECT_EQ(sqlite3_exec(database, text.c_str(), nullptr, nullptr, &fault), SQLITE_OK)
            << fault;
        sqlite3_close(database);
    }
    [[nodiscard]] std::filesystem::path file() const { return m_directory.path() / "t.sqlite"; }

    TemporaryDirectory m_directory;
};

TEST_F(NsysTest, ProcessesAreRanksAndKernelsHaveTheirNames) {
    sql(std::string(kStrings) + kKernels +
        "CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT);"
        "INSERT INTO META_DATA_EXPORT VALUES('EXPORT_SCHEMA_VERSION','3.25.0');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INTEGER, \"end\" INTEGER, deviceId INTEGER,"
        " streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind "
        "INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES(1250,1350,0,7,3,17*16777216,4096,1);"
        "CREATE TABLE ENUM_CUDA_MEMCPY_OPER(id INTEGER, name TEXT, label TEXT);"
        "INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES(1,'HTOD','Host-to-Device');"
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, \"end\" INTEGER, globalTid "
        "INTEGER,"
        " correlationId INTEGER, nameId INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES(990,995,17*16777216+42,1,4);"
        "CREATE TABLE ThreadNames(nameId INTEGER, globalTid INTEGER);"
        "INSERT INTO ThreadNames VALUES(5,17*16777216+42);");
    RoundTrip trip({file()});
    const piper::Run run = trip.run();
    ASSERT_EQ(run.ranks.size(), 2U);
    EXPECT_EQ(run.notes.at("nsys_schema"), "3.25.0");
    std::map<std::string, const Event*> by_name;
    for (const Event& e : run.ranks[0].events) by_name[std::string(run.ranks[0].nameOf(e))] = &e;
    ASSERT_TRUE(by_name.contains("memcpy Host-to-Device"));
    EXPECT_EQ(by_name.at("memcpy Host-to-Device")->bytes, 4096);
    ASSERT_TRUE(by_name.contains("cudaLaunchKernel"));
    EXPECT_EQ(by_name.at("cudaLaunchKernel")->correlation, 1);
    EXPECT_THAT(run.ranks[0].trackOf(*by_name.at("cudaLaunchKernel"))->name, HasSubstr("pt_main"));
    EXPECT_EQ(run.ranks[1].offset_ns, 10);  // its first record is 10 ns after rank 0's
    const Json got = trip.statistics();
    EXPECT_EQ(got["kernel_sum_ns"], 550);
    EXPECT_EQ(got["kernel_union_ns"], 500);
    EXPECT_EQ(got["busy_union_ns"], 600);
    EXPECT_EQ(got["gpu_span_ns"], 350);
    EXPECT_EQ(got["idle_in_span_ns"], 50);
    EXPECT_EQ(got["devices"], 2);
    EXPECT_EQ(got["streams"], 3);
    EXPECT_EQ(got["events_total"], 5);
    EXPECT_DOUBLE_EQ(got["overlap_nccl_pct"].get<double>(), 33.3333);
}

TEST_F(NsysTest, RangesOfEveryVersionOfTheirTable) {
    for (const std::string table : {"NVTX_EVENTS", "NVTX_EVENTS_V2", "NVTX_EVENTS_V3"}) {
        std::filesystem::remove(file());
        sql(std::string(kStrings) + "CREATE TABLE " + table +
            "(start INTEGER, \"end\" INTEGER, eventType INTEGER, text TEXT, textId INTEGER,"
            " globalTid INTEGER);"
            "INSERT INTO " +
            table +
            " VALUES(1,9,59,NULL,3,0),(2,3,59,'own',NULL,0),"
            "(4,NULL,34,'mark',NULL,0),(NULL,NULL,33,'category',NULL,0);");
        const Result<ImportedRun> run = importNsys(file());
        ASSERT_TRUE(run.ok()) << run.error().text();
        const RankTimeline& rank = run->run.ranks[0];
        ASSERT_EQ(rank.events.size(), 4U);
        EXPECT_EQ(rank.nameOf(rank.events[0]), "range");
        EXPECT_EQ(rank.events[0].category, EventCategory::Annotation);
        EXPECT_EQ(run->counters.count("schema_version_missing"), 1);
        EXPECT_FALSE(run->counters.lostData());
    }
}

TEST_F(NsysTest, WithoutNamesAndWithoutProcessesKernelsAreStillThere) {
    sql("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, \"end\" INTEGER, deviceId INTEGER,"
        " streamId INTEGER, shortName INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(5,8,0,7,1);"
        "CREATE TABLE OSRT_API(start INTEGER, \"end\" INTEGER, globalTid INTEGER, nameId INTEGER);"
        "INSERT INTO OSRT_API VALUES(1,2,0,1);"
        "CREATE TABLE GPU_METRICS(timestamp INTEGER, value INTEGER);"
        "INSERT INTO GPU_METRICS VALUES(1,2),(2,3);");
    RoundTrip trip({file()});
    EXPECT_EQ(trip.statistics()["kernel_sum_ns"], 3);
    EXPECT_EQ(trip.statistics()["events_total"], 2);
    EXPECT_EQ(trip.summary->counters.count("table_not_read_GPU_METRICS"), 2);
}

TEST_F(NsysTest, DevicesOfTwoNodesStayApartInOneRun) {
    sql(std::string(kStrings) + kKernels);
    const std::filesystem::path other = m_directory.path() / "n1.sqlite";
    std::filesystem::copy_file(file(), other);
    RoundTrip trip({file(), other}, {"both"});
    const piper::Run run = trip.run();
    ASSERT_EQ(run.ranks.size(), 4U);
    const Json got = trip.statistics();
    EXPECT_EQ(got["devices"], 4);
    EXPECT_EQ(got["kernel_union_ns"], 1000);
    EXPECT_EQ(got["same_stream_overlaps"], 0);
    EXPECT_EQ(trip.summary->counters.count("rank_renumbered"), 2);
}

TEST_F(NsysTest, ViewsAreNotRun) {
    sql("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, \"end\" INTEGER, deviceId INTEGER,"
        " streamId INTEGER, shortName INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(5,8,0,7,1);"
        "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE r(start) AS (SELECT 1 UNION ALL SELECT start+1 "
        "FROM r LIMIT 1000) SELECT start, start AS \"end\", 0 AS textId FROM r;");
    const Result<ImportedRun> run = importNsys(file());
    ASSERT_TRUE(run.ok());
    EXPECT_EQ(run->run.ranks[0].events.size(), 1U);
}

TEST_F(NsysTest, TimesAtTheirLimitsAreCounted) {
    sql("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, \"end\" INTEGER, deviceId INTEGER,"
        " streamId INTEGER, shortName INTEGER);"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(5,8,0,7,1),"
        "(-9223372036854775807-1,9223372036854775807,0,7,1),(1,-9223372036854775807-1,0,7,1);");
    const Result<ImportedRun> run = importNsys(file());
    ASSERT_TRUE(run.ok());
    EXPECT_EQ(run->run.ranks[0].events.size(), 1U);
    EXPECT_EQ(run->counters.count("bad_timestamp"), 2);
}

TEST_F(NsysTest, KernelsWithoutAnEndCountAndThoseWithoutAStartAreTold) {
    sql(std::string(kStrings) + kKernels +
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES(1400,NULL,0,7,4,17*16777216,1,1),"
        "(NULL,1500,0,7,5,17*16777216,1,1);");
    RoundTrip trip({file()});
    const Json got = trip.statistics();
    EXPECT_EQ(got["kernels"], 4);
    EXPECT_EQ(got["kernel_sum_ns"], 550);
    EXPECT_EQ(got["gpu_span_ns"], 400);
    EXPECT_EQ(trip.summary->counters.count("no_duration"), 1);
    EXPECT_EQ(trip.summary->counters.count("no_timestamp"), 1);
    EXPECT_TRUE(trip.summary->counters.lostData());
}

TEST_F(NsysTest, OtherDatabasesAndBrokenOnesAreRefused) {
    sql("CREATE TABLE t(a)");
    const Result<ImportedRun> other = importNsys(file());
    ASSERT_FALSE(other.ok());
    EXPECT_EQ(other.error().code, ErrorCode::InvalidInput);
    EXPECT_THAT(other.error().text(), HasSubstr("no export of Nsight Systems"));
    sql("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(begin INTEGER)");
    const Result<ImportedRun> columns = importNsys(file());
    ASSERT_TRUE(columns.ok());
    EXPECT_TRUE(columns->counters.lostData());
    std::ofstream(file(), std::ios::trunc) << "SQLite format 3, or not";
    EXPECT_FALSE(importNsys(file()).ok());
}

}  // namespace
}  // namespace piper::test
