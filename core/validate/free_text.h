// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "core/plan/plan.h"

namespace piper {

// The columns of a measured run that people wrote for people. Each reader takes what it knows in
// any case and order; what says nothing keeps the fallback.

/// True when `word` (lower case) is in the text in any case.
[[nodiscard]] bool mentions(std::string_view text, std::string_view word);
/// The number behind "key=" or "key " in the text: "layers=12; GA=64".
[[nodiscard]] std::optional<double> numberAfter(std::string_view text, std::string_view key);

/// "ZeRO-1(dist-opt)", "FSDP2 shard=8", "FSDP SHARD_GRAD_OP", "none". Errors: InvalidInput.
struct Sharding {
    int zero_stage = 0;
    std::int64_t group = 0;  ///< ranks one copy is sharded over, 0: all
};
[[nodiscard]] Result<Sharding> parseSharding(std::string_view text);
/// "full", "selective", "mla_up_proj+mlp", "selective(op)", "none". Errors: InvalidInput.
[[nodiscard]] Result<Recompute> parseRecompute(std::string_view text);
/// "BF16", "FP8-CS(per-tensor)", "MXFP8", "amp_fp8". Errors: InvalidInput.
[[nodiscard]] Result<Precision> parsePrecision(std::string_view text);
/// "TP userbuffers; P2P; DP grad/param", "none", "EP overlap off; HybridEP". A text that names any
/// of tp, pp or dp turns off those it does not name; ep and cp change only when named.
[[nodiscard]] Overlap parseOverlap(std::string_view text, const Overlap& fallback);
/// "schedule=ZB-2p"; nothing when the text names none. Errors: InvalidInput for an unknown one.
[[nodiscard]] Result<std::optional<ScheduleKind>> parseSchedule(std::string_view text);
/// GB/s a device and direction from "NVLink3 + 4x100Gb RoCE per node", "RDMA 400Gb/s".
[[nodiscard]] std::optional<BytesPerSecond> parseNicRate(std::string_view text,
                                                         std::int64_t devices_per_node);

}  // namespace piper
