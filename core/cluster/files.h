// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/cluster/cluster.h"

// Shared by the readers of this folder; not for others.
namespace piper {

[[nodiscard]] Result<MeasuredCurves> readCurves(const Json& json, const std::string& where);
[[nodiscard]] Json writeCurves(const MeasuredCurves& curves);

[[nodiscard]] Result<Evidence> readEvidence(const Json& json, const std::string& where,
                                            Evidence fallback);
[[nodiscard]] Json writeEvidence(const Evidence& evidence);

}  // namespace piper
