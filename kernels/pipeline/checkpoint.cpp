// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>

#include "core/base/json.h"
#include "core/base/read_all.h"

namespace piper {
namespace {

namespace fs = std::filesystem;

constexpr std::array kStates{ParameterCopy::Weight, ParameterCopy::FirstMoment,
                             ParameterCopy::SecondMoment};

/// Elements [begin, end), in row-major order, of a piece; its data follow in the file, one state
/// after the other.
struct Record {
    TensorPiece piece;
    std::int64_t begin = 0, end = 0;
    std::streamoff place = 0;  ///< of its data, from the end of the header
    std::size_t file = 0;
};

fs::path rankFile(const fs::path& folder, std::int64_t rank) {
    return folder / fmt::format("rank-{}.ckpt", rank);
}

Json recordJson(const Record& r) {
    return {r.piece.tensor,    r.piece.rows,      r.piece.cols,
            r.piece.first_row, r.piece.first_col, r.piece.full_rows,
            r.piece.full_cols, r.begin,           r.end};
}

/// -1 for a name that is no step-N.
std::int64_t stepOf(const fs::path& folder) {
    const std::string name = folder.filename().string();
    constexpr std::string_view prefix = "step-";
    std::int64_t step = -1;
    if (!name.starts_with(prefix)) return -1;
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data() + prefix.size(), end, step);
    return error == std::errc() && at == end ? step : -1;
}

bool isWhole(const fs::path& folder) {
    std::error_code ignored;
    return fs::exists(folder / "checkpoint.json", ignored);
}

/// Entries of a folder, those that can be read.
std::vector<fs::path> entriesOf(const fs::path& directory) {
    std::vector<fs::path> out;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
        out.push_back(at->path());
    return out;
}

/// Whole checkpoints by step.
std::vector<std::pair<std::int64_t, fs::path>> stepsIn(const fs::path& directory) {
    std::vector<std::pair<std::int64_t, fs::path>> out;
    for (const fs::path& entry : entriesOf(directory))
        if (const std::int64_t step = stepOf(entry); step >= 0 && isWhole(entry))
            out.emplace_back(step, entry);
    std::ranges::sort(out);
    return out;
}

/// Tells `progress`, which may be empty.
Status tell(const CheckpointProgress& progress, const char* doing, const std::string& what) {
    return progress ? progress(fmt::format("{} {}", doing, what)) : Status{};
}

/// Pieces of the entries that this rank writes, and which elements of each.
std::vector<std::pair<const ParameterEntry*, Record>> ownRecords(ParameterStore& store,
                                                                 const RankGroups& groups) {
    std::vector<std::pair<const ParameterEntry*, Record>> out;
    const bool first_slice = groups.tp == nullptr || groups.tp->rank() == 0;
    for (const ParameterEntry& entry : store.entries()) {
        const bool dense = entry.group == ParameterGroup::Dense;
        const Communicator& replicas = dense ? *groups.dp : *groups.edp;
        if (!entry.counted || (entry.replicated && !first_slice)) continue;
        if (!store.sharded(entry.group) && replicas.rank() != 0) continue;
        const ShardRange shard = store.shard(entry.group);
        for (const TensorPiece& piece : entry.pieces) {
            const std::int64_t begin = std::max(piece.offset, shard.begin);
            const std::int64_t end = std::min(piece.offset + piece.size(), shard.end);
            if (begin < end)
                out.emplace_back(&entry,
                                 Record{piece, begin - piece.offset, end - piece.offset, 0, 0});
        }
    }
    return out;
}

Status writeRank(const fs::path& path, StageModel& model, const RankGroups& groups,
                 Backend& backend, const CheckpointProgress& progress) {
    ParameterStore& store = model.parameters();
    const auto records = ownRecords(store, groups);
    Json header = {{"records", Json::array()}};
    for (const auto& [entry, record] : records) header["records"].push_back(recordJson(record));
    const std::string text = header.dump();
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << fmt::format("piper-checkpoint 1 {}\n", text.size()) << text;
    std::vector<float> host;
    for (const auto& [entry, r] : records) {
        PIPER_TRY(tell(progress, "writing the checkpoint's", r.piece.tensor));
        host.resize(static_cast<std::size_t>(r.end - r.begin));
        for (const ParameterCopy state : kStates) {
            const Vector from =
                store.part(state, entry->group, r.piece.offset + r.begin, r.end - r.begin);
            PIPER_TRY(
                backend.copyToHost(std::as_bytes(from), std::as_writable_bytes(std::span(host))));
            out.write(reinterpret_cast<const char*>(host.data()),
                      static_cast<std::streamsize>(host.size() * sizeof(float)));
        }
    }
    out.close();
    if (out) return {};
    return fail(ErrorCode::Io, "cannot write the checkpoint; is the disk full?").at(path.string());
}

Status writeSummary(const fs::path& folder, std::int64_t step, const CheckpointKey& key,
                    std::int64_t updates, std::int64_t ranks) {
    const Json summary = {{"format_version", 1},   {"step", step},
                          {"updates", updates},    {"ranks", ranks},
                          {"seed", key.seed},      {"global_batch_size", key.global_batch_size},
                          {"seq_len", key.seq_len}};
    std::ofstream out(folder / "checkpoint.json", std::ios::trunc);
    out << summary.dump(2) << "\n";
    out.close();
    if (out) return {};
    return fail(ErrorCode::Io, "cannot write the checkpoint").at(folder.string());
}

/// Every rank fails when one does; each keeps its own reason if it has one.
Status agree(Communicator& world, Status own) {
    std::array<double, 1> failed{own.ok() ? 0.0 : 1.0};
    PIPER_TRY(world.allReduceMax(failed));
    if (!own.ok() || failed[0] == 0.0) return own;
    return fail(ErrorCode::Io, "another rank could not write its part of the checkpoint");
}

Status makeFolder(const fs::path& folder) {
    std::error_code error;
    fs::remove_all(folder, error);
    fs::create_directories(folder, error);
    if (!error) return {};
    return fail(ErrorCode::Io, "cannot make the folder: {}", error.message()).at(folder.string());
}

constexpr const char* kPartial = ".partial";
constexpr const char* kReplaced = ".replaced";
constexpr const char* kLatest = "latest";

/// Gives the finished folder its name; one that has the name already goes only when that is done.
Status moveInto(const fs::path& partial, const fs::path& folder) {
    const fs::path replaced = folder.string() + kReplaced;
    std::error_code error, ignored;
    fs::remove_all(replaced, ignored);
    fs::rename(folder, replaced, ignored);
    fs::rename(partial, folder, error);
    if (!error) {
        fs::remove_all(replaced, ignored);
        return {};
    }
    fs::rename(replaced, folder, ignored);
    return fail(ErrorCode::Io, "cannot rename the checkpoint: {}", error.message())
        .at(folder.string());
}

/// Writes `latest` beside its place and renames it, so that it is never half there.
Status nameLatest(const fs::path& directory, const fs::path& folder) {
    const fs::path file = directory / kLatest, partial = file.string() + kPartial;
    std::ofstream out(partial, std::ios::trunc);
    out << folder.filename().string() << "\n";
    out.close();
    std::error_code error;
    if (out) fs::rename(partial, file, error);
    if (out && !error) return {};
    return fail(ErrorCode::Io, "cannot name the latest checkpoint").at(file.string());
}

/// What attempts that ended while they wrote left behind, of steps up to this one.
void removeLeftovers(const fs::path& directory, std::int64_t step) {
    std::error_code ignored;
    for (const fs::path& entry : entriesOf(directory)) {
        if (entry.extension() != kPartial && entry.extension() != kReplaced) continue;
        const std::int64_t of = stepOf(entry.stem());
        if (of >= 0 && of <= step) fs::remove_all(entry, ignored);
    }
}

/// Later steps are of a run that was given up: neither kept for this one's sake nor taken away.
Status publish(const fs::path& directory, const fs::path& partial, const fs::path& folder,
               std::int64_t step, std::int64_t keep) {
    PIPER_TRY(moveInto(partial, folder));
    PIPER_TRY(nameLatest(directory, folder));
    auto steps = stepsIn(directory);
    std::erase_if(steps, [&](const auto& entry) { return entry.first > step; });
    std::error_code ignored;
    while (std::ssize(steps) > keep) {
        fs::remove_all(steps.front().second, ignored);
        steps.erase(steps.begin());
    }
    removeLeftovers(directory, step);
    return {};
}

}  // namespace

