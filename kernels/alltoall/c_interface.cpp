// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "kernels/alltoall/alltoall.h"
#include "kernels/alltoall/piper_alltoall.h"
#include "kernels/alltoall/token_exchange.h"
#include "kernels/transport/local_transport.h"
#include "kernels/transport/mpi_transport.h"
#include "kernels/transport/node_map.h"

struct piper_a2a_world {
    std::unique_ptr<piper::Transport> transport;
    std::unique_ptr<piper::Communicator> blocks;  ///< of the plain exchanges
    piper::TaggedAllocator allocator;
};
/// Over a group of its own: messages of two exchanges under way never meet.
struct piper_a2a_exchange {
    std::unique_ptr<piper::Communicator> group;
    std::unique_ptr<piper::TokenExchange> exchange;
    std::int64_t hidden;
};
struct piper_a2a_routed {
    piper_a2a_exchange* exchange;
    std::unique_ptr<piper::RoutedTokens> tokens;
    std::int64_t count, topk;
};
struct piper_a2a_transfer {
    std::unique_ptr<piper::PendingTransfer> pending;
};

namespace {

using namespace piper;

std::string& lastError() {
    static thread_local std::string text;
    return text;
}

int refuse(const Error& error) {
    lastError() = error.text();
    return -1;
}

template <class T>
T* refused(const Error& error) {
    refuse(error);
    return nullptr;
}

piper_a2a_transfer* wrap(TokenExchange::Transfer transfer) {
    if (!transfer.ok()) return refused<piper_a2a_transfer>(transfer.error());
    return new piper_a2a_transfer{std::move(transfer).value()};
}

Result<std::unique_ptr<Transport>> openTransport() {
    const bool mpi = mpiRuns() || launchedByMpi([](const char* name) { return std::getenv(name); });
    return mpi ? makeMpiTransport({}) : Result<std::unique_ptr<Transport>>(makeLocalTransport());
}

/// All ranks once more, apart from the messages of all other groups. Collective.
Result<std::unique_ptr<Communicator>> everybody(Transport& transport) {
    std::vector<RankId> members;
    for (std::int64_t r = 0; r < transport.world().size(); ++r)
        members.emplace_back(static_cast<std::int32_t>(r));
    return transport.makeGroup(members);
}

/// Nobody goes on when one rank cannot: the others would wait for it for ever. Collective.
Status agree(Communicator& group, Status own) {
    double failed = own.ok() ? 0.0 : 1.0;
    PIPER_TRY(group.allReduceMax(std::span(&failed, 1)));
    if (!own.ok() || failed == 0.0) return own;
    return fail(ErrorCode::InvalidInput, "another rank cannot take part: its error says why");
}

Status checkBlocks(const ExchangeRoute& route, const std::int64_t* recv_bytes) {
    for (std::size_t from = 0; from < route.recv_rows.size(); ++from)
        if (route.recv_rows[from] != recv_bytes[from])
            return fail(ErrorCode::InvalidInput, "rank {} sends {} bytes, {} are expected of it",
                        from, route.recv_rows[from], recv_bytes[from]);
    return {};
}

Result<TokenExchangeOptions> readOptions(const piper_a2a_options& given, std::int64_t size) {
    TokenExchangeOptions out;
    PIPER_ASSIGN(out.algorithm, parseEnum<TokenAlgorithm>(given.algorithm, "algorithm"));
    PIPER_ASSIGN(out.wire, parseEnum<WireFormat>(given.wire, "wire format"));
    out.hidden = given.hidden;
    out.local_experts = given.local_experts;
    if (given.racks != nullptr) out.racks.assign(given.racks, given.racks + size);
    return out;
}

Status exchangeBlocks(piper_a2a_world& world, AllToAllAlgorithm algorithm, const void* send,
                      const std::int64_t* send_bytes, void* recv, const std::int64_t* recv_bytes) {
    PIPER_TRY(checkMovesBlocks(algorithm));
    Communicator& group = *world.blocks;
    const auto size = static_cast<std::size_t>(group.size());
    AllToAll exchange(group, world.allocator, algorithm);
    PIPER_ASSIGN(const auto routes, exchange.exchangeCounts({send_bytes, size}, 1, 1));
    const ExchangeRoute& route = routes.front();
    PIPER_TRY(agree(group, checkBlocks(route, recv_bytes)));
    PIPER_ASSIGN(
        auto pending,
        exchange.start(
            route, ExchangeDirection::Forward,
            {static_cast<const std::byte*>(send), static_cast<std::size_t>(route.sent())},
            {static_cast<std::byte*>(recv), static_cast<std::size_t>(route.received())}, 1));
    return pending->wait();
}

}  // namespace

const char* piper_a2a_error(void) {
    return lastError().c_str();
}

