// SPDX-License-Identifier: Apache-2.0
// Files of versions whose enumerations have other numbers.
#include <gmock/gmock.h>
#include <sqlite3.h>

#include <numeric>

#include "collectors/store/chunks.h"
#include "collectors/store/workspace.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

using testing::HasSubstr;

class Vocabulary : public testing::Test {
protected:
    Vocabulary() : m_run(test::syntheticRun(2, 9000, 6)) {
        Result<Workspace> w = Workspace::create(file("w.piper"));
        EXPECT_TRUE(w.ok() && w->addRun(m_run).ok() && w->close().ok());
    }
    [[nodiscard]] std::filesystem::path file(const char* name) const {
        return m_directory.path() / name;
    }
    void sql(const std::string& statement) {
        sqlite3* database = nullptr;
        ASSERT_EQ(sqlite3_open(file("w.piper").c_str(), &database), SQLITE_OK);
        EXPECT_EQ(sqlite3_exec(database, statement.c_str(), nullptr, nullptr, nullptr), SQLITE_OK)
            << sqlite3_errmsg(database);
        sqlite3_close(database);
    }
    /// Gives a number of the file another word.
    template <class E>
    void setWord(const char* enumeration, E number, E word) {
        const auto code = static_cast<std::int64_t>(number);
        const std::int64_t sum = Checksum().add(enumeration).add(code).add(toText(word)).value();
        sql(
            fmt::format("UPDATE vocabulary SET word='{}', checksum={} WHERE enumeration='{}' AND "
                        "code={}",
                        toText(word), sum, enumeration, code));
    }
    template <class E>
    void swapWords(const char* enumeration, E a, E b) {
        setWord(enumeration, a, b);
        setWord(enumeration, b, a);
    }

    test::TemporaryDirectory m_directory;
    piper::Run m_run;
};

std::vector<SelectionTotal> allTotals(const std::filesystem::path& path, std::string_view run) {
    const auto timeline = Workspace::openTimeline(path, run);
    EXPECT_TRUE(timeline.ok());
    if (!timeline.ok()) return {};
    std::vector<std::size_t> rows((*timeline)->rows().size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    const TimeWindow extent = (*timeline)->extent();
    auto totals = (*timeline)->totals({extent.begin_ns - 1, extent.end_ns + 1}, rows);
    EXPECT_TRUE(totals.ok());
    EXPECT_TRUE((*timeline)->damage().empty());
    return totals.ok() ? *totals : std::vector<SelectionTotal>();
}

TEST_F(Vocabulary, ARunThatIsCopiedMeansTheSame) {
    swapWords("phase", Phase::Expert, Phase::Dispatch);
    swapWords("lane", Lane::Compute, Lane::Ep);
    swapWords("event_category", EventCategory::Kernel, EventCategory::Memset);
    Result<Workspace> from = Workspace::open(file("w.piper"));
    ASSERT_TRUE(from.ok());
    Result<piper::Run> meant = from->readRun("synthetic");
    ASSERT_TRUE(meant.ok());
    ASSERT_FALSE(test::sameRun(*meant, m_run));
    Result<Workspace> into = Workspace::create(file("copy.piper"));
    ASSERT_TRUE(into.ok());
    const Result<std::int64_t> copied = into->copyRun(*from, "synthetic", "synthetic");
    ASSERT_TRUE(copied.ok()) << copied.error().text();
    EXPECT_TRUE(test::sameRun(*into->readRun("synthetic"), *meant));
    EXPECT_THAT(*into->check(), testing::IsEmpty());
    const auto expected = allTotals(file("w.piper"), "synthetic");
    const auto got = allTotals(file("copy.piper"), "synthetic");
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].name, expected[i].name);
        EXPECT_EQ(got[i].count, expected[i].count);
        EXPECT_EQ(got[i].sum_ns, expected[i].sum_ns);
    }
}

TEST_F(Vocabulary, WordsThatAFileLacksAreAddedBeforeItIsWritten) {
    sql("DELETE FROM vocabulary WHERE enumeration='phase' AND code=" +
        std::to_string(static_cast<int>(Phase::Dispatch)));
    EXPECT_THAT(*Workspace::open(file("w.piper"))->check(), testing::Not(testing::IsEmpty()));
    Result<Workspace> w = Workspace::open(file("w.piper"), Workspace::Mode::ReadWrite);
    ASSERT_TRUE(w.ok()) << w.error().text();
    EXPECT_TRUE(test::sameRun(*w->readRun("synthetic"), m_run));
    EXPECT_THAT(*w->check(), testing::IsEmpty());
}

TEST_F(Vocabulary, NumbersOfAnotherMeaningAreNotWritten) {
    swapWords("phase", Phase::Expert, Phase::Dispatch);
    Result<Workspace> w = Workspace::open(file("w.piper"), Workspace::Mode::ReadWrite);
    ASSERT_FALSE(w.ok());
    EXPECT_EQ(w.error().code, ErrorCode::InvalidInput);
    EXPECT_THAT(w.error().text(), HasSubstr("'dispatch'"));
    EXPECT_THAT(w.error().text(), HasSubstr("piperctl import"));
}

}  // namespace
}  // namespace piper
