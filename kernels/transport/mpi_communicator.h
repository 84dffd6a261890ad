// SPDX-License-Identifier: Apache-2.0
#pragma once

#define OMPI_SKIP_MPICXX 1  // the C interface only
#include <mpi.h>

#include <memory>
#include <vector>

#include "kernels/transport/mpi_transport.h"

namespace piper {

/// MPI's return code as a Status that names what was being done.
[[nodiscard]] Status mpiStatus(int code, const char* doing);

/// One MPI communicator. Private to kernels/transport: included by its own sources only.
/// The block of each member in a buffer, in elements.
struct MpiBlocks {
    std::vector<int> counts, offsets;
};

class MpiCommunicator final : public Communicator {
public:
    MpiCommunicator(MPI_Comm comm, std::vector<std::int64_t> nodes,
                    std::shared_ptr<const MpiOptions> options);
    ~MpiCommunicator() override;
    MpiCommunicator(const MpiCommunicator&) = delete;
    MpiCommunicator& operator=(const MpiCommunicator&) = delete;
    /// Frees the communicator now; only before MPI ends.
    void release();

    [[nodiscard]] std::int64_t rank() const override { return m_rank; }
    [[nodiscard]] std::int64_t size() const override { return m_size; }
    [[nodiscard]] const std::vector<std::int64_t>& nodes() const override { return m_nodes; }
    Result<std::unique_ptr<PendingTransfer>> send(std::span<const std::byte> data, std::int64_t to,
                                                  int tag) override;
    Result<std::unique_ptr<PendingTransfer>> receive(std::span<std::byte> data, std::int64_t from,
                                                     int tag) override;
    Status allToAllV(std::span<const std::byte> send, std::span<const std::int64_t> send_bytes,
                     std::span<std::byte> recv, std::span<const std::int64_t> recv_bytes) override;
    Status blockingAllToAllV(std::span<const std::byte> send,
                             std::span<const std::int64_t> send_bytes, std::span<std::byte> recv,
                             std::span<const std::int64_t> recv_bytes) override;
    Status allReduceSum(std::span<float> values) override;
    Status allReduceSum(std::span<double> values) override;
    Status allReduceMax(std::span<double> values) override;
    Status allGather(std::span<const std::byte> send, std::span<std::byte> recv) override;
    Status reduceScatterSum(std::span<const float> values, std::span<float> out) override;
    Status broadcast(std::span<std::byte> data, std::int64_t root) override;
    Status barrier() override;
    [[nodiscard]] const TransportCounters& counters() const override { return m_counters; }
    Status pause(std::int64_t round, std::span<PendingTransfer* const> transfers) override;
#if defined(PIPER_SIMULATED)
    void copied(std::int64_t bytes) override;
#endif

private:
    template <class T>
    Status reduce(std::span<T> values, MPI_Datatype type, MPI_Op operation);
    /// Every rank sums one slice of the values in rank order, then the slices are gathered.
    /// out: the sum of all members' blocks for this one, in the order of ranks.
    template <class T>
    Status sumBlocks(const T* values, const MpiBlocks& blocks, MPI_Datatype type, std::span<T> out,
                     const char* doing);
    template <class T>
    Status reduceInRankOrder(std::span<T> values, MPI_Datatype type);
    [[nodiscard]] Status checkPeer(std::int64_t peer, std::size_t bytes) const;
    [[nodiscard]] Status checkGroupSize(std::size_t sent, std::size_t received) const;
    void count(std::int64_t sent, std::int64_t received, std::int64_t messages);
    [[nodiscard]] bool otherNode(std::int64_t peer) const;
    /// Adds a message to one rank or from it, or an all-to-all's block.
    void countSent(std::int64_t to, std::int64_t bytes);
    void countReceived(std::int64_t from, std::int64_t bytes);
    void countBlocks(std::span<const std::int64_t> send_bytes,
                     std::span<const std::int64_t> recv_bytes);
    Status wait(MPI_Request& request, const char* doing) const;

    MPI_Comm m_comm;
    std::vector<std::int64_t> m_nodes;
    std::shared_ptr<const MpiOptions> m_options;
    std::int64_t m_rank = 0, m_size = 1;
    TransportCounters m_counters;
};

}  // namespace piper
