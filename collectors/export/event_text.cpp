// SPDX-License-Identifier: Apache-2.0
#include "collectors/export/event_text.h"

#include <fmt/format.h>

#include <cmath>

namespace piper {
namespace {

/// Numbers of rows that are no lane.
constexpr std::int32_t kFirstTrackId = 100;

}  // namespace

std::string nameOf(const Event& e, const RankTimeline& rank) {
    if (const std::string_view own = rank.nameOf(e); !own.empty()) return std::string(own);
    if (e.category != EventCategory::Operation) return std::string(toText(e.category));
    const std::string_view phase = toText(e.phase), kind = toText(e.kind);
    return phase == kind ? std::string(phase) : fmt::format("{} {}", phase, kind);
}

std::string_view categoryOf(const Event& e) {
    switch (e.category) {
        case EventCategory::Operation:
            return toText(e.phase);
        case EventCategory::Memcpy:
            return "gpu_memcpy";
        case EventCategory::Memset:
            return "gpu_memset";
        case EventCategory::Synchronization:
            return "cuda_sync";
        case EventCategory::Runtime:
            return "cuda_runtime";
        case EventCategory::HostOperation:
            return "cpu_op";
        case EventCategory::Annotation:
            return "user_annotation";
        case EventCategory::DeviceAnnotation:
            return "gpu_user_annotation";
        default:
            return toText(e.category);
    }
}

std::vector<EventArgument> argumentsOf(const Event& e, const RankTimeline& rank) {
    std::vector<EventArgument> out;
    const auto whole = [&](std::string_view name, std::int64_t value, bool present = true) {
        if (present) out.push_back({name, value});
    };
    const bool own = e.category == EventCategory::Operation;
    if (own) {
        whole("step", e.step);
        out.push_back({"pass", toText(e.pass)});
        out.push_back({"pipeline_phase", toText(e.pipeline_phase)});
    }
    whole("layer", e.layer.value, e.layer.valid());
    whole("micro_batch", e.micro_batch.value, e.micro_batch.valid());
    whole("chunk", e.chunk.value, e.chunk.valid());
    whole("model_chunk", e.model_chunk.value, e.model_chunk.valid());
    whole(own ? "operation" : "External id", e.operation, e.operation >= 0);
    whole("correlation", e.correlation, !own && e.correlation >= 0);
    if (const Track* track = rank.trackOf(e)) {
        whole("device", track->device, track->device >= 0);
        whole("stream", track->stream, track->stream >= 0);
    }
    whole("bytes", e.bytes, e.bytes != 0);
    whole("cpu_ns", e.cpu_ns, e.cpu_ns >= 0);
    if (e.flops != 0.0 && std::isfinite(e.flops)) out.push_back({"flops", e.flops});
    return out;
}

std::string trackName(const Event& e, const RankTimeline& rank) {
    const Track* track = rank.trackOf(e);
    if (track == nullptr) return std::string(toText(e.lane));
    return track->name.empty() ? fmt::format("track {}", e.track) : track->name;
}

ExportRows::ExportRows(const RankTimeline& rank) : m_rank(rank) {
    for (const Event& e : rank.events) {
        const auto [found, fresh] = m_row_of.try_emplace(keyOf(e), 0);
        if (!fresh) continue;
        ExportRow row;
        row.track = rank.trackOf(e) == nullptr ? -1 : e.track;
        row.name = trackName(e, rank);
        if (const std::uint16_t further = std::get<2>(found->first); further > 0)
            row.name += fmt::format(" (row {})", further + 1);
        found->second = m_rows.size();
        m_rows.push_back(std::move(row));
    }
    // Numbers follow the order of lanes and tracks.
    std::int32_t next = kFirstTrackId;
    for (const auto& [key, index] : m_row_of) {
        const auto& [lane, track, further] = key;
        m_rows[index].id = track < 0 && further == 0 ? static_cast<std::int32_t>(lane) : next++;
    }
}

/// Threads nest their events on one row; streams and lanes have a row for each that overlaps.
ExportRows::Key ExportRows::keyOf(const Event& e) const {
    const Track* track = m_rank.trackOf(e);
    const bool nests = track != nullptr && track->device < 0 && track->stream < 0;
    const std::uint16_t row = nests || e.sub_lane == kMarkRow ? std::uint16_t{0} : e.sub_lane;
    return {track == nullptr ? e.lane : Lane::Stream, track == nullptr ? -1 : e.track, row};
}

const ExportRow& ExportRows::of(const Event& event) const {
    return m_rows[m_row_of.at(keyOf(event))];
}

}  // namespace piper
