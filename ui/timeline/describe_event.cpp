// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/describe_event.h"

#include "core/base/enum_text.h"
#include "core/base/units.h"

namespace piper::ui {
namespace {

std::string words(std::string_view name) {
    std::string out(name);
    for (char& c : out)
        if (c == '_') c = ' ';
    return out;
}

std::string indexLine(const Event& e) {
    std::string out = fmt::format("step {}", e.step);
    if (e.layer.valid()) out += fmt::format(" · layer {}", e.layer.value);
    if (e.micro_batch.valid()) out += fmt::format(" · micro-batch {}", e.micro_batch.value);
    if (e.chunk.valid()) out += fmt::format(" · chunk {}", e.chunk.value);
    if (e.model_chunk.valid() && e.model_chunk.value > 0)
        out += fmt::format(" · model chunk {}", e.model_chunk.value);
    return out;
}

}  // namespace

std::vector<std::string> describeEvent(const Event& e, const RankTimeline& rank) {
    const Seconds duration = nanoseconds(static_cast<double>(e.duration_ns));
    std::vector<std::string> out;
    out.push_back(labelText(labelOf(e), rank));
    out.push_back(indexLine(e));
    out.push_back(fmt::format("phase {} · pass {} · {}", words(toText(e.phase)),
                              words(toText(e.pass)), words(toText(e.pipeline_phase))));
    out.push_back(fmt::format("start {} · duration {}",
                              humanSeconds(nanoseconds(static_cast<double>(e.start_ns))),
                              humanSeconds(duration)));
    if (e.bytes > 0) {
        const Bytes moved(static_cast<double>(e.bytes));
        out.push_back(fmt::format("{} · {}", humanBytes(moved),
                                  duration.value > 0 ? humanBytesPerSecond(moved / duration)
                                                     : std::string("no duration")));
    }
    if (e.flops > 0)
        out.push_back(fmt::format("{} · {}", humanFlops(Flops(e.flops)),
                                  duration.value > 0
                                      ? humanFlopsPerSecond(Flops(e.flops) / duration)
                                      : std::string("no duration")));
    if (e.cpu_ns >= 0)
        out.push_back(fmt::format("CPU {} of the thread",
                                  humanSeconds(nanoseconds(static_cast<double>(e.cpu_ns)))));
    return out;
}

std::vector<std::string> describeBlock(const TimelineBlock& block, const RankTimeline& rank) {
    const auto text = [](std::int64_t ns) {
        return humanSeconds(nanoseconds(static_cast<double>(ns)));
    };
    if (block.count <= 1)
        return {labelText(block.label, rank), fmt::format("duration {}", text(block.longest_ns))};
    const double length = static_cast<double>(block.end_ns - block.begin_ns);
    return {fmt::format("{} events in this pixel, busy {:.0f} %; the longest:", block.count,
                        length > 0 ? 100.0 * static_cast<double>(block.busy_ns) / length : 0.0),
            labelText(block.label, rank), fmt::format("duration {}", text(block.longest_ns))};
}

std::string rankText(const RankTimeline& rank) {
    std::string label = fmt::format("rank {}", rank.rank.value);
    if (rank.stage.valid()) label += fmt::format(" · stage {}", rank.stage.value);
    return label;
}

std::string placeText(const TimelineRow& row, const RankTimeline& rank) {
    std::string place = rankText(rank) + " · lane " + rowText(row, rank);
    if (!rank.host.empty()) place += " · " + rank.host;
    return place;
}

}  // namespace piper::ui
