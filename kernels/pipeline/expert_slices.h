// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "kernels/ops/backend.h"
#include "kernels/pipeline/tensor_group.h"
#include "kernels/transport/transport.h"

namespace piper {

/// The ranks that hold slices of the same experts (etp): each needs the rows that any of them
/// received, and each row's outputs add up over them. Blocking; every rank of the group calls the
/// same at the same place of its program.
class ExpertSlices {
public:
    /// group: null for one rank. Its exchanges are told to `record`.
    ExpertSlices(Communicator* group, Backend& backend, TensorGroup& record);

    [[nodiscard]] bool split() const { return m_size > 1; }
    /// counts of every rank, one after the other.
    [[nodiscard]] Result<std::vector<std::int64_t>> gatherCounts(
        std::span<const std::int64_t> counts);
    /// all [sum of rows] gets the rows of every rank, in rank order; own: this rank's.
    Status spread(ConstMatrix own, std::span<const std::int64_t> rows, Matrix all);
    /// own gets the sum over ranks of their rows for this one in `all`.
    Status collect(ConstMatrix all, std::span<const std::int64_t> rows, Matrix own);

private:
    [[nodiscard]] std::int64_t firstRow(std::span<const std::int64_t> rows,
                                        std::int64_t rank) const;

    Status spreadRows(ConstMatrix own, std::span<const std::int64_t> rows, Matrix all);
    Status collectRows(ConstMatrix all, std::span<const std::int64_t> rows, Matrix own);

    Communicator* m_group;
    Backend& m_backend;
    TensorGroup& m_record;
    std::int64_t m_size = 1, m_rank = 0;
};

}  // namespace piper
