// SPDX-License-Identifier: Apache-2.0
#include "collectors/store/workspace.h"

#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "tests/support/paths.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class WorkspaceTest : public testing::Test {
protected:
    using Run = piper::Run;  // not testing::Test::Run()

    [[nodiscard]] std::filesystem::path file() const { return m_directory.path() / "w.piper"; }

    Workspace make() {
        Result<Workspace> w = Workspace::create(file());
        EXPECT_TRUE(w.ok());
        return std::move(w).value();
    }
    Error openError() {
        Result<Workspace> w = Workspace::open(file());
        EXPECT_FALSE(w.ok());
        return w.ok() ? Error{} : w.error();
    }
    void sql(const char* statement) {
        sqlite3* db = nullptr;
        ASSERT_EQ(sqlite3_open(file().c_str(), &db), SQLITE_OK);
        EXPECT_EQ(sqlite3_exec(db, statement, nullptr, nullptr, nullptr), SQLITE_OK)
            << sqlite3_errmsg(db);
        sqlite3_close(db);
    }

    test::TemporaryDirectory m_directory;
};

TEST_F(WorkspaceTest, ALargeRunComesBackBitEqual) {
    const Run run = test::syntheticRun(4, 25000, 20);
    {
        Workspace w = make();
        ASSERT_TRUE(w.addRun(run).ok());
    }
    Result<Workspace> w = Workspace::open(file());
    ASSERT_TRUE(w.ok()) << w.error().text();
    const Result<Run> back = w->readRun("synthetic");
    ASSERT_TRUE(back.ok()) << back.error().text();
    EXPECT_TRUE(test::sameRun(*back, run));
    EXPECT_TRUE(w->damage().empty());
    EXPECT_TRUE(w->check()->empty());

    const Result<std::vector<RunSummary>> runs = w->runs();
    ASSERT_TRUE(runs.ok());
    ASSERT_EQ(runs->size(), 1U);
    EXPECT_EQ(runs->front().events, 100000);
    EXPECT_EQ(runs->front().ranks, 4);
    EXPECT_EQ(runs->front().steps, 20);
    // A closed file has no companions that could be forgotten in a copy.
    EXPECT_FALSE(std::filesystem::exists(file().string() + "-wal"));
}

TEST_F(WorkspaceTest, GrowsWhileItIsReadAndModelledRunsDifferInOneColumn) {
    Workspace w = make();
    Run header;
    header.name = "live";
    header.outcome = RunOutcome::Running;
    const Result<std::int64_t> run_id = w.beginRun(header);
    ASSERT_TRUE(run_id.ok());
    const RankTimeline part = test::syntheticRank(0, 700, 2, 9);
    const Result<std::int64_t> rank_id = w.addRank(*run_id, part);
    ASSERT_TRUE(rank_id.ok());
    Result<Workspace> reader = Workspace::open(file());
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(reader->runs()->front().events, 0);
    for (int i = 1; i <= 3; ++i) {
        ASSERT_TRUE(w.append(*rank_id, part).ok());
        EXPECT_EQ(reader->runs()->front().events, 700 * i);
        EXPECT_EQ(reader->runs()->front().outcome, RunOutcome::Running);
    }
    ASSERT_TRUE(w.endRun(*run_id, RunOutcome::Failed, "a reason").ok());
    const Result<Run> back = reader->readRun("live");
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->outcome, RunOutcome::Failed);
    EXPECT_EQ(back->outcome_reason, "a reason");
    EXPECT_EQ(back->ranks[0].events.size(), 2100U);
    EXPECT_TRUE(reader->damage().empty());

    Run modelled = test::syntheticRun(1, 10, 1);
    modelled.kind = RunKind::Modelled;
    ASSERT_TRUE(w.addRun(modelled).ok());
    EXPECT_EQ(w.readRun("synthetic")->kind, RunKind::Modelled);
    EXPECT_FALSE(w.append(999, part).ok());
    EXPECT_FALSE(reader->append(*rank_id, part).ok());
}

