// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/base/json_fwd.h"
#include "sessions/host_facts.h"

namespace piper::app {

[[nodiscard]] Json hostFactsJson(const HostFacts& facts);
[[nodiscard]] std::string hostFactsText(const HostFacts& facts);

}  // namespace piper::app