Status writeCheckpoint(const fs::path& directory, std::int64_t step, const CheckpointKey& key,
                       StageModel& model, const RankGroups& groups, Communicator& world,
                       Backend& backend, const CheckpointProgress& progress, std::int64_t keep) {
    const fs::path folder = directory / fmt::format("step-{}", step);
    const fs::path partial = folder.string() + kPartial;
    const bool first = world.rank() == 0;
    PIPER_TRY(agree(world, first ? makeFolder(partial) : Status{}));
    Status own = writeRank(rankFile(partial, world.rank()), model, groups, backend, progress);
    if (own.ok() && first) own = writeSummary(partial, step, key, model.updates(), world.size());
    Status all = agree(world, std::move(own));
    if (!all.ok()) {
        std::error_code ignored;
        if (first) fs::remove_all(partial, ignored);
        return all;
    }
    return agree(world, first ? publish(directory, partial, folder, step, keep) : Status{});
}

Result<fs::path> findCheckpoint(const fs::path& path) {
    if (isWhole(path)) return path;
    std::ifstream latest(path / kLatest);
    std::string name;
    std::getline(latest, name);
    if (stepOf(name) >= 0 && isWhole(path / name)) return path / name;
    const auto steps = stepsIn(path);
    if (!steps.empty()) return steps.back().second;
    return fail(ErrorCode::NotFound, "there is no whole checkpoint (step-N) here")
        .at(path.string());
}