TEST_F(WorkspaceTest, NamesAreUniqueAndAbsentOnesNameWhatIsThere) {
    Workspace w = make();
    const Run run = test::syntheticRun(1, 600, 1);
    ASSERT_TRUE(w.addRun(run).ok());
    const Result<std::int64_t> twice = w.addRun(run);
    ASSERT_FALSE(twice.ok());
    EXPECT_EQ(twice.error().code, ErrorCode::RuleBroken);
    EXPECT_EQ(*w.freeRunName("synthetic"), "synthetic 2");
    EXPECT_EQ(*w.freeRunName("other"), "other");
    const Result<Run> absent = w.readRun("x");
    ASSERT_FALSE(absent.ok());
    EXPECT_EQ(absent.error().code, ErrorCode::NotFound);
    EXPECT_THAT(absent.error().text(), HasSubstr("synthetic"));
    ASSERT_TRUE(w.removeRun("synthetic").ok());
    EXPECT_TRUE(w.runs()->empty());
    EXPECT_TRUE(w.addRun(run).ok());
    EXPECT_TRUE(test::sameRun(*w.readRun("synthetic"), run));
}

TEST_F(WorkspaceTest, DocumentsByKindAndName) {
    Workspace w = make();
    ASSERT_TRUE(w.putDocument("plan", "a", "{}").ok());
    ASSERT_TRUE(w.putDocument("plan", "b", "{\"x\": 1}").ok());
    ASSERT_TRUE(w.putDocument("cluster", "a", "[]").ok());
    ASSERT_TRUE(w.putDocument("plan", "a", "{\"new\": 2}").ok());
    EXPECT_THAT(*w.documents("plan"), ElementsAre("a", "b"));
    EXPECT_EQ(*w.getDocument("plan", "a"), "{\"new\": 2}");
    EXPECT_EQ(*w.getDocument("cluster", "a"), "[]");
    EXPECT_EQ(w.getDocument("model", "a").error().code, ErrorCode::NotFound);
    EXPECT_TRUE(w.removeDocument("plan", "a").ok());
    EXPECT_EQ(w.removeDocument("plan", "a").error().code, ErrorCode::NotFound);
}

TEST_F(WorkspaceTest, FilesThatAreNotOursAreRefusedWithTheirReason) {
    EXPECT_EQ(openError().code, ErrorCode::NotFound);
    std::ofstream(file()) << "format_version: 1, but this is a text file of some length\n";
    EXPECT_EQ(openError().code, ErrorCode::InvalidInput);
    EXPECT_THAT(openError().text(), HasSubstr("not an SQLite database"));
    EXPECT_THAT(openError().text(), HasSubstr(file().string()));
    std::filesystem::remove(file());
    sql("CREATE TABLE t(a)");
    EXPECT_EQ(openError().code, ErrorCode::InvalidInput);
    EXPECT_THAT(openError().text(), HasSubstr("another program"));
    std::filesystem::remove(file());
    { Workspace w = make(); }
    sql("PRAGMA user_version=0");
    EXPECT_EQ(openError().code, ErrorCode::InvalidInput);
    EXPECT_THAT(openError().text(), HasSubstr("trial version"));
    sql("PRAGMA user_version=7");
    EXPECT_EQ(openError().code, ErrorCode::InvalidInput);
    EXPECT_THAT(openError().text(), HasSubstr("newer version"));
    std::filesystem::remove(file());
    std::filesystem::create_directory(file());
    EXPECT_EQ(openError().code, ErrorCode::InvalidInput);
    EXPECT_FALSE(Workspace::create(file()).ok());
    std::ofstream(m_directory.path() / "plain") << "x";
    const Result<Workspace> below = Workspace::create(m_directory.path() / "plain" / "w.piper");
    ASSERT_FALSE(below.ok());
    EXPECT_EQ(below.error().code, ErrorCode::Io);
}

TEST_F(WorkspaceTest, AFullDiskUndoesTheCallAndKeepsWhatWasCommitted) {
    Workspace w = make();
    Run first = test::syntheticRun(1, 2000, 2);
    first.name = "first";
    ASSERT_TRUE(w.addRun(first).ok());
    const Run second = test::syntheticRun(4, 40000, 2);

    const auto before = std::signal(SIGXFSZ, SIG_IGN);
    rlimit old{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    rlimit small = old;
    small.rlim_cur = 1 << 20;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const Result<std::int64_t> added = w.addRun(second);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    std::signal(SIGXFSZ, before);

    ASSERT_FALSE(added.ok());
    EXPECT_EQ(added.error().code, ErrorCode::Io);
    EXPECT_THAT(added.error().text(), HasSubstr(file().string()));
    EXPECT_TRUE(test::sameRun(*w.readRun("first"), first));
    EXPECT_EQ(w.runs()->size(), 1U);
    // With space again the same object goes on.
    EXPECT_TRUE(w.addRun(second).ok());
    EXPECT_TRUE(test::sameRun(*w.readRun("synthetic"), second));
}

}  // namespace
}  // namespace piper
