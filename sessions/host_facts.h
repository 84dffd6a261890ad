// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/base/result.h"
#include "core/base/units.h"
#include "sessions/connection.h"

namespace piper {

/// What a host says of itself; what could not be found out says so in words.
struct HostFacts {
    std::string host;
    std::string system;
    std::string processor;
    std::int64_t processors = 0;
    Bytes memory;
    std::map<std::string, std::string> programs;  ///< "mpirun" -> version, or "not found"
};

/// Asks the host with programs every Linux has. Errors: those of the connection.
[[nodiscard]] Result<HostFacts> discoverHost(Connection& connection);

}  // namespace piper
