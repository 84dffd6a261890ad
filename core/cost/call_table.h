// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/cost/published_calls.h"

namespace piper {

/// A row of a published table that can't be used, and why.
struct SkippedCall {
    std::int64_t line = 0;  ///< of the text, the header is 1
    std::string reason;
};

struct CallTable {
    std::vector<PublishedCall> calls;
    std::vector<std::int64_t> lines;  ///< [calls]
    std::vector<SkippedCall> skipped;
};

/// A table with the columns library, gpu, nodes, ranks, message_bytes, time_us, algbw, notes and
/// optionally op (else all of it is all-to-all), in any order; others are ignored. What the
/// library's name says decides the kind of call: expert-parallel libraries give tokens and hidden
/// size in notes ("tokens=128 per rank, hidden=7168, top-8"); "cross-rail" and "rail" are per-peer
/// chunks. A row without a time takes it from algbw (GB/s), as the source defines that: nccl-tests
/// size over time; expert-parallel libraries copies of rows over time.
/// Errors: InvalidInput names a missing column.
[[nodiscard]] Result<CallTable> readCallTable(std::string_view csv, std::string_view where);

/// How a group of rows was predicted.
struct CallErrors {
    std::string group;  ///< "all_reduce H100 SXM 8 ranks", "all"
    std::int64_t n = 0;
    double median = 0.0, p90 = 0.0;  ///< of |predicted / published - 1|
    double bias = 0.0;               ///< median of predicted / published - 1
    double low = 0.0, high = 0.0;    ///< published / predicted, 10th and 90th percentile
};

struct CallReport {
    CallErrors all;
    std::vector<CallErrors> groups;  ///< op x device x ranks, in the order of the table
    std::vector<double> predicted;   ///< [calls] seconds
};

/// What falls out together: one row; one size with all its devices and ranks; one curve with all
/// its sizes (so that its device and group size are predicted from others).
enum class LeaveOutBy { Row, Size, Curve };

/// Predicts each call from those not left out with it: a hash of the row, its size or its curve
/// puts each call into one of `parts`, and each part is predicted from the rest. parts 0: from the
/// curves compiled in.
[[nodiscard]] CallReport leaveOut(const std::vector<PublishedCall>& calls, std::int64_t parts,
                                  LeaveOutBy by = LeaveOutBy::Row);

}  // namespace piper
