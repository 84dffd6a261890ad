// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sessions/launcher.h"

namespace piper {

/// The launcher of a name: "mpirun" over the hosts given, "srun" inside an allocation, "sbatch".
/// The connection must outlive launcher and jobs.
/// Errors: those of checkLauncher.
[[nodiscard]] Result<std::unique_ptr<Launcher>> makeLauncher(std::string_view name,
                                                             Connection& connection,
                                                             const LauncherOptions& options);

/// Errors: InvalidInput for an unknown launcher, an odd host, interface, account, partition,
/// time limit or line.
Status checkLauncher(std::string_view name, const LauncherOptions& options);

/// Errors: InvalidInput for what is no host name or address.
Status checkHostName(std::string_view host);

/// The job of a directory made by any launcher, also one of an earlier session.
/// Errors: NotFound when the directory holds no job.
[[nodiscard]] Result<std::unique_ptr<Job>> openJob(Connection& connection,
                                                   const std::string& directory);

}  // namespace piper
