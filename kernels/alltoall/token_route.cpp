// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/token_route.h"
#include "core/base/cast.h"

#include <algorithm>
#include <array>

namespace piper {
namespace {

constexpr std::uint32_t kNewRow = 0x80000000U;

/// What travels of one slot.
struct Record {
    std::uint32_t place;  ///< with kNewRow where a row begins
    float weight;
};
static_assert(sizeof(Record) == kRecordBytes);

/// Rows and slots of one source in one message.
using Count = std::array<std::int32_t, 2>;
static_assert(sizeof(Count) == kCountBytes);

using Transfers = std::vector<std::unique_ptr<PendingTransfer>>;

Status waitFor(Communicator& group, Transfers& transfers) {
    for (std::int64_t round = 0;; ++round) {
        for (std::size_t i = 0; i < transfers.size();) {
            if (!transfers[i]->test()) {
                ++i;
                continue;
            }
            PIPER_TRY(transfers[i]->wait());
            transfers[i] = std::move(transfers.back());
            transfers.pop_back();
        }
        if (transfers.empty()) return {};
        PIPER_TRY(group.pause(round));
    }
}

template <class T>
std::span<const std::byte> bytesOf(const std::vector<T>& values) {
    return std::as_bytes(std::span(values));
}

class RouteMaker {
public:
    RouteMaker(Communicator& group, const ExchangeTiers& tiers, std::int64_t local_experts, int tag)
        : m_group(group), m_tiers(tiers), m_local_experts(local_experts), m_tag(tag) {}

    Status addRouting(const TokenRouting& routing);
    Status runTier(int tier);
    std::vector<TokenRoute> finish();

private:
    struct Peer {
        std::int64_t rank = 0, group = 0;
        std::vector<std::int64_t> sources;
        std::vector<Count> counts;  ///< [routes][sources]
        std::vector<Record> records;
    };

    [[nodiscard]] std::int64_t owner(std::int32_t place) const { return place / m_local_experts; }
    TokenRoute::Hop makeHop(TokenRoute& route, int tier, Peer& peer);
    void addCounts(const TokenRoute& route, const TokenRoute::Hop& hop, Peer& peer) const;
    void takeBundles(TokenRoute& route, int tier, std::size_t number, const Peer& peer,
                     std::span<const Record>& records);
    Status move(std::vector<Peer>& receivers, std::vector<Peer>& givers);
    void sortLocals(TokenRoute& route) const;

