// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/schedule.h"

namespace piper {

std::string describe(const Operation& operation) {
    std::string text(toText(operation.key.kind));
    const std::string_view phase = toText(operation.key.phase);
    if (phase != text) text += fmt::format(" {}", phase);
    if (operation.key.shared_expert) text += " (shared)";
    // Gradients and the optimizer say it by their kind; what exists in every pass names it.
    if (isCommunication(operation.key.phase) && operation.key.pass != Pass::Forward)
        text += operation.key.pass == Pass::Backward ? " backward" : " recompute";
    if (operation.layer.valid()) text += fmt::format(" layer {}", operation.layer.value);
    if (operation.chunk.valid()) text += fmt::format(" chunk {}", operation.chunk.value);
    if (operation.micro_batch.valid())
        text += fmt::format(" micro-batch {}", operation.micro_batch.value);
    if (operation.model_chunk.value > 0)
        text += fmt::format(" model chunk {}", operation.model_chunk.value);
    if (operation.peer.valid())
        text +=
            fmt::format(" {} stage {}", operation.key.kind == OperationKind::Send ? "to" : "from",
                        operation.peer.value);
    return text;
}

}  // namespace piper
