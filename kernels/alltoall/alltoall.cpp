// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/alltoall.h"

#include <algorithm>
#include <numeric>

#include "core/base/cast.h"
#include "kernels/alltoall/path_builder.h"

namespace piper {
namespace {

std::int64_t sum(std::span<const std::int64_t> values) {
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

/// Fills `to` with `from` over and over; with zeros if there is nothing.
void repeatInto(std::span<const std::byte> from, std::span<std::byte> to) {
    if (from.empty()) std::ranges::fill(to, std::byte{0});
    for (std::size_t done = 0; !from.empty() && done < to.size(); done += from.size())
        std::copy_n(from.begin(), std::min(from.size(), to.size() - done),
                    to.begin() + static_cast<std::ptrdiff_t>(done));
}

}  // namespace

std::int64_t ExchangeRoute::sent() const {
    return sum(send_rows);
}
std::int64_t ExchangeRoute::received() const {
    return sum(recv_rows);
}

Status checkMovesBlocks(AllToAllAlgorithm algorithm) {
    if (algorithm != AllToAllAlgorithm::NodeDedup) return {};
    return fail(ErrorCode::InvalidInput,
                "node_dedup moves tokens, not blocks: take node, rail, node_pair or flat");
}

AllToAll::AllToAll(Communicator& group, TaggedAllocator& allocator, AllToAllAlgorithm wanted)
    : AllToAll(group, allocator,
               chooseAlgorithm(wanted, group.size(), ExchangeTopology(group.nodes()).numNodes())) {}

AllToAll::AllToAll(Communicator& group, TaggedAllocator& allocator, AlgorithmChoice choice)
    : m_group(group),
      m_allocator(allocator),
      m_topology(group.nodes()),
      m_choice(std::move(choice)),
      m_relayed(m_topology.relayedPairs(m_choice.algorithm, group.rank())) {}

Status AllToAll::moveLocally() {
    PIPER_TRY(checkMovesBlocks(m_choice.algorithm));
    m_local = true;
    return {};
}

Result<std::unique_ptr<PendingTransfer>> AllToAll::start(const ExchangeRoute& route,
                                                         ExchangeDirection direction,
                                                         std::span<const std::byte> send,
                                                         std::span<std::byte> recv,
                                                         std::int64_t row_bytes) {
    PIPER_TRY(checkMovesBlocks(m_choice.algorithm));
    const bool forward = direction == ExchangeDirection::Forward;
    const std::int64_t outer = route.sent() * row_bytes, inner = route.received() * row_bytes;
    const auto send_size = static_cast<std::int64_t>(send.size());
    const auto recv_size = static_cast<std::int64_t>(recv.size());
    if (send_size != (forward ? outer : inner) || recv_size != (forward ? inner : outer))
        return fail(ErrorCode::InvalidInput,
                    "exchange of {} and {} bytes with buffers of {} and {} bytes",
                    forward ? outer : inner, forward ? inner : outer, send_size, recv_size);
    if (m_local) {
        repeatInto(send, recv);
        return runScript(m_group, {}, m_tags.next());  // done
    }
    if (m_choice.algorithm == AllToAllAlgorithm::Vendor) {
        PIPER_TRY(moveByVendor(route, direction, send, recv, row_bytes));
        return runScript(m_group, {}, m_tags.next());  // done
    }
    const PathBuilder::Problem problem{m_topology, m_choice.algorithm, m_group.rank(), m_relayed,
                                       route,      row_bytes,          direction,      send.data(),
                                       recv.data()};
    PIPER_ASSIGN(ExchangeScript script, PathBuilder(problem, m_allocator).build());
    return runScript(m_group, std::move(script), m_tags.next(), m_in_flight);
}

Status AllToAll::moveByVendor(const ExchangeRoute& route, ExchangeDirection direction,
                              std::span<const std::byte> send, std::span<std::byte> recv,
                              std::int64_t row_bytes) {
    const auto bytes = [row_bytes](std::vector<std::int64_t> rows) {
        for (std::int64_t& n : rows) n *= row_bytes;
        return rows;
    };
    const bool forward = direction == ExchangeDirection::Forward;
    return m_group.blockingAllToAllV(send, bytes(forward ? route.send_rows : route.recv_rows), recv,
                                     bytes(forward ? route.recv_rows : route.send_rows));
}

ExchangeRoute AllToAll::uniformRoute(std::int64_t rows) const {
    ExchangeRoute route;
    route.send_rows.assign(at(m_group.size()), rows);
    route.recv_rows = route.send_rows;
    route.relayed_rows.assign(m_relayed.size(), rows);
    return route;
}

Result<std::vector<ExchangeRoute>> AllToAll::exchangeCounts(std::span<const std::int64_t> counts,
                                                            std::int64_t chunks,
                                                            std::int64_t classes) {
    PIPER_TRY(checkMovesBlocks(m_choice.algorithm));
    const std::int64_t size = m_group.size();
    if (chunks < 1 || static_cast<std::int64_t>(counts.size()) != chunks * size * classes)
        return fail(ErrorCode::InvalidInput, "{} counts for {} chunks of {} ranks and {} classes",
                    counts.size(), chunks, size, classes);
    CountTable table;
    table.chunks = chunks;
    table.classes = classes;
    table.outgoing.resize(counts.size());
    for (std::int64_t d = 0; d < size; ++d)
        for (std::int64_t c = 0; c < chunks; ++c)
            for (std::int64_t k = 0; k < classes; ++k)
                table.outgoing[at(d * table.block() + c * classes + k)] =
                    counts[at((c * size + d) * classes + k)];
    PIPER_TRY(moveCounts(table));
    std::vector<ExchangeRoute> routes;
    for (std::int64_t c = 0; c < chunks; ++c) routes.push_back(table.route(c));
    return routes;
}

Status AllToAll::moveCounts(CountTable& table) {
    const ExchangeRoute one = uniformRoute(1);
    table.incoming.resize(table.outgoing.size());
    const std::int64_t block_bytes =
        table.block() * static_cast<std::int64_t>(sizeof(std::int64_t));
    if (m_choice.algorithm == AllToAllAlgorithm::Vendor)
        return moveByVendor(one, ExchangeDirection::Forward,
                            std::as_bytes(std::span(table.outgoing)),
                            std::as_writable_bytes(std::span(table.incoming)), block_bytes);
    table.relayed.resize(one.relayed_rows.size() * at(table.block()));
    // A relay keeps what it passes on: it will have to pass the rows on too.
    const PathBuilder::Problem problem{m_topology,
                                       m_choice.algorithm,
                                       m_group.rank(),
                                       m_relayed,
                                       one,
                                       block_bytes,
                                       ExchangeDirection::Forward,
                                       reinterpret_cast<const std::byte*>(table.outgoing.data()),
                                       reinterpret_cast<std::byte*>(table.incoming.data()),
                                       reinterpret_cast<std::byte*>(table.relayed.data())};
    PIPER_ASSIGN(ExchangeScript script, PathBuilder(problem, m_allocator).build());
    PIPER_ASSIGN(auto pending, runScript(m_group, std::move(script), m_tags.next()));
    return pending->wait();
}

ExchangeRoute AllToAll::CountTable::route(std::int64_t chunk) const {
    const auto row = [&](const std::vector<std::int64_t>& from, std::size_t r) {
        return std::span(from).subspan(r * at(block()) + at(chunk * classes), at(classes));
    };
    ExchangeRoute route;
    for (std::size_t peer = 0; peer * at(block()) < outgoing.size(); ++peer) {
        const auto in = row(incoming, peer);
        route.send_rows.push_back(sum(row(outgoing, peer)));
        route.recv_rows.push_back(sum(in));
        route.recv_counts.insert(route.recv_counts.end(), in.begin(), in.end());
    }
    for (std::size_t r = 0; r * at(block()) < relayed.size(); ++r)
        route.relayed_rows.push_back(sum(row(relayed, r)));
    return route;
}

}  // namespace piper
