// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/tensor_group.h"

#include <utility>

namespace piper {

TensorGroup::TensorGroup(Communicator* group, bool sequence_parallel, Backend& backend)
    : m_group(group), m_sequence_parallel(sequence_parallel), m_backend(backend) {
    if (group == nullptr) return;
    m_size = group->size();
    m_rank = group->rank();
}

Status TensorGroup::exchange(Communicator& group, OperationKind kind,
                             const std::function<Status()>& work) {
    // Other backends work behind the host's back; the exchange reads what they made.
    PIPER_TRY(m_backend.synchronize());
    Exchange done{.kind = kind};
    const std::int64_t sent = group.counters().bytes_sent;
    if (m_clock) done.start_ns = m_clock();
    PIPER_TRY(work());
    if (m_clock) done.end_ns = m_clock();
    done.bytes_sent = group.counters().bytes_sent - sent;
    m_exchanges.push_back(done);
    return {};
}

Result<GatheredRows> TensorGroup::gather(ConstMatrix local) {
    if (!splitsRows()) return GatheredRows{Buffer(), local};
    GatheredRows all;
    PIPER_ASSIGN(all.held, m_backend.allocator().allocateFloats(MemoryTerm::CommunicationBuffer,
                                                                m_size * local.size()));
    const Matrix rows = all.held.matrix(m_size * local.rows, local.cols);
    PIPER_TRY(exchange(*m_group, OperationKind::AllGather, [&] {
        return m_group->allGather(std::as_bytes(local.span()), std::as_writable_bytes(rows.span()));
    }));
    all.rows = rows;
    return all;
}

Status TensorGroup::reduce(Matrix partial, Matrix y, Store store) {
    PIPER_CHECK(split() && y.rows == localRows(partial.rows) && y.cols == partial.cols);
    if (!splitsRows()) {
        PIPER_CHECK(store == Store::Accumulate);
        PIPER_TRY(exchange(*m_group, OperationKind::AllReduce,
                           [&] { return m_group->allReduceSum(partial.span()); }));
        return m_backend.add({partial.data, partial.count()}, y.span());
    }
    if (store == Store::Overwrite)
        return exchange(*m_group, OperationKind::ReduceScatter, [&] {
            return m_group->reduceScatterSum({partial.data, partial.count()}, y.span());
        });
    PIPER_ASSIGN(const Buffer own,
                 m_backend.allocator().allocateFloats(MemoryTerm::CommunicationBuffer, y.size()));
    PIPER_TRY(exchange(*m_group, OperationKind::ReduceScatter, [&] {
        return m_group->reduceScatterSum({partial.data, partial.count()}, own.floats());
    }));
    return m_backend.add(own.floats(), y.span());
}

Status TensorGroup::sum(Vector values) {
    if (!split()) return {};
    return exchange(*m_group, OperationKind::AllReduce,
                    [&] { return m_group->allReduceSum(values); });
}

Status TensorGroup::sum(std::span<double> values) {
    if (!split()) return {};
    return exchange(*m_group, OperationKind::AllReduce,
                    [&] { return m_group->allReduceSum(values); });
}

Status TensorGroup::max(std::span<double> values) {
    if (!split()) return {};
    return exchange(*m_group, OperationKind::AllReduce,
                    [&] { return m_group->allReduceMax(values); });
}

std::vector<TensorGroup::Exchange> TensorGroup::takeExchanges() {
    return std::exchange(m_exchanges, {});
}

}  // namespace piper
