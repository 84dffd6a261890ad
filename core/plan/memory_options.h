// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/json_fwd.h"
#include "core/plan/plan.h"

// The parts of the plan file that decide what memory is held for; private to this room.
namespace piper {

/// A null object gives the defaults. Errors: InvalidInput with the key's path.
[[nodiscard]] Result<Recompute> readRecompute(const Json& json, std::string where);
[[nodiscard]] Result<Offload> readOffload(const Json& json, std::string where);
[[nodiscard]] Result<OptimizerChoice> readOptimizer(const Json& json, std::string where);
[[nodiscard]] Result<MemoryReserve> readMemoryReserve(const Json& json, std::string where);

/// Keys at their default are left out where the first format had none.
[[nodiscard]] Json writeRecompute(const Recompute& recompute);
[[nodiscard]] Json writeOffload(const Offload& offload);
[[nodiscard]] Json writeOptimizer(const OptimizerChoice& optimizer);
[[nodiscard]] Json writeMemoryReserve(const MemoryReserve& reserve);

}  // namespace piper
