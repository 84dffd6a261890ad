// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <map>
#include <string>

#include "core/plan/plan.h"

// Shared by the readers of this folder; not for others.
namespace piper {

/// Keys of Layout, as users write them.
inline constexpr std::array<std::string_view, 8> kDegrees = {"tp",  "sp", "cp",  "pp",
                                                             "vpp", "ep", "etp", "dp"};

/// Degrees that were given, by key of Layout; the others follow.
using GivenDegrees = std::map<std::string, std::int64_t>;

/// "tp=8 pp=8 sp" -> degrees. Errors: InvalidInput for an unknown key or a value below 1.
[[nodiscard]] Result<GivenDegrees> parseDegrees(std::string_view text);
[[nodiscard]] CompletedLayout completeDegrees(const GivenDegrees& given, std::int64_t world,
                                              Framework framework);

/// The chunks of a pipeline layout string before its ends are checked, and what is wrong with them.
[[nodiscard]] Result<std::vector<PipelineChunk>> splitPipelineLayout(std::string_view text);
[[nodiscard]] std::vector<Error> pipelineLayoutFaults(const std::vector<PipelineChunk>& chunks,
                                                      std::string_view text);
/// Whether the chunk before the last holds the multi-token prediction layers alone and the last one
/// the loss alone ("...t|m|L"): nothing else can stand there when both have no layer.
[[nodiscard]] bool predictionHasOwnChunk(const std::vector<std::int64_t>& stage_layers);

}  // namespace piper
