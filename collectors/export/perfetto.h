// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <iosfwd>

#include "core/base/result.h"
#include "core/run/run.h"

namespace piper {

/// A run as Perfetto's protobuf trace, for ui.perfetto.dev and trace_processor.
///
/// Ranks are processes; each lane and track is a track of its rank, with a further one for events
/// that overlap (on a stream or a lane) or are not nested (on a thread). Names, categories and
/// names of arguments are interned. Arrows are flows between instants, unique to their rank; memory
/// samples and counters are counter tracks. Times are nanoseconds on rank 0's clock, moved so that
/// none is negative. Written packet by packet: memory for one rank's order of events.
/// Errors: Io when the stream fails (full disk).
Status writePerfetto(const Run& run, std::ostream& out);
/// The same to a file; an unfinished one is removed.
Status exportPerfetto(const Run& run, const std::filesystem::path& path);

}  // namespace piper
