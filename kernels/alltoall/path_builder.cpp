// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/path_builder.h"

#include <algorithm>
#include <tuple>

#include "core/base/cast.h"

namespace piper {

PathBuilder::PathBuilder(const Problem& problem, TaggedAllocator& allocator)
    : m_problem(problem), m_allocator(allocator) {
    std::int64_t outer = 0, inner = 0;
    for (std::int64_t peer = 0; peer < problem.topology.size(); ++peer) {
        m_outer_offset.push_back(outer);
        m_inner_offset.push_back(inner);
        outer += problem.route.send_rows[at(peer)] * problem.row_bytes;
        inner += problem.route.recv_rows[at(peer)] * problem.row_bytes;
    }
}

Result<std::byte*> PathBuilder::staging(std::int64_t bytes) {
    PIPER_ASSIGN(Buffer buffer, m_allocator.allocate(MemoryTerm::CommunicationBuffer, bytes));
    std::byte* data = buffer.as<std::byte>().data();
    m_script.staging.push_back(std::move(buffer));
    return data;
}

std::int64_t PathBuilder::total(const std::vector<std::size_t>& blocks) const {
    std::int64_t sum = 0;
    for (const std::size_t b : blocks) sum += m_blocks[b].bytes;
    return sum;
}

void PathBuilder::addPair(std::int64_t s, std::int64_t d, std::int64_t bytes,
                          std::int64_t relayed_offset) {
    const Problem& p = m_problem;
    ExchangeTopology::Way way = p.topology.way(p.algorithm, s, d);
    if (p.direction == ExchangeDirection::Mirrored) std::reverse(way.begin(), way.end());
    const bool forward = p.direction == ExchangeDirection::Forward;
    Block block;
    block.bytes = bytes;
    if (way.front() == p.rank)
        block.place = p.send + (forward ? m_outer_offset[at(d)] : m_inner_offset[at(s)]);
    if (way.back() == p.rank)
        block.final_place = p.recv + (forward ? m_inner_offset[at(s)] : m_outer_offset[at(d)]);
    if (relayed_offset >= 0 && p.relayed_copy != nullptr)
        block.copy_place = p.relayed_copy + relayed_offset;
    if (bytes == 0) return;
    const std::size_t number = m_blocks.size();
    m_blocks.push_back(block);
    for (std::size_t h = 0; h + 1 < way.size(); ++h) {
        if (way[h] == way[h + 1]) continue;
        if (way[h] == p.rank) m_outgoing[{static_cast<int>(h), way[h + 1]}].push_back(number);
        if (way[h + 1] == p.rank) m_incoming[{static_cast<int>(h), way[h]}].push_back(number);
    }
}

void PathBuilder::addOwnAndRelayed() {
    const Problem& p = m_problem;
    std::vector<std::array<std::int64_t, 4>> pairs;  // s, d, rows, offset of the copy
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < p.relayed.size(); ++i) {
        const std::int64_t rows = p.route.relayed_rows[i];
        pairs.push_back({p.relayed[i].first, p.relayed[i].second, rows, offset});
        offset += rows * p.row_bytes;
    }
    for (std::int64_t peer = 0; peer < p.topology.size(); ++peer) {
        pairs.push_back({p.rank, peer, p.route.send_rows[at(peer)], -1});
        if (peer != p.rank) pairs.push_back({peer, p.rank, p.route.recv_rows[at(peer)], -1});
    }
    // Both ends of a hop order its rows alike.
    std::sort(pairs.begin(), pairs.end());
    for (const auto& [s, d, rows, copy] : pairs) addPair(s, d, rows * p.row_bytes, copy);
}

Status PathBuilder::addReceive(const Key& key, const std::vector<std::size_t>& blocks) {
    const std::size_t number = m_script.receives.size();
    const std::int64_t bytes = total(blocks);
    const bool straight = blocks.size() == 1 && m_blocks[blocks[0]].final_place != nullptr;
    std::byte* data = straight ? m_blocks[blocks[0]].final_place : nullptr;
    if (!straight) {
        PIPER_ASSIGN(data, staging(bytes));
    }
    m_script.receives.push_back({{data, at(bytes)}, key.second, key.first});
    ExchangeScript::Step unpack;
    unpack.after = {number};
    for (const std::size_t b : blocks) {
        Block& block = m_blocks[b];
        block.place = data;
        block.receive = static_cast<std::ptrdiff_t>(number);
        for (std::byte* to : {straight ? nullptr : block.final_place, block.copy_place})
            if (to != nullptr) unpack.copies.push_back({to, data, block.bytes});
        data += block.bytes;
    }
    if (!unpack.copies.empty()) m_script.steps.push_back(std::move(unpack));
    return {};
}

Status PathBuilder::addSend(const Key& key, const std::vector<std::size_t>& blocks) {
    const std::int64_t bytes = total(blocks);
    ExchangeScript::Step step;
    const std::byte* data = m_blocks[blocks[0]].place;
    if (blocks.size() > 1) {
        PIPER_ASSIGN(std::byte * to, staging(bytes));
        data = to;
        for (const std::size_t b : blocks) {
            step.copies.push_back({to, m_blocks[b].place, m_blocks[b].bytes});
            to += m_blocks[b].bytes;
        }
    }
    for (const std::size_t b : blocks)
        if (m_blocks[b].receive >= 0) step.after.push_back(at(m_blocks[b].receive));
    std::sort(step.after.begin(), step.after.end());
    step.after.erase(std::unique(step.after.begin(), step.after.end()), step.after.end());
    step.data = {data, at(bytes)};
    step.to = key.second;
    step.phase = key.first;
    m_script.steps.push_back(std::move(step));
    return {};
}

Result<ExchangeScript> PathBuilder::build() {
    addOwnAndRelayed();
    for (const auto& [key, blocks] : m_incoming) PIPER_TRY(addReceive(key, blocks));
    ExchangeScript::Step own;
    for (const Block& block : m_blocks)
        if (block.receive < 0 && block.final_place != nullptr)
            own.copies.push_back({block.final_place, block.place, block.bytes});
    // What crosses nodes first, each rank beginning with its counterpart on the next node, so that
    // no two begin with the same one; then the own node.
    const ExchangeTopology& topology = m_problem.topology;
    const auto order = [&](const Key& key) {
        const std::int64_t self = m_problem.rank, peer = key.second;
        const std::int64_t nodes = topology.numNodes();
        const auto there = static_cast<std::int64_t>(topology.members(topology.node(peer)).size());
        const std::int64_t node_ahead = (topology.node(peer) - topology.node(self) + nodes) % nodes;
        const std::int64_t place_ahead =
            (topology.place(peer) - topology.place(self) % there + there) % there;
        return std::tuple(node_ahead == 0 ? nodes : node_ahead, place_ahead, key);
    };
    std::vector<Key> keys;
    for (const auto& [key, blocks] : m_outgoing) keys.push_back(key);
    std::ranges::sort(keys, {}, order);
    for (const Key& key : keys) PIPER_TRY(addSend(key, m_outgoing[key]));
    if (!own.copies.empty()) m_script.steps.push_back(std::move(own));
    return std::move(m_script);
}

}  // namespace piper
