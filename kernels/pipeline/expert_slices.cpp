// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/expert_slices.h"

#include <numeric>

namespace piper {
namespace {

constexpr int kSpreadTag = 1, kCollectTag = 2;

std::span<const std::byte> bytesOf(ConstMatrix x) {
    return std::as_bytes(x.span());
}
std::span<std::byte> bytesOf(Matrix x) {
    return std::as_writable_bytes(x.span());
}

Status waitAll(std::vector<std::unique_ptr<PendingTransfer>>& transfers) {
    for (const auto& transfer : transfers) PIPER_TRY(transfer->wait());
    return {};
}

}  // namespace

ExpertSlices::ExpertSlices(Communicator* group, Backend& backend, TensorGroup& record)
    : m_group(group), m_backend(backend), m_record(record) {
    if (group == nullptr) return;
    m_size = group->size();
    m_rank = group->rank();
}

std::int64_t ExpertSlices::firstRow(std::span<const std::int64_t> rows, std::int64_t rank) const {
    return std::accumulate(rows.begin(), rows.begin() + rank, std::int64_t{0});
}

Result<std::vector<std::int64_t>> ExpertSlices::gatherCounts(std::span<const std::int64_t> counts) {
    std::vector<std::int64_t> all(counts.size() * static_cast<std::size_t>(m_size));
    PIPER_TRY(m_group->allGather(std::as_bytes(counts), std::as_writable_bytes(std::span(all))));
    return all;
}

Status ExpertSlices::spread(ConstMatrix own, std::span<const std::int64_t> rows, Matrix all) {
    return m_record.exchange(*m_group, OperationKind::AllGather,
                             [&] { return spreadRows(own, rows, all); });
}

Status ExpertSlices::collect(ConstMatrix all, std::span<const std::int64_t> rows, Matrix own) {
    return m_record.exchange(*m_group, OperationKind::ReduceScatter,
                             [&] { return collectRows(all, rows, own); });
}

Status ExpertSlices::spreadRows(ConstMatrix own, std::span<const std::int64_t> rows, Matrix all) {
    std::vector<std::unique_ptr<PendingTransfer>> transfers;
    for (std::int64_t rank = 0; rank < m_size; ++rank) {
        const Matrix part = all.slice(firstRow(rows, rank), rows[static_cast<std::size_t>(rank)]);
        if (rank == m_rank) {
            PIPER_TRY(m_backend.copyRows(own, part));
            continue;
        }
        PIPER_ASSIGN(auto receive, m_group->receive(bytesOf(part), rank, kSpreadTag));
        transfers.push_back(std::move(receive));
    }
    for (std::int64_t step = 1; step < m_size; ++step) {
        PIPER_ASSIGN(auto send, m_group->send(bytesOf(own), (m_rank + step) % m_size, kSpreadTag));
        transfers.push_back(std::move(send));
    }
    return waitAll(transfers);
}

Status ExpertSlices::collectRows(ConstMatrix all, std::span<const std::int64_t> rows, Matrix own) {
    std::vector<Buffer> parts(static_cast<std::size_t>(m_size));
    std::vector<std::unique_ptr<PendingTransfer>> transfers;
    for (std::int64_t rank = 0; rank < m_size; ++rank) {
        if (rank == m_rank) continue;
        Buffer& part = parts[static_cast<std::size_t>(rank)];
        PIPER_ASSIGN(part, m_backend.allocator().allocateFloats(MemoryTerm::CommunicationBuffer,
                                                                own.size()));
        PIPER_ASSIGN(auto receive, m_group->receive(part.as<std::byte>(), rank, kCollectTag));
        transfers.push_back(std::move(receive));
    }
    for (std::int64_t step = 1; step < m_size; ++step) {
        const std::int64_t to = (m_rank + step) % m_size;
        PIPER_ASSIGN(auto send,
                     m_group->send(
                         bytesOf(all.slice(firstRow(rows, to), rows[static_cast<std::size_t>(to)])),
                         to, kCollectTag));
        transfers.push_back(std::move(send));
    }
    PIPER_TRY(waitAll(transfers));
    // In rank order, so that every run adds alike.
    PIPER_TRY(m_backend.fill(own.span(), 0.0F));
    for (std::int64_t rank = 0; rank < m_size; ++rank) {
        const ConstMatrix mine = all.slice(firstRow(rows, m_rank), own.rows);
        const Buffer& part = parts[static_cast<std::size_t>(rank)];
        PIPER_TRY(
            m_backend.add(rank == m_rank ? mine.span() : ConstVector(part.floats()), own.span()));
    }
    return {};
}

}  // namespace piper
