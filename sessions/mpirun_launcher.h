// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sessions/launcher.h"

namespace piper {

/// Starts ranks with Open MPI's mpirun on the connection's host. A job goes on when the program
/// that launched it ends: a small script in the job directory is its session leader and leaves the
/// exit status behind. The connection must outlive launcher and jobs.
[[nodiscard]] std::unique_ptr<Launcher> makeMpirunLauncher(Connection& connection);

/// mpirun with our options for `ranks` processes of a program on one host.
[[nodiscard]] std::vector<std::string> mpirunCommand(std::int64_t ranks,
                                                     const std::vector<std::string>& program);

/// The job of a directory made by a launcher, also one of an earlier session.
/// Errors: NotFound when the directory holds no job.
[[nodiscard]] Result<std::unique_ptr<Job>> openJob(Connection& connection,
                                                   const std::string& directory);

}  // namespace piper
