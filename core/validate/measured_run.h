// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/csv.h"
#include "core/plan/plan.h"
#include "core/validate/profiles.h"
#include "core/validate/tables.h"

namespace piper {

enum class MeasuredMemory { PeakAllocated, PeakReserved, Other };

/// One published run as a plan, and what was published of it.
struct MeasuredRun {
    std::size_t line = 0;  ///< of the file
    std::string source, model, gpu, notes;
    const SourceProfile* profile = nullptr;
    Plan plan;
    /// Values the row lacks and the source's profile gave ("recompute none").
    std::vector<std::string> assumed;
    bool full_layout = true;  ///< false: the profile assumed the micro-batch size
    bool lora = false;        ///< only adapters are trained
    bool other_gate = false;  ///< experts gate with another function than SiLU

    std::optional<Seconds> step;           ///< published, or derived from what is
    std::string step_from;                 ///< "step_s", "tokens_s_gpu", "tflops_per_gpu", "mfu"
    std::optional<Flops> flops_per_token;  ///< published TFLOP/s over tokens/s
    std::optional<Bytes> memory;
    MeasuredMemory memory_kind = MeasuredMemory::Other;
    bool memory_unit_known = false;
};

/// FLOPs of one token as the source counts them.
[[nodiscard]] Flops countedFlopsPerToken(const MeasuredRun& run);

/// Reads one row. Errors: InvalidInput with the column for what is missing or no number;
/// Unsupported for what the tables mark out of scope.
[[nodiscard]] Result<MeasuredRun> readMeasuredRun(const CsvTable& table, std::size_t row,
                                                  const ReferenceTables& tables);

/// Layers of each stage chunk where they do not divide, as NVIDIA's recipes split them: the last
/// chunk has as many fewer as make the others even, one (for the loss) or three (for multi-token
/// prediction too); with two left over, or where the last has not so many, the first has one fewer
/// as well (account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split).
[[nodiscard]] std::vector<std::int64_t> unevenStageLayers(std::int64_t num_layers,
                                                          std::int64_t chunks);

}  // namespace piper
