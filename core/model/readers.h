// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/model/model.h"

// Shared by the readers and checks of this folder; not for others.
namespace piper {

/// More is no model but a slip.
inline constexpr std::int64_t kMaxLayers = 1 << 16;

[[nodiscard]] Result<ModelSpec> readOwnModel(const Json& json, std::string_view where);
[[nodiscard]] Result<ModelSpec> readHuggingFace(const Json& json, std::string_view where);

/// The first of several errors; the hint lists the others.
[[nodiscard]] Status firstError(std::vector<Error> errors, std::string_view where);

/// Before a vector of that many layers is made. Notes an error in `in` when it does not fit.
[[nodiscard]] bool layersFit(ObjectReader& in, std::string_view key, std::int64_t num_layers);

}  // namespace piper
