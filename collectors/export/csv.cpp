// SPDX-License-Identifier: Apache-2.0
#include "collectors/export/csv.h"

#include <ostream>

#include "collectors/export/file_output.h"
#include "core/run/rank_clock.h"

namespace piper {
namespace {

std::string cell(std::int64_t value, bool present) {
    return present ? std::to_string(value) : std::string();
}

/// A text in quotes where it needs them.
std::string csvText(std::string_view text) {
    if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"') out.push_back('"');
        out.push_back(c);
    }
    return out + "\"";
}

std::string trackText(const Event& e, const RankTimeline& rank) {
    const Track* track = rank.trackOf(e);
    if (track == nullptr) return ",,";
    return fmt::format("{},{},{}", csvText(track->name), cell(track->device, track->device >= 0),
                       cell(track->stream, track->stream >= 0));
}

std::string rowText(const Event& e, const RankTimeline& rank, const RankClock& clock) {
    return fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", rank.rank.value,
        rank.stage.value, toText(e.lane), e.step, toText(e.phase), toText(e.kind), toText(e.pass),
        toText(e.pipeline_phase), clock.toCommon(e.start_ns), e.duration_ns,
        cell(e.layer.value, e.layer.valid()), cell(e.micro_batch.value, e.micro_batch.valid()),
        cell(e.chunk.value, e.chunk.valid()), cell(e.model_chunk.value, e.model_chunk.valid()),
        cell(e.operation, e.operation >= 0), e.bytes, e.flops, cell(e.cpu_ns, e.cpu_ns >= 0),
        toText(e.category), csvText(rank.nameOf(e)), trackText(e, rank),
        cell(e.correlation, e.correlation >= 0));
}

}  // namespace

Status writeCsv(const Run& run, std::ostream& out) {
    out << "rank,stage,lane,step,phase,kind,pass,pipeline_phase,start_ns,duration_ns,layer,"
           "micro_batch,chunk,model_chunk,operation,bytes,flops,cpu_ns,category,name,track,device,"
           "stream,correlation\n";
    for (const RankTimeline& rank : run.ranks) {
        const RankClock clock(rank);
        for (const Event& e : rank.events)
            if (!(out << rowText(e, rank, clock))) break;
    }
    out.flush();
    if (!out) return fail(ErrorCode::Io, "writing failed; is the disk full?");
    return {};
}

Status exportCsv(const Run& run, const std::filesystem::path& path) {
    return writeFile(path, [&](std::ostream& out) { return writeCsv(run, out); });
}

}  // namespace piper
