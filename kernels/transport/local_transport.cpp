// SPDX-License-Identifier: Apache-2.0
#include "kernels/transport/local_transport.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace piper {
namespace {

Error nobodyElse(std::int64_t peer) {
    return fail(ErrorCode::InvalidInput, "peer {} does not exist: this world has one rank", peer);
}

class LocalCommunicator final : public Communicator {
public:
    [[nodiscard]] std::int64_t rank() const override { return 0; }
    [[nodiscard]] std::int64_t size() const override { return 1; }
    [[nodiscard]] const std::vector<std::int64_t>& nodes() const override { return m_nodes; }

    Result<std::unique_ptr<PendingTransfer>> send(std::span<const std::byte>, std::int64_t to,
                                                  int) override {
        return nobodyElse(to);
    }
    Result<std::unique_ptr<PendingTransfer>> receive(std::span<std::byte>, std::int64_t from,
                                                     int) override {
        return nobodyElse(from);
    }
    Status allToAllV(std::span<const std::byte> send, std::span<const std::int64_t> send_bytes,
                     std::span<std::byte> recv, std::span<const std::int64_t> recv_bytes) override {
        if (send_bytes.size() != 1 || recv_bytes.size() != 1 || send_bytes[0] != recv_bytes[0])
            return fail(ErrorCode::InvalidInput, "all-to-all of one rank with unequal counts");
        return copy(send.first(static_cast<std::size_t>(send_bytes[0])), recv);
    }
    Status allReduceSum(std::span<float>) override { return {}; }
    Status allReduceSum(std::span<double>) override { return {}; }
    Status allReduceMax(std::span<double>) override { return {}; }
    Status allGather(std::span<const std::byte> send, std::span<std::byte> recv) override {
        return copy(send, recv);
    }
    Status reduceScatterSum(std::span<const float> values, std::span<float> out) override {
        return copy(std::as_bytes(values), std::as_writable_bytes(out));
    }
    Status broadcast(std::span<std::byte>, std::int64_t) override { return {}; }
    Status barrier() override { return {}; }
    [[nodiscard]] const TransportCounters& counters() const override { return m_counters; }

private:
    static Status copy(std::span<const std::byte> from, std::span<std::byte> to) {
        if (to.size() < from.size())
            return fail(ErrorCode::InvalidInput, "{} bytes do not fit into {}", from.size(),
                        to.size());
        if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
        return {};
    }

    std::vector<std::int64_t> m_nodes{0};
    TransportCounters m_counters;
};

class LocalTransport final : public Transport {
public:
    [[nodiscard]] std::string_view name() const override { return "local"; }
    [[nodiscard]] Communicator& world() override { return m_world; }
    Result<std::unique_ptr<Communicator>> makeGroup(const std::vector<RankId>& members) override {
        if (members.size() != 1 || members[0] != RankId(0))
            return fail(ErrorCode::InvalidInput, "a group of {} ranks in a world of one",
                        members.size());
        return std::unique_ptr<Communicator>(std::make_unique<LocalCommunicator>());
    }
    [[noreturn]] void abort(int exit_status) override { std::_Exit(exit_status); }

private:
    LocalCommunicator m_world;
};

}  // namespace

std::unique_ptr<Transport> makeLocalTransport() {
    return std::make_unique<LocalTransport>();
}

}  // namespace piper
