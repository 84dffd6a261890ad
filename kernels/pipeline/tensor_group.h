// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/result.h"
#include "core/run/vocabulary.h"
#include "kernels/ops/allocator.h"
#include "kernels/ops/backend.h"
#include "kernels/transport/transport.h"

namespace piper {

/// Rows that were brought together: a buffer of their own, or the matrix that was there already.
struct GatheredRows {
    Buffer held;
    ConstMatrix rows;
};

/// The ranks that share every layer's matrices (tp), and what they exchange inside a block.
///
/// Without sequence parallelism every rank holds all rows of a hidden state; with it each holds an
/// equal slice of them, in rank order, outside the split matrices. So a block gathers its input,
/// works with its part of the matrices, and sums the ranks' partial outputs: as an all-reduce, or
/// as a reduce-scatter back to slices. The gradient does the same the other way round.
class TensorGroup {
public:
    /// One exchange that happened inside an operation.
    struct Exchange {
        OperationKind kind = OperationKind::AllReduce;
        std::int64_t start_ns = 0, end_ns = 0;
        std::int64_t bytes_sent = 0;
    };

    /// group: null for one rank. allocator's buffers of exchanges count as CommunicationBuffer.
    TensorGroup(Communicator* group, bool sequence_parallel, Backend& backend);

    [[nodiscard]] std::int64_t size() const { return m_size; }
    [[nodiscard]] std::int64_t rank() const { return m_rank; }
    /// Matrices are split.
    [[nodiscard]] bool split() const { return m_size > 1; }
    /// Rows are split too.
    [[nodiscard]] bool splitsRows() const { return split() && m_sequence_parallel; }
    [[nodiscard]] std::int64_t localRows(std::int64_t all) const {
        return splitsRows() ? all / m_size : all;
    }
    /// The first of the rows this rank holds.
    [[nodiscard]] std::int64_t firstRow(std::int64_t all) const {
        return splitsRows() ? m_rank * (all / m_size) : 0;
    }

    /// All rows; `local` itself where this rank holds them all.
    [[nodiscard]] Result<GatheredRows> gather(ConstMatrix local);
    /// y (+)= the sum over ranks of `partial` [all rows], of this rank's rows. Only adds where
    /// every rank holds all rows: to overwrite, sum() in place.
    Status reduce(Matrix partial, Matrix y, Store store);
    /// In place sum over the ranks of what each holds whole.
    Status sum(Vector values);
    Status sum(std::span<double> values);
    Status max(std::span<double> values);

    /// Does `work`, an exchange of `group`, and keeps its time and bytes with the others.
    Status exchange(Communicator& group, OperationKind kind, const std::function<Status()>& work);

    /// Times exchanges from now on.
    void setClock(std::function<std::int64_t()> clock) { m_clock = std::move(clock); }
    /// What was exchanged since the last call.
    [[nodiscard]] std::vector<Exchange> takeExchanges();

private:
    Communicator* m_group;
    bool m_sequence_parallel;
    Backend& m_backend;
    std::int64_t m_size = 1, m_rank = 0;
    std::function<std::int64_t()> m_clock;
    std::vector<Exchange> m_exchanges;
};

}  // namespace piper
