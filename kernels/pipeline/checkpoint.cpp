// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>

#include "core/base/json.h"

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

std::vector<std::pair<std::int64_t, fs::path>> stepsIn(const fs::path& directory) {
    std::vector<std::pair<std::int64_t, fs::path>> out;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored))
        if (const std::int64_t step = stepOf(entry.path()); step >= 0)
            out.emplace_back(step, entry.path());
    std::ranges::sort(out);
    return out;
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
                 Backend& backend) {
    ParameterStore& store = model.parameters();
    const auto records = ownRecords(store, groups);
    Json header = {{"records", Json::array()}};
    for (const auto& [entry, record] : records) header["records"].push_back(recordJson(record));
    const std::string text = header.dump();
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << fmt::format("piper-checkpoint 1 {}\n", text.size()) << text;
    std::vector<float> host;
    for (const auto& [entry, r] : records) {
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
    out.flush();
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

Status publish(const fs::path& directory, const fs::path& partial, const fs::path& folder,
               std::int64_t keep) {
    std::error_code error;
    fs::remove_all(folder, error);
    fs::rename(partial, folder, error);
    if (error)
        return fail(ErrorCode::Io, "cannot rename the checkpoint: {}", error.message())
            .at(folder.string());
    auto steps = stepsIn(directory);
    while (std::ssize(steps) > keep) {
        fs::remove_all(steps.front().second, error);
        steps.erase(steps.begin());
    }
    return {};
}

}  // namespace

Status writeCheckpoint(const fs::path& directory, std::int64_t step, const CheckpointKey& key,
                       StageModel& model, const RankGroups& groups, Communicator& world,
                       Backend& backend, std::int64_t keep) {
    const fs::path folder = directory / fmt::format("step-{}", step);
    const fs::path partial = folder.string() + ".partial";
    const bool first = world.rank() == 0;
    PIPER_TRY(agree(world, first ? makeFolder(partial) : Status{}));
    Status own = writeRank(rankFile(partial, world.rank()), model, groups, backend);
    if (own.ok() && first) own = writeSummary(partial, step, key, model.updates(), world.size());
    PIPER_TRY(agree(world, std::move(own)));
    return agree(world, first ? publish(directory, partial, folder, keep) : Status{});
}

Result<fs::path> findCheckpoint(const fs::path& path) {
    if (fs::exists(path / "checkpoint.json")) return path;
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
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    PIPER_ASSIGN(const Json json, parseJson(text, summary.string()));
    ObjectReader object(json, summary.string());
    CheckpointReader reader;
    (void)object.integer("format_version");
    reader.m_step = object.integer("step");
    reader.m_updates = object.integer("updates");
    const std::int64_t ranks = object.positiveInt("ranks");
    const CheckpointKey found{static_cast<std::uint64_t>(object.integer("seed")),
                              object.integer("global_batch_size"), object.integer("seq_len")};
    PIPER_TRY(object.finish());
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

Status CheckpointReader::index(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::string word;
    int version = 0;
    std::size_t size = 0;
    in >> word >> version >> size;
    if (!in || in.get() != '\n' || word != "piper-checkpoint" || version != 1)
        return fail(ErrorCode::InvalidInput, "this is no rank's part of a checkpoint of version 1")
            .at(path.string());
    std::string text(size, '\0');
    in.read(text.data(), static_cast<std::streamsize>(size));
    PIPER_ASSIGN(const Json header, parseJson(text, path.string()));
    std::streamoff place = 0;
    for (const Json& r : header.at("records")) {
        if (!r.is_array() || r.size() != 9)
            return fail(ErrorCode::InvalidInput, "a record has {} fields, not 9", r.size())
                .at(path.string());
        Record record;
        record.piece.tensor = r[0].get<std::string>();
        std::array<std::int64_t*, 8> fields{&record.piece.rows,      &record.piece.cols,
                                            &record.piece.first_row, &record.piece.first_col,
                                            &record.piece.full_rows, &record.piece.full_cols,
                                            &record.begin,           &record.end};
        for (std::size_t i = 0; i < fields.size(); ++i) *fields[i] = r[i + 1].get<std::int64_t>();
        record.place = place;
        record.file = m_files.size();
        place += static_cast<std::streamoff>(kStates.size() * sizeof(float)) *
                 (record.end - record.begin);
        m_records[record.piece.tensor].push_back(std::move(record));
    }
    const std::streamoff data = in.tellg();
    in.seekg(0, std::ios::end);
    if (in.tellg() - data != place)
        return fail(ErrorCode::InvalidInput, "the file has {} bytes of data, its header names {}",
                    static_cast<std::int64_t>(in.tellg() - data), static_cast<std::int64_t>(place))
            .at(path.string());
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
                                    StageModel& model, Backend& backend) {
    PIPER_ASSIGN(const fs::path folder, findCheckpoint(path));
    PIPER_ASSIGN(CheckpointReader reader, CheckpointReader::open(folder, key));
    std::array<std::vector<float>, 3> values;
    for (const ParameterEntry& entry : model.parameters().entries())
        for (const TensorPiece& piece : entry.pieces) {
            Status read = reader.read(piece, values);
            if (!read.ok()) return std::move(read).error().at(folder.string());
            PIPER_TRY(restorePiece(piece, entry, values, model.parameters(), backend));
        }
    model.setUpdates(reader.updates());
    return reader.step();
}

}  // namespace piper
