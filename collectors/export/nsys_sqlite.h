// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "core/base/result.h"
#include "core/run/run.h"

namespace piper {

/// What the tables of Nsight Systems have no place for: kind of record -> how many were left out.
using LeftOut = std::map<std::string, std::int64_t>;

/// A run as an SQLite file with the tables that `nsys export --type sqlite` makes (schema 3.16.1),
/// for scripts written for those.
///
/// Kernels, copies, sets, synchronisation and runtime calls go to their tables; operations of our
/// own, ranges of the user and of frameworks are NVTX push/pop ranges (eventType 59), instants
/// marks (34). Each rank is a process, each lane or thread a thread of it. Devices are numbered
/// over the file: those of ranks with numberings of their own get the next free numbers. Times are
/// nanoseconds on rank 0's clock, moved so that none is negative.
/// Errors: Io when the file exists or cannot be written; an unfinished one is removed.
[[nodiscard]] Result<LeftOut> exportNsysSqlite(const Run& run, const std::filesystem::path& path);

}  // namespace piper
