// SPDX-License-Identifier: Apache-2.0
// Truncated and bit-flipped workspace files: no crash, no hang, damage named, the rest readable.
#include <gmock/gmock.h>
#include <sqlite3.h>

#include <fstream>

#include "collectors/store/chunks.h"
#include "collectors/store/workspace.h"
#include "tests/support/paths.h"
#include "tests/support/synthetic_run.h"

namespace piper {
namespace {

using testing::HasSubstr;

/// What a reader got out of a file.
struct Reading {
    bool opened = false;
    bool same = false;
    std::size_t events = 0;
    std::vector<std::string> damage;
    std::string error;
};

class Damage : public testing::Test {
protected:
    using Run = piper::Run;  // not testing::Test::Run()

    Damage() : m_run(test::syntheticRun(3, 4000, 6)) {
        Result<Workspace> w = Workspace::create(file());
        EXPECT_TRUE(w.ok());
        EXPECT_TRUE(w->addRun(m_run).ok());
        EXPECT_TRUE(w->putDocument("plan", "p", std::string(20000, 'x')).ok());
        EXPECT_TRUE(w->close().ok());
        m_bytes = test::readText(file());
    }
    [[nodiscard]] std::filesystem::path file() const { return m_directory.path() / "w.piper"; }

    void write(const std::string& bytes) const {
        std::ofstream(file(), std::ios::binary | std::ios::trunc) << bytes;
    }

    Reading read() {
        Reading out;
        Result<Workspace> w = Workspace::open(file());
        if (!w.ok()) {
            out.error = w.error().text();
            return out;
        }
        out.opened = true;
        const Result<std::vector<RunSummary>> runs = w->runs();
        const Result<Run> run = w->readRun("synthetic");
        const Result<std::string> plan = w->getDocument("plan", "p");
        if (run.ok())
            for (const RankTimeline& rank : run->ranks) out.events += rank.events.size();
        out.same = runs.ok() && run.ok() && test::sameRun(*run, m_run) && plan.ok() &&
                   *plan == std::string(20000, 'x');
        const auto damage = w->check();
        if (damage.ok())
            out.damage = *damage;
        else
            out.error = damage.error().text();
        return out;
    }

    /// The reader noticed: it refused the file, or it named the damage, or nothing it read changed.
    static bool noticed(const Reading& r) {
        return r.same || !r.error.empty() || !r.damage.empty();
    }

