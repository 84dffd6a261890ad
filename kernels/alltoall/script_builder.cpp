// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/script_builder.h"

#include <algorithm>

namespace piper {
namespace {

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}
std::span<const std::byte> readable(const std::byte* data, std::int64_t bytes) {
    return {data, at(bytes)};
}
std::span<std::byte> writable(std::byte* data, std::int64_t bytes) {
    return {data, at(bytes)};
}

}  // namespace

ScriptBuilder::ScriptBuilder(const ExchangeTopology& topology, std::int64_t rank,
                             const ExchangeRoute& route, std::int64_t row_bytes,
                             TaggedAllocator& allocator)
    : m_topology(topology),
      m_rank(rank),
      m_route(route),
      m_row_bytes(row_bytes),
      m_allocator(allocator) {
    std::int64_t outer = 0, inner = 0;
    for (std::int64_t peer = 0; peer < topology.size(); ++peer) {
        m_outer_offset.push_back(outer);
        m_inner_offset.push_back(inner);
        outer += outerBytes(peer);
        inner += innerBytes(peer);
    }
}

std::int64_t ScriptBuilder::outerBytes(std::int64_t rank) const {
    return m_route.send_rows[at(rank)] * m_row_bytes;
}
std::int64_t ScriptBuilder::innerBytes(std::int64_t rank) const {
    return m_route.recv_rows[at(rank)] * m_row_bytes;
}
std::int64_t ScriptBuilder::relayedBytes(std::size_t source, std::size_t member) const {
    const std::size_t members = m_topology.members(m_topology.node(m_rank)).size();
    return m_route.relayed_rows[source * members + member] * m_row_bytes;
}
std::int64_t ScriptBuilder::innerBytesFrom(const std::vector<std::int64_t>& sources) const {
    std::int64_t sum = 0;
    for (const std::int64_t s : sources) sum += innerBytes(s);
    return sum;
}
std::int64_t ScriptBuilder::outerBytesTo(const std::vector<std::int64_t>& ranks) const {
    std::int64_t sum = 0;
    for (const std::int64_t d : ranks) sum += outerBytes(d);
    return sum;
}

Result<std::byte*> ScriptBuilder::staging(std::int64_t bytes) {
    PIPER_ASSIGN(Buffer buffer, m_allocator.allocate(MemoryTerm::CommunicationBuffer, bytes));
    std::byte* data = buffer.as<std::byte>().data();
    m_script.staging.push_back(std::move(buffer));
    return data;
}

void ScriptBuilder::direct(const std::vector<std::int64_t>& peers, ExchangeDirection direction,
                           const std::byte* send, std::byte* recv) {
    const bool forward = direction == ExchangeDirection::Forward;
    const std::vector<std::int64_t>& send_offset = forward ? m_outer_offset : m_inner_offset;
    const std::vector<std::int64_t>& recv_offset = forward ? m_inner_offset : m_outer_offset;
    const auto sent = [&](std::int64_t p) { return forward ? outerBytes(p) : innerBytes(p); };
    const auto received = [&](std::int64_t p) { return forward ? innerBytes(p) : outerBytes(p); };

    std::vector<std::int64_t> order = peers;
    const auto own = std::find(order.begin(), order.end(), m_rank);
    PIPER_CHECK(own != order.end());
    std::rotate(order.begin(), own, order.end());
    for (const std::int64_t peer : order) {
        if (peer == m_rank) {
            m_script.pack.push_back(
                {recv + recv_offset[at(peer)], send + send_offset[at(peer)], sent(peer)});
            continue;
        }
        if (sent(peer) > 0)
            m_script.first.push_back({readable(send + send_offset[at(peer)], sent(peer)), peer});
        if (received(peer) > 0)
            m_script.receives.push_back(
                {writable(recv + recv_offset[at(peer)], received(peer)), peer});
    }
}

Result<ExchangeScript> ScriptBuilder::flat(ExchangeDirection direction, const std::byte* send,
                                           std::byte* recv) {
    std::vector<std::int64_t> everyone;
    for (std::int64_t peer = 0; peer < m_topology.size(); ++peer) everyone.push_back(peer);
    direct(everyone, direction, send, recv);
    return std::move(m_script);
}

