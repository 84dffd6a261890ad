// SPDX-License-Identifier: Apache-2.0
// Digests: ranks without the events of their long rows, for those who look at a run before its
// traces have come; and runs that go from one file to another as they are stored.
#include <functional>
#include <map>

#include "collectors/store/stored_row.h"
#include "collectors/store/workspace_impl.h"
#include "core/run/coarse_memory.h"
#include "core/run/statistics.h"

namespace piper {

using sqlite::Statement;
using sqlite::Stream;
using sqlite::Transaction;

namespace {

/// Parts of a rank's time of which a digest keeps the memory.
constexpr std::size_t kDigestMoments = 1024;

/// A blob of another file in our numbers; `decode` and `encode` are those of its rows. False when
/// it is damaged or has words that are not known here.
template <class Row, class Decode, class Encode>
bool recode(std::string_view blob, std::int64_t count, const CodeTables& codes, Decode decode,
            Encode encode, std::string& out) {
    std::vector<Row> rows;
    if (!decode(blob, static_cast<std::size_t>(count), codes, rows)) return false;
    out = encode(rows);
    return true;
}

/// Copies rows of a table whose columns are its owner, numbers (the count of rows in the blob
/// last), a checksum and a blob: the owner is another one here, so the checksum is made anew.
class BlobCopy {
public:
    using Recode = std::function<bool(std::string_view blob, std::int64_t count, std::string& out)>;

    /// `columns`: the numbers between owner and checksum. `recode` where the files' words differ.
    BlobCopy(Workspace::Impl& from, Workspace::Impl& to, std::string_view table,
             std::string_view owner, std::string_view columns, int numbers, Recode recode)
        : m_from(from),
          m_to(to),
          m_recode(std::move(recode)),
          m_table(table),
          m_select(
              fmt::format("SELECT {}, checksum, data FROM {} WHERE {}=?", columns, table, owner)),
          m_insert(
              to.database.prepare(fmt::format("INSERT INTO {}({},{},checksum,data) VALUES(?{},?,?)",
                                              table, owner, columns, repeated(",?", numbers)))),
          m_numbers(numbers) {}

    Status copy(std::int64_t owner, std::int64_t new_owner) {
        Status written;
        PIPER_TRY(m_from.query(
            m_table, m_select, [&](Statement& s) { s.bind(owner); },
            [&](const Statement& row) {
                if (written.ok()) written = copyRow(row, owner, new_owner);
            }));
        return written;
    }

private:
    static std::string repeated(std::string_view text, int times) {
        std::string out;
        for (int i = 0; i < times; ++i) out += text;
        return out;
    }

    Status copyRow(const Statement& row, std::int64_t owner, std::int64_t new_owner) {
        std::vector<std::int64_t> numbers = {owner};
        for (int i = 0; i < m_numbers; ++i) numbers.push_back(row.integer(i));
        std::string_view data = row.text(m_numbers + 1);
        std::string own;
        if (numbers.back() < 0 || !isIntact(numbers, data, row.integer(m_numbers)) ||
            (m_recode && !m_recode(data, numbers.back(), own))) {
            m_from.addDamage(fmt::format("a row of table {} is damaged", m_table));
            return {};
        }
        if (m_recode) data = own;
        numbers.front() = new_owner;
        m_insert.reset();
        for (const std::int64_t v : numbers) m_insert.bind(v);
        m_insert.bind(numbersChecksum(numbers, data)).bindBlob(data);
        return done(m_to.database, m_insert);
    }

