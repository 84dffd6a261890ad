// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/token_route.h"

#include <algorithm>
#include <array>

#include "core/base/cast.h"
#include "kernels/alltoall/exchange_script.h"

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
    void takeBundles(TokenRoute& route, int tier, std::size_t number, const Peer& peer,
                     std::span<const Record>& records);
    Status move(const std::vector<Peer>& receivers, std::vector<Peer>& givers);
    [[nodiscard]] Result<std::unique_ptr<PendingTransfer>> start(ExchangeScript script) {
        return runScript(m_group, std::move(script), m_tag);
    }
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
            part.first_row = hop.rows;
            part.first_slot = hop.slots;
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
        hop.bundles.push_back(route.bundles.size());
        hop.rows += count[0];
        hop.slots += count[1];
        route.bundles.push_back(std::move(bundle));
    }
    if (hop.rows > 0) route.received.push_back(std::move(hop));
}

/// Numbers to and from everybody, beside them the records; who receives records knows how many when
/// the numbers are there.
Status RouteMaker::move(const std::vector<Peer>& receivers, std::vector<Peer>& givers) {
    constexpr int kNumbers = 0, kRecords = 1;  // hops of the scripts
    ExchangeScript records, numbers, incoming;
    const auto give = [](std::span<const std::byte> data, std::int64_t to, int hop) {
        ExchangeScript::Step step;
        step.data = data;
        step.to = to;
        step.phase = hop;
        return step;
    };
    for (const Peer& peer : receivers) {
        numbers.steps.push_back(give(bytesOf(peer.counts), peer.rank, kNumbers));
        if (!peer.records.empty())
            records.steps.push_back(give(bytesOf(peer.records), peer.rank, kRecords));
    }
    for (Peer& peer : givers) {
        peer.counts.resize(m_routes.size() * peer.sources.size());
        numbers.receives.push_back(
            {std::as_writable_bytes(std::span(peer.counts)), peer.rank, kNumbers});
    }
    PIPER_ASSIGN(auto told, start(std::move(numbers)));
    PIPER_ASSIGN(auto given, start(std::move(records)));
    PIPER_TRY(told->wait());
    for (Peer& peer : givers) {
        std::int64_t slots = 0;
        for (const Count& count : peer.counts) slots += count[1];
        peer.records.resize(at(slots));
        if (slots > 0)
            incoming.receives.push_back(
                {std::as_writable_bytes(std::span(peer.records)), peer.rank, kRecords});
    }
    PIPER_ASSIGN(auto taken, start(std::move(incoming)));
    PIPER_TRY(taken->wait());
    return given->wait();
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

void sortOnce(std::vector<std::size_t>& numbers) {
    std::ranges::sort(numbers);
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

/// What every transfer over the route asks for.
void indexRoute(TokenRoute& route) {
    for (std::size_t i = 0; i < route.locals.size(); ++i)
        route.bundles[route.locals[i].bundle].locals.push_back(static_cast<std::int64_t>(i));
    for (std::size_t h = 0; h < route.given.size(); ++h) {
        TokenRoute::Hop& hop = route.given[h];
        for (std::size_t p = 0; p < hop.parts.size(); ++p) {
            TokenRoute::Bundle& bundle = route.bundles[hop.parts[p].bundle];
            bundle.onward.push_back({h, p});
            if (bundle.message < 0) continue;
            hop.after.push_back(at(bundle.message));
            route.received[at(bundle.message)].after.push_back(h);
        }
        sortOnce(hop.after);
    }
    for (TokenRoute::Hop& hop : route.received) sortOnce(hop.after);
}

std::vector<TokenRoute> RouteMaker::finish() {
    for (TokenRoute& route : m_routes) {
        sortLocals(route);
        indexRoute(route);
    }
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