Result<ExchangeScript> ScriptBuilder::nodeForward(const std::byte* send, std::byte* recv) {
    const std::int64_t own_node = m_topology.node(m_rank);
    const std::vector<std::int64_t>& mates = m_topology.members(own_node);
    direct(mates, ExchangeDirection::Forward, send, recv);
    // First hop out: one message for each other node.
    for (std::int64_t node = 0; node < m_topology.numNodes(); ++node) {
        const std::int64_t total = node == own_node ? 0 : outerBytesTo(m_topology.members(node));
        if (total == 0) continue;
        PIPER_ASSIGN(std::byte * block, staging(total));
        m_script.first.push_back({readable(block, total), m_topology.relay(m_rank, node)});
        for (const std::int64_t d : m_topology.members(node)) {
            m_script.pack.push_back({block, send + m_outer_offset[at(d)], outerBytes(d)});
            block += outerBytes(d);
        }
    }
    // First hop in, one message for each source: handed on by destination.
    const std::vector<std::int64_t> sources = m_topology.relayedSources(m_rank);
    std::vector<std::byte*> outgoing(mates.size(), nullptr);
    for (std::size_t m = 0; m < mates.size(); ++m) {
        std::int64_t total = 0;
        for (std::size_t s = 0; s < sources.size(); ++s) total += relayedBytes(s, m);
        if (total == 0 || mates[m] == m_rank) continue;
        PIPER_ASSIGN(outgoing[m], staging(total));
        m_script.second.push_back({readable(outgoing[m], total), mates[m], true});
    }
    for (std::size_t s = 0; s < sources.size(); ++s) {
        std::int64_t total = 0;
        for (std::size_t m = 0; m < mates.size(); ++m) total += relayedBytes(s, m);
        if (total == 0) continue;
        PIPER_ASSIGN(std::byte * block, staging(total));
        m_script.receives.push_back({writable(block, total), sources[s], true});
        for (std::size_t m = 0; m < mates.size(); ++m) {
            const std::int64_t bytes = relayedBytes(s, m);
            std::byte*& to = outgoing[m];
            if (mates[m] == m_rank)
                m_script.relay.push_back({recv + m_inner_offset[at(sources[s])], block, bytes});
            else if (bytes > 0)
                m_script.relay.push_back({to, block, bytes}), to += bytes;
            block += bytes;
        }
    }
    // Second hop in: what node mates relayed.
    for (const std::int64_t mate : mates) {
        const std::vector<std::int64_t> relayed = m_topology.relayedSources(mate);
        const std::int64_t total = mate == m_rank ? 0 : innerBytesFrom(relayed);
        if (total == 0) continue;
        PIPER_ASSIGN(std::byte * block, staging(total));
        m_script.receives.push_back({writable(block, total), mate, false, true});
        for (const std::int64_t s : relayed) {
            m_script.unpack.push_back({recv + m_inner_offset[at(s)], block, innerBytes(s)});
            block += innerBytes(s);
        }
    }
    return std::move(m_script);
}

Result<ExchangeScript> ScriptBuilder::nodeMirrored(const std::byte* send, std::byte* recv) {
    const std::int64_t own_node = m_topology.node(m_rank);
    const std::vector<std::int64_t>& mates = m_topology.members(own_node);
    direct(mates, ExchangeDirection::Mirrored, send, recv);
    // First hop: inside the node, to the mate that had relayed the rows.
    for (const std::int64_t mate : mates) {
        const std::vector<std::int64_t> relayed = m_topology.relayedSources(mate);
        const std::int64_t total = mate == m_rank ? 0 : innerBytesFrom(relayed);
        if (total == 0) continue;
        PIPER_ASSIGN(std::byte * block, staging(total));
        m_script.first.push_back({readable(block, total), mate, true});
        for (const std::int64_t s : relayed) {
            m_script.pack.push_back({block, send + m_inner_offset[at(s)], innerBytes(s)});
            block += innerBytes(s);
        }
    }
    const std::vector<std::int64_t> sources = m_topology.relayedSources(m_rank);
    std::vector<std::byte*> incoming(mates.size(), nullptr);
    for (std::size_t m = 0; m < mates.size(); ++m) {
        std::int64_t total = 0;
        for (std::size_t s = 0; s < sources.size(); ++s) total += relayedBytes(s, m);
        if (total == 0 || mates[m] == m_rank) continue;
        PIPER_ASSIGN(incoming[m], staging(total));
        m_script.receives.push_back({writable(incoming[m], total), mates[m], true, true});
    }
    // Second hop: one message back to each source.
    for (std::size_t s = 0; s < sources.size(); ++s) {
        std::int64_t total = 0;
        for (std::size_t m = 0; m < mates.size(); ++m) total += relayedBytes(s, m);
        if (total == 0) continue;
        PIPER_ASSIGN(std::byte * block, staging(total));
        m_script.second.push_back({readable(block, total), sources[s], true});
        for (std::size_t m = 0; m < mates.size(); ++m) {
            const std::int64_t bytes = relayedBytes(s, m);
            if (mates[m] == m_rank)
                m_script.relay.push_back({block, send + m_inner_offset[at(sources[s])], bytes});
            else if (bytes > 0)
                m_script.relay.push_back({block, incoming[m], bytes}), incoming[m] += bytes;
            block += bytes;
        }
    }
    for (std::int64_t node = 0; node < m_topology.numNodes(); ++node) {
        const std::int64_t total = node == own_node ? 0 : outerBytesTo(m_topology.members(node));
        if (total == 0) continue;
        PIPER_ASSIGN(std::byte * block, staging(total));
        m_script.receives.push_back(
            {writable(block, total), m_topology.relay(m_rank, node), false, true});
        for (const std::int64_t d : m_topology.members(node)) {
            m_script.unpack.push_back({recv + m_outer_offset[at(d)], block, outerBytes(d)});
            block += outerBytes(d);
        }
    }
    return std::move(m_script);
}

}  // namespace piper