    Workspace::Impl& m_from;
    Workspace::Impl& m_to;
    Recode m_recode;
    std::string m_table, m_select;
    Statement m_insert;
    int m_numbers;
};

bool hasLongRow(const RankTimeline& rank) {
    std::map<RowKey, std::size_t> rows;
    for (const Event& e : rank.events)
        if (++rows[rowKeyOf(e)] > kWholeInDigest) return true;
    return false;
}

}  // namespace

Result<std::int64_t> Workspace::addDigestRank(std::int64_t run_id, RankTimeline rank) {
    if (rank.steps.empty() || !hasLongRow(rank)) return addWholeRank(run_id, rank);
    rank.step_totals = stepTotals(rank, recordedSteps(rank));
    rank.memory = coarseMemory(rank.memory, kDigestMoments);
    return m_impl->addRecords(run_id, rank, Impl::Records::Digest);
}

Status Workspace::replaceRank(std::string_view run_name, const RankTimeline& rank) {
    PIPER_TRY(m_impl->requireWritable());
    Transaction transaction(m_impl->database);
    PIPER_TRY(transaction.status());
    PIPER_ASSIGN(const RunRow run, m_impl->findRun(run_name));
    PIPER_ASSIGN(const SourceRow source, m_impl->findSource(run_name, rank.rank));
    PIPER_TRY(m_impl->removeRank(source.id));
    std::int64_t id = 0;
    PIPER_TRY(m_impl->insertRank(run.id, rank, id));
    PIPER_TRY(m_impl->insertRecords(id, rank, Impl::Records::Whole));
    return transaction.commit();
}

Result<std::int64_t> Workspace::copyRun(Workspace& from, std::string_view run_name,
                                        std::string_view new_name) {
    PIPER_TRY(m_impl->requireWritable());
    const Snapshot snapshot(from.m_impl->database);
    PIPER_ASSIGN(Run run, from.readWithoutEvents(run_name));
    PIPER_ASSIGN(const RunRow found, from.m_impl->findRun(run_name));
    PIPER_ASSIGN(const std::vector<SourceRow> sources, from.m_impl->sourceRows(found.id));
    run.name = std::string(new_name);
    Transaction transaction(m_impl->database);
    PIPER_TRY(transaction.status());
    std::int64_t run_id = 0;
    PIPER_TRY(m_impl->insertRun(run, run_id));
    for (std::size_t r = 0; r < run.ranks.size(); ++r) {
        std::int64_t id = 0;
        PIPER_TRY(m_impl->insertRank(run_id, run.ranks[r], id));
        PIPER_TRY(m_impl->insertRecords(id, run.ranks[r], Impl::Records::Whole));
        PIPER_TRY(m_impl->copyEvents(*from.m_impl, sources[r], id));
    }
    PIPER_TRY(transaction.commit());
    return run_id;
}

std::int64_t Workspace::Impl::ownLane(std::int64_t lane) const {
    return lane < 0 || lane >= std::ssize(codes.lane) ? -1
                                                      : codes.lane[static_cast<std::size_t>(lane)];
}

Status Workspace::Impl::copyEvents(Impl& from, const SourceRow& source, std::int64_t rank_id) {
    const bool same_words = from.codes.areOwn();
    Statement insert = database.prepare(kInsertChunk);
    Status written;
    std::int64_t copied = 0;
    PIPER_TRY(from.query(
        "chunks of events",
        "SELECT stream, lane, track, sub_lane, begin_ns, end_ns, count, checksum, data FROM chunk "
        "WHERE source_id=? AND stream=0",
        [&](Statement& s) { s.bind(source.id); },
        [&](const Statement& row) {
            if (!written.ok()) return;
            ChunkKey key;
            std::string own;
            bool intact = ChunkKey::read(row, source.id, key);
            if (intact && !same_words) {
                key.lane = from.ownLane(key.lane);
                intact = key.lane >= 0 &&
                         recode<Event>(
                             row.text(8), key.count, from.codes,
                             [](auto&&... a) { return decodeEvents(a...); }, encodeEvents, own);
            }
            if (!intact) {
                from.addDamage(
                    fmt::format("a chunk of rank {} is damaged", source.header.rank.value));
                return;
            }
            key.source = rank_id;
            written = insertChunk(database, insert, key, same_words ? row.text(8) : own);
            ++copied;
        }));
    PIPER_TRY(std::move(written));
    if (copied > 0) {
        Statement update = database.prepare("UPDATE source SET chunks=chunks+? WHERE id=?");
        PIPER_TRY(done(database, update.bind(copied).bind(rank_id)));
    }
    return copySummaries(from, source, rank_id);
}

Status Workspace::Impl::copySummaries(Impl& from, const SourceRow& source, std::int64_t rank_id) {
    PIPER_ASSIGN(const std::vector<StoredRow> rows, from.storedRows(source));
    // An older file's summaries lack what newer ones have; the events are here.
    if (from.version < sqlite::kSchemaVersion && !lacksEvents(rows)) {
        SourceRow copied = source;
        copied.id = rank_id;
        return buildSummaries(copied);
    }
    StepWindows steps;
    PIPER_TRY(from.readSteps(source, steps));
    PIPER_TRY(insertSteps(rank_id, steps));
    BlobCopy::Recode buckets, sums;
    if (!from.codes.areOwn()) {
        buckets = [&](std::string_view blob, std::int64_t count, std::string& out) {
            return recode<Bucket>(blob, count, from.codes, decodeBuckets, encodeBuckets, out);
        };
        sums = [&](std::string_view blob, std::int64_t count, std::string& out) {
            return recode<LabelSums::value_type>(blob, count, from.codes, decodeSums, encodeSums,
                                                 out);
        };
    }
    BlobCopy tiles(from, *this, "tile", "row_id", "level,begin_ns,end_ns,count", 4, buckets);
    BlobCopy totals(from, *this, "total", "row_id", "begin_ns,end_ns,next_ns,count", 4, sums);
    for (StoredRow row : rows) {
        const std::int64_t id = row.id;
        row.source = rank_id;
        row.lane = from.ownLane(row.lane);
        if (row.lane < 0) {
            from.addDamage(fmt::format("a row of rank {} is damaged", source.header.rank.value));
            continue;
        }
        PIPER_TRY(insertRow(row));
        PIPER_TRY(tiles.copy(id, row.id));
        PIPER_TRY(totals.copy(id, row.id));
    }
    return {};
}

}  // namespace piper
