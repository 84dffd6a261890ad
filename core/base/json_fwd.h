// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace piper {

/// Declared only: headers that pass a Json on include this one, sources that read or make one
/// include core/base/json.h.
using Json = nlohmann::ordered_json;

}  // namespace piper