piper_a2a_world* piper_a2a_open(void) {
    Result<std::unique_ptr<Transport>> transport = openTransport();
    if (!transport.ok()) return refused<piper_a2a_world>(transport.error());
    auto blocks = everybody(**transport);
    if (!blocks.ok()) return refused<piper_a2a_world>(blocks.error());
    auto* world = new piper_a2a_world;
    world->transport = std::move(transport).value();
    world->blocks = std::move(blocks).value();
    return world;
}
void piper_a2a_close(piper_a2a_world* world) {
    delete world;
}
int64_t piper_a2a_rank(const piper_a2a_world* world) {
    return world->transport->world().rank();
}
int64_t piper_a2a_size(const piper_a2a_world* world) {
    return world->transport->world().size();
}

int piper_a2a_alltoallv(piper_a2a_world* world, const char* algorithm, const void* send,
                        const int64_t* send_bytes, void* recv, const int64_t* recv_bytes) {
    const Result<AllToAllAlgorithm> way = parseEnum<AllToAllAlgorithm>(algorithm, "algorithm");
    if (!way.ok()) return refuse(way.error());
    const Status status = exchangeBlocks(*world, *way, send, send_bytes, recv, recv_bytes);
    return status.ok() ? 0 : refuse(status.error());
}

piper_a2a_exchange* piper_a2a_make(piper_a2a_world* world, const piper_a2a_options* options) {
    const Result<TokenExchangeOptions> read = readOptions(*options, piper_a2a_size(world));
    if (!read.ok()) return refused<piper_a2a_exchange>(read.error());
    auto group = everybody(*world->transport);
    if (!group.ok()) return refused<piper_a2a_exchange>(group.error());
    auto made = makeTokenExchange(**group, world->allocator, *read);
    if (!made.ok()) return refused<piper_a2a_exchange>(made.error());
    return new piper_a2a_exchange{std::move(group).value(), std::move(made).value(), read->hidden};
}
void piper_a2a_free(piper_a2a_exchange* exchange) {
    delete exchange;
}

piper_a2a_routed* piper_a2a_route(piper_a2a_exchange* exchange, int64_t tokens, int64_t topk,
                                  const int32_t* experts, const float* weights) {
    if (tokens < 0 || topk < 1)
        return refused<piper_a2a_routed>(fail(ErrorCode::InvalidInput,
                                              "{} tokens with {} experts each: tokens from 0, "
                                              "experts from 1",
                                              tokens, topk));
    const auto slots = static_cast<std::size_t>(tokens * topk);
    const TokenRouting routing{tokens, topk, {experts, slots}, {weights, slots}};
    auto routes = exchange->exchange->route(std::span(&routing, 1));
    if (!routes.ok()) return refused<piper_a2a_routed>(routes.error());
    return new piper_a2a_routed{exchange, std::move(routes->front()), tokens, topk};
}
void piper_a2a_routed_free(piper_a2a_routed* routed) {
    delete routed;
}
int64_t piper_a2a_rows(const piper_a2a_routed* routed) {
    return routed->tokens->rows();
}
const int64_t* piper_a2a_offsets(const piper_a2a_routed* routed) {
    return routed->tokens->offsets().data();
}

piper_a2a_transfer* piper_a2a_dispatch(piper_a2a_routed* r, const float* x, float* rows) {
    const std::int64_t hidden = r->exchange->hidden;
    return wrap(r->exchange->exchange->dispatch(*r->tokens, {x, r->count, hidden},
                                                {rows, r->tokens->rows(), hidden}));
}
piper_a2a_transfer* piper_a2a_combine(piper_a2a_routed* r, const float* y, float* out) {
    const std::int64_t hidden = r->exchange->hidden;
    return wrap(r->exchange->exchange->combine(*r->tokens, {y, r->tokens->rows(), hidden},
                                               {out, r->count, hidden}, Store::Overwrite));
}
piper_a2a_transfer* piper_a2a_combine_grad(piper_a2a_routed* r, const float* d_out, const float* y,
                                           float* d_y) {
    const std::int64_t hidden = r->exchange->hidden, rows = r->tokens->rows();
    return wrap(r->exchange->exchange->combineGrad(*r->tokens, {d_out, r->count, hidden},
                                                   {y, rows, hidden}, {d_y, rows, hidden}));
}
piper_a2a_transfer* piper_a2a_dispatch_grad(piper_a2a_routed* r, const float* d_rows, float* dx,
                                            float* d_weights) {
    const std::int64_t hidden = r->exchange->hidden;
    return wrap(r->exchange->exchange->dispatchGrad(
        *r->tokens, {d_rows, r->tokens->rows(), hidden}, {dx, r->count, hidden},
        {d_weights, static_cast<std::size_t>(r->count * r->topk)}, Store::Overwrite));
}

int piper_a2a_test(piper_a2a_transfer* transfer) {
    return transfer->pending->test() ? 1 : 0;
}
int piper_a2a_wait(piper_a2a_transfer* transfer) {
    const Status status = transfer->pending->wait();
    delete transfer;
    return status.ok() ? 0 : refuse(status.error());
}