namespace {

/// The files of one checkpoint and their records by tensor.
class CheckpointReader {
public:
    static Result<CheckpointReader> open(const fs::path& folder, const CheckpointKey& key);

    [[nodiscard]] std::int64_t step() const { return m_step; }
    [[nodiscard]] std::int64_t updates() const { return m_updates; }
    /// out[state] [piece.size()] of one piece. Errors: InvalidInput names a tensor that is missing.
    Status read(const TensorPiece& piece, std::array<std::vector<float>, 3>& out);

private:
    Status index(const fs::path& path);
    Status indexFile(const fs::path& path);
    /// Copies what the record and the piece share; returns the number of elements.
    Result<std::int64_t> copy(const Record& record, const TensorPiece& piece,
                              std::array<std::vector<float>, 3>& out);

    std::int64_t m_step = 0, m_updates = 0;
    std::vector<std::ifstream> m_files;
    std::vector<std::streamoff> m_data;  ///< where each file's data begin
    std::vector<fs::path> m_paths;
    std::map<std::string, std::vector<Record>> m_records;
};

Result<CheckpointReader> CheckpointReader::open(const fs::path& folder, const CheckpointKey& key) {
    const fs::path summary = folder / "checkpoint.json";
    std::ifstream in(summary);
    if (!in) return fail(ErrorCode::NotFound, "there is no checkpoint").at(folder.string());
    const std::optional<std::string> text = readAll(in);
    if (!text) return fail(ErrorCode::Io, "reading broke off").at(summary.string());
    PIPER_ASSIGN(const Json json, parseJson(*text, summary.string()));
    ObjectReader object(json, summary.string());
    CheckpointReader reader;
    const std::int64_t version = object.integer("format_version");
    reader.m_step = object.integer("step");
    reader.m_updates = object.integer("updates");
    const std::int64_t ranks = object.positiveInt("ranks");
    const CheckpointKey found{static_cast<std::uint64_t>(object.integer("seed")),
                              object.integer("global_batch_size"), object.integer("seq_len")};
    PIPER_TRY(object.finish());
    if (version != 1 || reader.m_step < 0 || reader.m_updates < 0)
        return fail(ErrorCode::InvalidInput,
                    "a checkpoint of version {}, step {}, {} updates; this reads version 1 of what "
                    "was trained",
                    version, reader.m_step, reader.m_updates)
            .at(summary.string());
    if (found != key)
        return fail(ErrorCode::InvalidInput,
                    "the checkpoint is of seed {}, global_batch_size {}, seq_len {}; this run has "
                    "{}, {}, {}: it would see other samples",
                    found.seed, found.global_batch_size, found.seq_len, key.seed,
                    key.global_batch_size, key.seq_len)
            .at(folder.string());
    for (std::int64_t rank = 0; rank < ranks; ++rank)
        PIPER_TRY(reader.index(rankFile(folder, rank)));
    return reader;
}

namespace {

/// The text of a rank's header; the stream stands where its data begin.
Result<std::string> headerText(std::ifstream& in, std::int64_t file_size) {
    std::string word;
    std::int64_t version = 0, size = 0;
    in >> word >> version >> size;
    if (!in || in.get() != '\n' || word != "piper-checkpoint" || version != 1)
        return fail(ErrorCode::InvalidInput, "this is no rank's part of a checkpoint of version 1");
    if (size < 0 || size > file_size)
        return fail(ErrorCode::InvalidInput, "the header names its own {} bytes of a file of {}",
                    size, file_size);
    std::string text(static_cast<std::size_t>(size), '\0');
    in.read(text.data(), size);
    if (in) return text;
    return fail(ErrorCode::InvalidInput, "the file ends inside its header");
}

/// True when [first, first + count) lies in [0, whole) and is not empty.
bool inside(std::int64_t first, std::int64_t count, std::int64_t whole) {
    return first >= 0 && count > 0 && count <= whole && first <= whole - count;
}

/// One record of a header; `room` is how many elements the file can hold.
Result<Record> recordOf(const Json& r, std::int64_t room) {
    const auto number = [](const Json& j) { return j.is_number_integer(); };
    if (!r.is_array() || r.size() != 9 || !r[0].is_string() ||
        !std::all_of(r.begin() + 1, r.end(), number))
        return fail(ErrorCode::InvalidInput,
                    "a record of the header must be a name and eight integers");
    Record record;
    TensorPiece& p = record.piece;
    p.tensor = r[0].get<std::string>();
    std::array<std::int64_t*, 8> fields{&p.rows,      &p.cols,      &p.first_row,  &p.first_col,
                                        &p.full_rows, &p.full_cols, &record.begin, &record.end};
    for (std::size_t i = 0; i < fields.size(); ++i) *fields[i] = r[i + 1].get<std::int64_t>();
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    if (p.full_rows > kMost || p.full_cols > kMost || !inside(p.first_row, p.rows, p.full_rows) ||
        !inside(p.first_col, p.cols, p.full_cols) || record.begin < 0 ||
        record.end < record.begin ||
        !inside(record.begin, record.end - record.begin, p.rows * p.cols) ||
        record.end - record.begin > room)
        return fail(ErrorCode::InvalidInput,
                    "the header's record of {} names elements [{}, {}) of [{}, {}] at ({}, {}) of "
                    "[{}, {}], which is no part of a tensor in this file",
                    p.tensor, record.begin, record.end, p.rows, p.cols, p.first_row, p.first_col,
                    p.full_rows, p.full_cols);
    return record;
}

}  // namespace

Status CheckpointReader::index(const fs::path& path) {
    Status indexed = indexFile(path);
    if (!indexed.ok() && indexed.error().where.empty())
        return std::move(indexed).error().at(path.string());
    return indexed;
}

Status CheckpointReader::indexFile(const fs::path& path) {
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    const std::int64_t size = in ? static_cast<std::int64_t>(in.tellg()) : 0;
    in.seekg(0);
    PIPER_ASSIGN(const std::string text, headerText(in, size));
    const std::int64_t data = in.tellg(), held = size - data;
    PIPER_ASSIGN(const Json header, parseJson(text, path.string()));
    if (!header.is_object() || !header.contains("records") || !header["records"].is_array())
        return fail(ErrorCode::InvalidInput, "the header has no list of records");
    constexpr auto kElement = static_cast<std::int64_t>(kStates.size() * sizeof(float));
    std::int64_t place = 0;
    for (const Json& r : header["records"]) {
        PIPER_ASSIGN(Record record, recordOf(r, (held - place) / kElement));
        record.place = place;
        record.file = m_files.size();
        place += kElement * (record.end - record.begin);
        m_records[record.piece.tensor].push_back(std::move(record));
    }
    if (held != place)
        return fail(ErrorCode::InvalidInput, "the file has {} bytes of data, its header names {}",
                    held, place);
    m_data.push_back(data);
    m_files.push_back(std::move(in));
    m_paths.push_back(path);
    return {};
}

Result<std::int64_t> CheckpointReader::copy(const Record& record, const TensorPiece& piece,
                                            std::array<std::vector<float>, 3>& out) {
    const TensorPiece& have = record.piece;
    const std::int64_t n = record.end - record.begin;
    std::vector<float> data(static_cast<std::size_t>(n));
    std::int64_t copied = 0;
    std::ifstream& file = m_files[record.file];
    file.seekg(m_data[record.file] + record.place);
    for (std::vector<float>& state : out) {
        file.read(reinterpret_cast<char*>(data.data()),
                  static_cast<std::streamsize>(data.size() * sizeof(float)));
        if (!file)
            return fail(ErrorCode::InvalidInput, "the file ends inside {}", have.tensor)
                .at(m_paths[record.file].string());
        copied = 0;
        for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t at = record.begin + i;
            const std::int64_t row = have.first_row + at / have.cols - piece.first_row;
            const std::int64_t col = have.first_col + at % have.cols - piece.first_col;
            if (row < 0 || row >= piece.rows || col < 0 || col >= piece.cols) continue;
            state[static_cast<std::size_t>(row * piece.cols + col)] =
                data[static_cast<std::size_t>(i)];
            ++copied;
        }
    }
    return copied;
}

