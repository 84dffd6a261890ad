// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/json_fwd.h"
#include "core/predict/predict.h"
#include "core/validate/measured_run.h"

namespace piper {

/// A row the model says nothing of, and why.
struct SkippedRow {
    std::size_t line = 0;
    std::string source, model, reason;
    bool unusable = false;  ///< a fault of the table (a bad number, a broken rule), not a gap
};

/// One published run beside what the model says of it.
struct ValidatedRow {
    MeasuredRun run;
    Prediction prediction;
    Flops flops_per_token;   ///< as the source counts
    bool rules_kept = true;  ///< false: a rule of the framework is broken, yet it ran
    std::string broken_rules;
    bool held_out = false;  ///< not among the rows that constants are fitted on

    /// Relative errors, predicted over measured minus 1.
    [[nodiscard]] double timeError() const { return prediction.step / *run.step - 1.0; }
    [[nodiscard]] double memoryError() const { return memory() / *run.memory - 1.0; }
    /// Allocated, or with the allocator's slack where the row reports what it reserved.
    [[nodiscard]] Bytes memory() const {
        const double slack = run.memory_kind == MeasuredMemory::PeakReserved
                                 ? deviceReserve(run.plan).allocator_slack
                                 : 0.0;
        return prediction.memory.peak * (1.0 + slack);
    }
    [[nodiscard]] double flopsError() const { return flops_per_token / *run.flops_per_token - 1.0; }
};

/// Absolute relative errors of one set of rows.
struct ErrorSummary {
    std::int64_t n = 0;
    double median = 0.0, p90 = 0.0;
    double bias = 0.0;  ///< median of the signed errors
};
[[nodiscard]] ErrorSummary summarize(std::vector<double> errors);

/// Rows of one source, model, device, world and batch whose layout differs.
struct OrderTable {
    std::string source, model, gpu;
    std::int64_t world = 0;
    std::int64_t n = 0;
    double kendall_tau = 0.0;
    bool best_in_top3 = false;
    /// Measured time of the row predicted fastest (of several predicted alike: the slowest) over
    /// the table's best, minus 1: what a search over these rows alone would cost.
    double pick_loss = 0.0;
};

struct Validation {
    std::vector<ValidatedRow> rows;
    std::vector<SkippedRow> skipped;
    ErrorSummary time, time_blackwell, memory, memory_other, flops;
    ErrorSummary time_fit, time_held_out;  ///< of the rows of `time`
    std::vector<OrderTable> tables;
    std::int64_t in_scope = 0;  ///< rows with dims, batch and degrees
};

/// Runs fn(0..n-1), in any order, perhaps at once.
using ForEach = std::function<void(std::size_t n, const std::function<void(std::size_t)>& fn)>;

/// Predicts every row of the table (docs/formats.md). Errors: InvalidInput when the table has no
/// usable row or lacks columns; with `for_each` rows are predicted by it.
[[nodiscard]] Result<Validation> validateRuns(std::string_view runs_csv,
                                              const ReferenceTexts& texts,
                                              const ForEach& for_each = {});

/// Tau-b of two orders of the same things; 0 for fewer than two that differ.
[[nodiscard]] double kendallTau(const std::vector<double>& a, const std::vector<double>& b);

/// The document of `piperctl validate --json`.
[[nodiscard]] Json validationJson(const Validation& validation);

}  // namespace piper