    Communicator& m_group;
    const ExchangeTiers& m_tiers;
    std::int64_t m_local_experts;
    int m_tag;
    std::vector<TokenRoute> m_routes;
};

Status RouteMaker::addRouting(const TokenRouting& routing) {
    const std::size_t slots = at(routing.tokens * routing.topk);
    if (routing.places.size() != slots || routing.weights.size() != slots)
        return fail(ErrorCode::InvalidInput,
                    "{} places and {} weights for {} tokens with {} experts each",
                    routing.places.size(), routing.weights.size(), routing.tokens, routing.topk);
    const std::int64_t experts = m_local_experts * m_tiers.size();
    TokenRoute route;
    TokenRoute::Bundle own;
    own.source = m_group.rank();
    own.rows = routing.tokens;
    for (std::size_t slot = 0; slot < slots; ++slot) {
        const std::int32_t place = routing.places[slot];
        if (place < 0 || place >= experts)
            return fail(ErrorCode::InvalidInput,
                        "slot {} is routed to expert place {}, outside "
                        "0..{}",
                        slot, place, experts - 1);
        own.slots.push_back(
            {static_cast<std::int32_t>(slot / at(routing.topk)), place, routing.weights[slot]});
    }
    route.bundles.push_back(std::move(own));
    m_routes.push_back(std::move(route));
    return {};
}

/// What of all bundles belongs to the peer's group; the slots go out as records.
TokenRoute::Hop RouteMaker::makeHop(TokenRoute& route, int tier, Peer& peer) {
    TokenRoute::Hop hop;
    hop.tier = tier;
    hop.peer = peer.rank;
    for (const std::int64_t source : peer.sources) {
        const auto bundle = std::find_if(route.bundles.begin(), route.bundles.end(),
                                         [&](const auto& b) { return b.source == source; });
        TokenRoute::Part part;
        if (bundle != route.bundles.end()) {
            part.bundle = static_cast<std::size_t>(bundle - route.bundles.begin());
            for (std::size_t i = 0; i < bundle->slots.size(); ++i) {
                const TokenRoute::Slot& slot = bundle->slots[i];
                if (m_tiers.group(tier, owner(slot.place)) != peer.group) continue;
                if (tier > 0 && m_tiers.group(tier - 1, owner(slot.place)) !=
                                    m_tiers.group(tier - 1, m_group.rank()))
                    continue;
                const bool first = part.rows.empty() || part.rows.back() != slot.row;
                if (first) part.rows.push_back(slot.row);
                part.slots.push_back(static_cast<std::int32_t>(i));
                peer.records.push_back(
                    {static_cast<std::uint32_t>(slot.place) | (first ? kNewRow : 0U), slot.weight});
            }
        }
        peer.counts.push_back({static_cast<std::int32_t>(part.rows.size()),
                               static_cast<std::int32_t>(part.slots.size())});
        hop.rows += static_cast<std::int64_t>(part.rows.size());
        hop.slots += static_cast<std::int64_t>(part.slots.size());
        if (!part.rows.empty()) hop.parts.push_back(std::move(part));
    }
    return hop;
}

void RouteMaker::takeBundles(TokenRoute& route, int tier, std::size_t number, const Peer& peer,
                             std::span<const Record>& records) {
    TokenRoute::Hop hop;
    hop.tier = tier;
    hop.peer = peer.rank;
    for (std::size_t i = 0; i < peer.sources.size(); ++i) {
        const Count& count = peer.counts[number * peer.sources.size() + i];
        if (count[0] == 0) continue;
        TokenRoute::Bundle bundle;
        bundle.source = peer.sources[i];
        bundle.rows = count[0];
        bundle.message = static_cast<std::ptrdiff_t>(route.received.size());
        bundle.first_row = hop.rows;
        std::int32_t row = -1;
        for (const Record& record : records.first(at(count[1]))) {
            if ((record.place & kNewRow) != 0) ++row;
            bundle.slots.push_back(
                {row, static_cast<std::int32_t>(record.place & ~kNewRow), record.weight});
        }
        records = records.subspan(at(count[1]));
        hop.rows += count[0];
        hop.slots += count[1];
        route.bundles.push_back(std::move(bundle));
    }
    if (hop.rows > 0) route.received.push_back(std::move(hop));
}

/// Numbers to and from everybody, then the records.
Status RouteMaker::move(std::vector<Peer>& receivers, std::vector<Peer>& givers) {
    Transfers transfers;
    const auto post = [&](Result<std::unique_ptr<PendingTransfer>> transfer) -> Status {
        if (!transfer.ok()) return std::move(transfer).error();
        transfers.push_back(std::move(transfer).value());
        return {};
    };
    for (Peer& peer : givers) {
        peer.counts.resize(m_routes.size() * peer.sources.size());
        PIPER_TRY(post(
            m_group.receive(std::as_writable_bytes(std::span(peer.counts)), peer.rank, m_tag)));
    }
    for (const Peer& peer : receivers)
        PIPER_TRY(post(m_group.send(bytesOf(peer.counts), peer.rank, m_tag)));
    for (const Peer& peer : receivers)
        if (!peer.records.empty())
            PIPER_TRY(post(m_group.send(bytesOf(peer.records), peer.rank, m_tag + 1)));
    // Sends end on their own while the numbers come in; the records' sizes are in the numbers.
    Transfers numbers;
    for (std::size_t i = 0; i < givers.size(); ++i) numbers.push_back(std::move(transfers[i]));
    transfers.erase(transfers.begin(),
                    transfers.begin() + static_cast<std::ptrdiff_t>(givers.size()));
    PIPER_TRY(waitFor(m_group, numbers));
    for (Peer& peer : givers) {
        std::int64_t slots = 0;
        for (const Count& count : peer.counts) slots += count[1];
        peer.records.resize(at(slots));
        if (slots > 0)
            PIPER_TRY(post(m_group.receive(std::as_writable_bytes(std::span(peer.records)),
                                           peer.rank, m_tag + 1)));
    }
    return waitFor(m_group, transfers);
}

Status RouteMaker::runTier(int tier) {
    std::vector<Peer> receivers, givers;
    const std::vector<std::int64_t> held = m_tiers.sources(tier, m_group.rank());
    for (const ExchangeTiers::Peer& to : m_tiers.receivers(tier, m_group.rank()))
        receivers.push_back({to.rank, to.group, held, {}, {}});
    for (const std::int64_t from : m_tiers.givers(tier, m_group.rank()))
        givers.push_back({from, 0, m_tiers.sources(tier, from), {}, {}});
    for (TokenRoute& route : m_routes)
        for (Peer& peer : receivers) {
            TokenRoute::Hop hop = makeHop(route, tier, peer);
            if (hop.rows > 0) route.given.push_back(std::move(hop));
        }
    PIPER_TRY(move(receivers, givers));
    for (Peer& peer : givers) {
        std::span<const Record> records = peer.records;
        for (std::size_t i = 0; i < m_routes.size(); ++i)
            takeBundles(m_routes[i], tier, i, peer, records);
    }
    return {};
}

void RouteMaker::sortLocals(TokenRoute& route) const {
    const std::int64_t first = m_group.rank() * m_local_experts;
    std::vector<std::size_t> by_source(route.bundles.size());
    for (std::size_t i = 0; i < by_source.size(); ++i) by_source[i] = i;
    std::sort(by_source.begin(), by_source.end(), [&](std::size_t a, std::size_t b) {
        return route.bundles[a].source < route.bundles[b].source;
    });
    std::vector<std::vector<TokenRoute::Local>> of_expert(at(m_local_experts));
    for (const std::size_t b : by_source) {
        const std::vector<TokenRoute::Slot>& slots = route.bundles[b].slots;
        for (std::size_t i = 0; i < slots.size(); ++i)
            if (owner(slots[i].place) == m_group.rank())
                of_expert[at(slots[i].place - first)].push_back({b, static_cast<std::int32_t>(i)});
    }
    route.offsets = {0};
    for (const std::vector<TokenRoute::Local>& rows : of_expert) {
        route.locals.insert(route.locals.end(), rows.begin(), rows.end());
        route.offsets.push_back(route.rows());
    }
}

std::vector<TokenRoute> RouteMaker::finish() {
    for (TokenRoute& route : m_routes) sortLocals(route);
    return std::move(m_routes);
}

}  // namespace

Result<std::vector<TokenRoute>> makeTokenRoutes(Communicator& group, const ExchangeTiers& tiers,
                                                std::int64_t local_experts,
                                                std::span<const TokenRouting> routings, int tag) {
    RouteMaker maker(group, tiers, local_experts, tag);
    for (const TokenRouting& routing : routings) PIPER_TRY(maker.addRouting(routing));
    for (int tier = 0; tier < tiers.numTiers(); ++tier) PIPER_TRY(maker.runTier(tier));
    return maker.finish();
}

}  // namespace piper