    test::TemporaryDirectory m_directory;
    Run m_run;
    std::string m_bytes;
};

TEST_F(Damage, AnIntactFileHasNone) {
    const Reading r = read();
    EXPECT_TRUE(r.opened && r.same);
    EXPECT_THAT(r.damage, testing::IsEmpty());
}

TEST_F(Damage, OfEverySummaryIsFoundByACheck) {
    for (const char* change :
         {"UPDATE row SET count=count+1 WHERE id=(SELECT min(id) FROM row)",
          "UPDATE tile SET end_ns=end_ns+1 WHERE id=(SELECT max(id) FROM tile)",
          "UPDATE tile SET data=x'05' WHERE id=(SELECT min(id) FROM tile)",
          "UPDATE total SET next_ns=next_ns+1 WHERE id=(SELECT max(id) FROM total)",
          "UPDATE total SET data=x'05' WHERE id=(SELECT min(id) FROM total)",
          "UPDATE step_window SET end_ns=end_ns+1 WHERE id=(SELECT max(id) FROM step_window)"}) {
        write(m_bytes);
        sqlite3* database = nullptr;
        ASSERT_EQ(sqlite3_open(file().c_str(), &database), SQLITE_OK);
        EXPECT_EQ(sqlite3_exec(database, change, nullptr, nullptr, nullptr), SQLITE_OK);
        EXPECT_EQ(sqlite3_changes(database), 1) << change;
        sqlite3_close(database);
        const Reading r = read();
        EXPECT_EQ(r.events, 12000U) << change;
        EXPECT_THAT(r.damage, testing::Not(testing::IsEmpty())) << change;
    }
}

TEST_F(Damage, ATruncatedFileGivesWhatIsThereAndSaysSo) {
    write(m_bytes.substr(0, m_bytes.size() / 2));
    const Reading r = read();
    ASSERT_TRUE(r.opened) << r.error;
    EXPECT_FALSE(r.same);
    EXPECT_GT(r.events, 1000U);
    EXPECT_LT(r.events, 12000U);
    ASSERT_FALSE(r.damage.empty());
    EXPECT_THAT(r.damage.front(), HasSubstr("shorter"));
    Result<Workspace> w = Workspace::open(file(), Workspace::Mode::ReadWrite);
    ASSERT_FALSE(w.ok());  // nobody adds to a damaged file
    EXPECT_EQ(w.error().code, ErrorCode::InvalidInput);
    EXPECT_THAT(w.error().text(), HasSubstr("damaged"));
    const Result<Run> run = Workspace::open(file())->readRun("synthetic");
    ASSERT_TRUE(run.ok());
    EXPECT_THAT(run->notes.at("damage"), HasSubstr("chunks of records are intact"));
}

TEST_F(Damage, TwoHundredRandomMutationsAreNoticedAndNeverCrash) {
    std::mt19937 random(42);
    int salvaged = 0, refused = 0;
    for (int round = 0; round < 200; ++round) {
        std::string bytes = m_bytes;
        if (round % 4 == 0) {
            bytes.resize(random() % bytes.size());
        } else {
            for (int flips = 1 << (round % 4); flips > 0; --flips) {
                // Every second one in the first page, where the tables are described.
                const std::size_t range = round % 2 ? bytes.size() : 1024;
                bytes[random() % range] ^= static_cast<char>(1 << random() % 8);
            }
        }
        write(bytes);
        const Reading r = read();
        EXPECT_TRUE(noticed(r)) << "round " << round << ": silent change";
        salvaged += r.opened && !r.same && r.events > 0 ? 1 : 0;
        refused += r.opened ? 0 : 1;
    }
    EXPECT_GT(salvaged, 50);
    EXPECT_GT(refused, 0);
    RecordProperty("salvaged", salvaged);
    RecordProperty("refused", refused);
}

TEST_F(Damage, NumbersThatNoFileCanHoldAreDamage) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &database), SQLITE_OK);
    for (const std::int64_t number : {std::int64_t{-1}, std::int64_t{1} << 60}) {
        const std::int64_t name_sum = Checksum().add(1).add(number).add("x").value();
        const Track track{"t", "p", "h", 0, 0};
        const std::int64_t track_sum = Checksum()
                                           .add(1)
                                           .add(number)
                                           .add(track.name)
                                           .add(track.process)
                                           .add(track.thread)
                                           .add(track.device)
                                           .add(track.stream)
                                           .value();
        const std::string sql = fmt::format(
            "INSERT INTO name(source_id,number,text,checksum) VALUES(1,{0},'x',{1});"
            "INSERT INTO track(source_id,number,name,process,thread,device,stream,checksum) "
            "VALUES(1,{0},'t','p','h',0,0,{2})",
            number, name_sum, track_sum);
        EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
    }
    sqlite3_close(database);
    Result<Workspace> w = Workspace::open(file());
    ASSERT_TRUE(w.ok());
    ASSERT_TRUE(w->readRun("synthetic").ok());
    EXPECT_THAT(w->damage(), testing::Contains(HasSubstr("name -1 of rank 0")));
    EXPECT_THAT(w->damage(), testing::Contains(HasSubstr("track 1152921504606846976 of rank 0")));
}

/// Where the blob of some chunk of events lies in a file.
std::size_t placeOfAChunk(const std::filesystem::path& path, const std::string& bytes) {
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(database, "SELECT data FROM chunk WHERE stream=0 LIMIT 1 OFFSET 5",
                                 -1, &statement, nullptr),
              SQLITE_OK);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
    const std::string start(static_cast<const char*>(sqlite3_column_blob(statement, 0)), 48);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return bytes.find(start);
}

TEST_F(Damage, OneBadChunkCostsOnlyItself) {
    std::string bytes = m_bytes;
    const std::size_t place = placeOfAChunk(file(), bytes);
    ASSERT_NE(place, std::string::npos);
    bytes[place + 20] ^= 0x10;
    write(bytes);
    const Reading r = read();
    ASSERT_TRUE(r.opened);
    EXPECT_GE(r.events, 12000U - 512U);
    EXPECT_FALSE(r.damage.empty());
    const auto timeline = Workspace::openTimeline(file(), "synthetic");
    ASSERT_TRUE(timeline.ok());
    EXPECT_THAT((*timeline)->damage(), testing::IsEmpty()) << "nothing of it was read";
    const Result<TimelineView> view = (*timeline)->view((*timeline)->extent(), 1);
    ASSERT_TRUE(view.ok());
    EXPECT_GT(view->blocks.size(), 10000U);
    EXPECT_THAT((*timeline)->damage(), testing::ElementsAre(HasSubstr("a chunk of rank 0")));
}

TEST_F(Damage, EveryBitOfABlobCounts) {
    std::string blob;
    for (int i = 0; i < 77; ++i) blob.push_back(static_cast<char>(i * 37));
    for (std::size_t size = 0; size <= blob.size(); ++size) {
        const std::string part = blob.substr(0, size);
        const std::int64_t sum = blobChecksum(part);
        for (std::size_t bit = 0; bit < 8 * size; ++bit) {
            std::string other = part;
            other[bit / 8] ^= static_cast<char>(1 << bit % 8);
            EXPECT_NE(blobChecksum(other), sum) << size << " bytes, bit " << bit;
        }
        EXPECT_NE(blobChecksum(part + '\0'), sum);
    }
}

}  // namespace
}  // namespace piper
