// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "collectors/import/imported.h"
#include "collectors/store/workspace.h"

namespace piper {

struct ImportOptions {
    /// All files become one run of this name, a rank each; empty: see importTraces().
    std::string run_name;
};

struct ImportSummary {
    struct Written {
        std::string run;
        std::string file;
        std::string format;
        std::int64_t events = 0;
    };
    std::vector<Written> written;
    ImportCounters counters;
};

/// Reads traces, logs and workspace files, told apart by what they hold, and adds them to `into`,
/// one file in memory at a time. Each file becomes a run named after it; files of one folder that
/// belong to one job by their own word (same number of ranks, different rank) become one run.
/// Errors: those of the importers and of the workspace; runs of earlier files stay.
[[nodiscard]] Result<ImportSummary> importTraces(const std::vector<std::filesystem::path>& paths,
                                                 Workspace& into,
                                                 const ImportOptions& options = {});

}  // namespace piper
