// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <iosfwd>

#include "core/base/result.h"
#include "core/run/run.h"

namespace piper {

/// A run as Chrome's trace event JSON, which chrome://tracing, Perfetto and others open.
/// Ranks are processes, lanes and tracks their threads; events are complete ("X") events by their
/// own name or "phase kind", with the categories and arguments that PyTorch's profiler uses, so
/// that importing the file again gives the same kernels, copies, streams and arrows. Memory samples
/// are counter events by term. ts and dur are microseconds with three decimals on
/// rank 0's clock (a rank's offset is added). Written event by event: constant memory.
/// Errors: Io when the stream fails (full disk).
Status writeChromeTrace(const Run& run, std::ostream& out);
/// The same to a file; an unfinished one is removed.
Status exportChromeTrace(const Run& run, const std::filesystem::path& path);

}  // namespace piper
