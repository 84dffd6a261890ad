// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "sessions/launcher.h"

namespace piper {

/// Queues jobs with Slurm's sbatch: one task a rank, devices_per_node tasks a node.
[[nodiscard]] std::unique_ptr<Launcher> makeSbatchLauncher(Connection& connection,
                                                           LauncherOptions options);

}  // namespace piper
