// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/run/job_status.h"

namespace piper {

/// Replaces status.json by a rename: a reader sees the old one or the new one. Errors: Io.
[[nodiscard]] Status writeStatus(const std::filesystem::path& job_directory,
                                 const JobStatus& status);

}  // namespace piper
