// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "collectors/import/import_report.h"
#include "core/base/result.h"
#include "core/run/run.h"

namespace piper {

/// One run as a foreign file holds it. Times of its ranks count from their own first record;
/// RankTimeline::offset_ns brings them onto the file's clock, of which `origin_ns` is the start.
struct ImportedRun {
    Run run;
    std::string format;  ///< "chrome", "nsys", "nccl-tests", ...
    std::int64_t origin_ns = 0;
    std::int64_t world = 0;  ///< ranks of the job the file belongs to, 0: not said
    ImportCounters counters;
};

// One importer a format. Errors of each: InvalidInput when the file holds nothing of the format,
// NotFound and Io. What is broken inside is counted and passed over.

/// Chrome trace events as JSON, gzip-compressed or not: PyTorch's profiler (Kineto) and others.
[[nodiscard]] Result<ImportedRun> importChrome(const std::filesystem::path& path);
/// An SQLite export of NVIDIA Nsight Systems.
[[nodiscard]] Result<ImportedRun> importNsys(const std::filesystem::path& path);
/// The output of nccl-tests: one run a test.
[[nodiscard]] Result<std::vector<ImportedRun>> importNcclTests(const std::filesystem::path& path);
/// A training log of Megatron-LM, DeepSpeed, torchtitan or X-MoE.
[[nodiscard]] Result<ImportedRun> importTrainingLog(const std::filesystem::path& path);
/// A rank profile of the X-MoE planner (docs/formats.md).
[[nodiscard]] Result<ImportedRun> importRankProfile(const std::filesystem::path& path);

/// "trace" of "/a/trace.pt.trace.json.gz".
[[nodiscard]] std::string traceStem(const std::filesystem::path& path);

}  // namespace piper
