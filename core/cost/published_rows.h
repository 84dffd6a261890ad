// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/cost/kernel_tables.h"

namespace piper {

/// Rows of one device, library, precision and kind of kernel.
struct PublishedGroup {
    KernelTableKey key;
    std::vector<KernelRow> rows;
};

struct PublishedRows {
    struct Skipped {
        std::int64_t line = 0;
        std::string reason;
    };
    std::vector<PublishedGroup> groups;
    std::vector<Skipped> skipped;
};

/// Reads published kernel times: columns kind, gpu, dtype, batch_or_groups, m, n, k, extra, tflops,
/// peak_tflops, time_us, source in any order (docs/formats.md). A row that says too little is
/// listed with its reason.
/// Errors: InvalidInput for a missing column or no row.
[[nodiscard]] Result<PublishedRows> readPublishedRows(std::string_view csv, std::string_view where);

/// The compiled-in tables as groups.
[[nodiscard]] std::vector<PublishedGroup> compiledRows();

/// How predicted times lie to published ones: |predicted / published - 1|.
struct KernelScore {
    std::int64_t rows = 0;
    double median = 0.0, p90 = 0.0, worst = 0.0;
    double bias = 0.0;    ///< median of predicted / published - 1
    double inside = 0.0;  ///< share of the rows within the stated range
    std::int64_t extrapolated = 0;
};

/// Every shape is predicted from the rows of the other shapes: shapes are dealt into `folds` parts
/// by a hash of their sizes, so all rows of a shape leave together. 2 <= folds.
[[nodiscard]] KernelScore leaveOut(const PublishedGroup& group, std::size_t folds);
/// Predicted as a plan would: the compiled-in table of that device and library, else its die's,
/// else the constants alone.
[[nodiscard]] KernelScore scoreRows(const PublishedGroup& group);
/// The part a shape falls into.
[[nodiscard]] std::size_t foldOf(const KernelShape& shape, std::size_t folds);

/// "gemm H100 SXM trtllm bf16".
[[nodiscard]] std::string describe(const KernelTableKey& key);

}  // namespace piper
