// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/enum_text.h"
#include "core/base/units.h"
#include "ui/timeline/timeline_source.h"

namespace piper::ui {
namespace {

std::string words(std::string_view name) {
    std::string out(name);
    for (char& c : out)
        if (c == '_') c = ' ';
    return out;
}

bool isCompute(OperationKind kind) {
    return kind == OperationKind::Forward || kind == OperationKind::InputGrad ||
           kind == OperationKind::WeightGrad || kind == OperationKind::Recompute;
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

std::string eventName(const Event& e) {
    if (isCompute(e.kind)) return words(toText(e.phase)) + " " + words(toText(e.kind));
    if (e.kind == OperationKind::Optimizer) return "optimizer";
    if (e.kind == OperationKind::Dispatch || e.kind == OperationKind::Combine)
        return words(toText(e.kind)) + (e.pass == Pass::Forward ? "" : " " + words(toText(e.pass)));
    return words(toText(e.phase)) + " " + words(toText(e.kind));
}

std::vector<std::string> describeEvent(const Event& e) {
    const Seconds duration = nanoseconds(static_cast<double>(e.duration_ns));
    std::vector<std::string> out;
    out.push_back(eventName(e));
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

}  // namespace piper::ui
