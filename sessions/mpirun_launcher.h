// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sessions/launchers.h"

namespace piper {

/// mpirun with our options for `ranks` processes of a program, over `hosts` ("node1:4") when given.
[[nodiscard]] std::vector<std::string> mpirunCommand(std::int64_t ranks,
                                                     const std::vector<std::string>& program,
                                                     const LauncherOptions& options = {});

}  // namespace piper
