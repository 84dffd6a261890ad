// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <iosfwd>

#include "core/base/result.h"
#include "core/run/run.h"

namespace piper {

/// The events of a run, one a row, with a header row; start_ns on rank 0's clock. Indices that an
/// event does not have, and CPU time that was not measured, are empty fields.
/// Errors: Io when the stream fails (full disk).
Status writeCsv(const Run& run, std::ostream& out);
/// The same to a file; an unfinished one is removed.
Status exportCsv(const Run& run, const std::filesystem::path& path);

}  // namespace piper
