// SPDX-License-Identifier: Apache-2.0
// A writer that dies in the middle of a commit leaves a journal; readers see the state before it.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "collectors/store/workspace.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

/// Copies `file` and its journal as they are in the middle of a commit that overwrites documents.
void copyInMidCommit(const std::filesystem::path& file, const std::filesystem::path& copy) {
    sqlite3* handle = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &handle), SQLITE_OK);
    const auto execute = [&](const char* sql) {
        ASSERT_EQ(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr), SQLITE_OK)
            << sqlite3_errmsg(handle);
    };
    // A cache of one page spills: the journal is on disk and pages of the file are overwritten.
    execute(
        "PRAGMA journal_mode=DELETE; PRAGMA cache_size=1; PRAGMA cache_spill=1; BEGIN IMMEDIATE");
    execute("UPDATE document SET json = zeroblob(300000)");
    const std::filesystem::path journal = file.string() + "-journal";
    ASSERT_TRUE(std::filesystem::exists(journal));
    std::filesystem::copy_file(file, copy);
    std::filesystem::copy_file(journal, copy.string() + "-journal");
    execute("ROLLBACK");
    sqlite3_close(handle);
}

TEST(Journal, ALeftOneIsPlayedBackForAReader) {
    const test::TemporaryDirectory dir;
    const auto file = dir.path() / "w.piper", copy = dir.path() / "copy.piper";
    const std::string document(200000, 'x');
    {
        Result<Workspace> w = Workspace::create(file);
        ASSERT_TRUE(w.ok());
        ASSERT_TRUE(w->addRun(test::syntheticRun(2, 500, 3)).ok());
        for (const char* name : {"a", "b", "c"})
            ASSERT_TRUE(w->putDocument("plan", name, document).ok());
        ASSERT_TRUE(w->close().ok());
    }
    ASSERT_NO_FATAL_FAILURE(copyInMidCommit(file, copy));
    Result<Workspace> w = Workspace::open(copy);
    ASSERT_TRUE(w.ok()) << w.error().text();
    EXPECT_EQ(w->runs()->size(), 1U);
    EXPECT_EQ(*w->getDocument("plan", "b"), document);
    EXPECT_TRUE(w->check()->empty());
}

}  // namespace
}  // namespace piper
