// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/base/result.h"

namespace piper {

/// status.json of a job directory (docs/formats.md).
struct JobStatus {
    std::string state = "starting";
    std::int64_t step = 0, steps = 0;
    double loss = 0.0;
    double tokens_per_second = 0.0;
    std::string message;
};

/// Replaces the file by a rename: a reader sees the old one or the new one. Errors: Io.
[[nodiscard]] Status writeStatus(const std::filesystem::path& job_directory,
                                 const JobStatus& status);

}  // namespace piper