Status CheckpointReader::read(const TensorPiece& piece, std::array<std::vector<float>, 3>& out) {
    for (std::vector<float>& state : out)
        state.assign(static_cast<std::size_t>(piece.size()), 0.0F);
    const auto found = m_records.find(piece.tensor);
    std::int64_t copied = 0;
    if (found != m_records.end())
        for (const Record& record : found->second) {
            if (record.piece.full_rows != piece.full_rows ||
                record.piece.full_cols != piece.full_cols)
                return fail(ErrorCode::InvalidInput,
                            "{} is [{}, {}] in the checkpoint and [{}, {}] in the plan's model",
                            piece.tensor, record.piece.full_rows, record.piece.full_cols,
                            piece.full_rows, piece.full_cols);
            PIPER_ASSIGN(const std::int64_t part, copy(record, piece, out));
            copied += part;
        }
    if (copied == piece.size()) return {};
    return fail(ErrorCode::InvalidInput, "the checkpoint has {} of {} elements of {}", copied,
                piece.size(), piece.tensor);
}

Status restorePiece(const TensorPiece& piece, const ParameterEntry& entry,
                    const std::array<std::vector<float>, 3>& values, ParameterStore& store,
                    Backend& backend) {
    const ShardRange shard = store.shard(entry.group);
    for (std::size_t i = 0; i < kStates.size(); ++i) {
        const bool whole = kStates[i] == ParameterCopy::Weight;
        const std::int64_t begin = whole ? piece.offset : std::max(piece.offset, shard.begin);
        const std::int64_t end =
            whole ? piece.offset + piece.size() : std::min(piece.offset + piece.size(), shard.end);
        if (begin >= end) continue;
        const auto from = std::span(values[i]).subspan(
            static_cast<std::size_t>(begin - piece.offset), static_cast<std::size_t>(end - begin));
        PIPER_TRY(backend.copyToDevice(
            std::as_bytes(from),
            std::as_writable_bytes(store.part(kStates[i], entry.group, begin, end - begin))));
    }
    return {};
}

}  // namespace

Result<std::int64_t> readCheckpoint(const fs::path& path, const CheckpointKey& key,
                                    StageModel& model, Backend& backend,
                                    const CheckpointProgress& progress) {
    PIPER_ASSIGN(const fs::path folder, findCheckpoint(path));
    PIPER_ASSIGN(CheckpointReader reader, CheckpointReader::open(folder, key));
    std::array<std::vector<float>, 3> values;
    for (const ParameterEntry& entry : model.parameters().entries())
        for (const TensorPiece& piece : entry.pieces) {
            PIPER_TRY(tell(progress, "reading the checkpoint's", piece.tensor));
            Status read = reader.read(piece, values);
            if (!read.ok()) return std::move(read).error().at(folder.string());
            PIPER_TRY(restorePiece(piece, entry, values, model.parameters(), backend));
        }
    model.setUpdates(reader.updates());
    return reader.step();
}

}  // namespace piper
