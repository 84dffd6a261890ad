// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index.h"
#include "core/base/result.h"

namespace piper {

/// Payload a rank handed to the transport for other ranks; counted at each call from its arguments,
/// never from the schedule. Rows a rank keeps for itself are not counted.
struct TransportCounters {
    std::int64_t bytes_sent = 0;
    std::int64_t messages_sent = 0;
    std::int64_t bytes_received = 0;
    /// Of what was sent: messages and all-to-all blocks to ranks of other nodes.
    std::int64_t inter_node_messages = 0;
    std::int64_t inter_node_bytes = 0;
    std::int64_t inter_node_bytes_received = 0;
};

/// A non-blocking operation under way. Destroying it waits for it.
class PendingTransfer {
public:
    virtual ~PendingTransfer() = default;
    /// Gives the engine a chance to move on; true when done.
    [[nodiscard]] virtual bool test() = 0;
    virtual Status wait() = 0;
};

/// A set of ranks that exchange with each other (one process group of the plan's grids).
/// All members call the same collective in the same order. Buffers are host memory for the CPU
/// backend and device memory for the CUDA one; sizes in bytes or elements as said.
class Communicator {
public:
    virtual ~Communicator() = default;

    [[nodiscard]] virtual std::int64_t rank() const = 0;  ///< in this group
    [[nodiscard]] virtual std::int64_t size() const = 0;
    /// Node index of each member, as the launcher told it (not from boot ids): [size].
    [[nodiscard]] virtual const std::vector<std::int64_t>& nodes() const = 0;

    [[nodiscard]] virtual Result<std::unique_ptr<PendingTransfer>> send(
        std::span<const std::byte> data, std::int64_t to, int tag) = 0;
    [[nodiscard]] virtual Result<std::unique_ptr<PendingTransfer>> receive(
        std::span<std::byte> data, std::int64_t from, int tag) = 0;

    /// Bytes per destination and source: spans of [size]; zero counts are legal.
    virtual Status allToAllV(std::span<const std::byte> send,
                             std::span<const std::int64_t> send_bytes, std::span<std::byte> recv,
                             std::span<const std::int64_t> recv_bytes) = 0;
    /// The engine's own blocking all-to-all (MPI_Alltoallv), what a program without this library
    /// would call; it may spin while it waits.
    virtual Status blockingAllToAllV(std::span<const std::byte> send,
                                     std::span<const std::int64_t> send_bytes,
                                     std::span<std::byte> recv,
                                     std::span<const std::int64_t> recv_bytes) {
        return allToAllV(send, send_bytes, recv, recv_bytes);
    }
    /// In place sum over the group: of many values in rank order, of few where deterministic() is
    /// set.
    virtual Status allReduceSum(std::span<float> values) = 0;
    virtual Status allReduceSum(std::span<double> values) = 0;
    virtual Status allReduceMax(std::span<double> values) = 0;
    /// recv is [size * send.size()], in rank order.
    virtual Status allGather(std::span<const std::byte> send, std::span<std::byte> recv) = 0;
    /// values [size * out.size()]; out is this rank's summed part.
    virtual Status reduceScatterSum(std::span<const float> values, std::span<float> out) = 0;
    virtual Status broadcast(std::span<std::byte> data, std::int64_t root) = 0;
    virtual Status barrier() = 0;

    [[nodiscard]] virtual const TransportCounters& counters() const = 0;

    /// Between two rounds of tests of transfers of this group: lets others run at first, sleeps for
    /// longer and longer after that; may come back as soon as one is done.
    /// Errors: the wait was interrupted.
    virtual Status pause(std::int64_t round, std::span<PendingTransfer* const> transfers) {
        (void)round;
        (void)transfers;
        return {};
    }
    /// A rank copied so many bytes of its own memory beside an exchange: simulated time passes.
    virtual void copied(std::int64_t bytes) { (void)bytes; }
};

/// The process's place in the world and the maker of its groups.
class Transport {
public:
    virtual ~Transport() = default;
    [[nodiscard]] virtual std::string_view name() const = 0;  ///< "mpi", "nccl", "cuda_ipc"
    [[nodiscard]] virtual Communicator& world() = 0;
    /// Collective over the members (each names the same ranks of the world, in group order).
    [[nodiscard]] virtual Result<std::unique_ptr<Communicator>> makeGroup(
        const std::vector<RankId>& members) = 0;
    /// Ends every rank of the world at once.
    [[noreturn]] virtual void abort(int exit_status) = 0;
};

}  // namespace piper
