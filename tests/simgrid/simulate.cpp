// SPDX-License-Identifier: Apache-2.0
// One rank of a simulated exchange: the algorithms of kernels/alltoall over MPI, run by smpirun.
// usage: simulate pairs BYTES,... ALGORITHM,...
//        simulate moe BYTES,... TOPK EXPERTS NODE_LIMIT GROUP_LIMIT ALGORITHM,...
// GROUP_LIMIT: switch groups (of four nodes) that a token may reach, 0: any; rack_dedup's racks. An
// algorithm may end in /N, at most N messages of a hop that come at once; "auto" of pairs is what
// the cost formulas choose for the machine. Rank 0 prints "algorithm,bytes a pair,microseconds" of
// simulated time; results are checked where PIPER_SIMULATED_CHECK is set. Ranks are threads of one
// process: where blocks are not checked all ranks use the same memory, and what it holds is
// garbage.
#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <simgrid/s4u.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/cast.h"
#include "core/resources/exchange_choice.h"
#include "kernels/alltoall/alltoall.h"
#include "kernels/alltoall/token_exchange.h"
#include "kernels/transport/mpi_transport.h"
#include "tests/simgrid/machines.h"

namespace piper {
namespace {

std::vector<std::string> split(const std::string& list) {
    std::vector<std::string> out;
    std::stringstream in(list);
    for (std::string item; std::getline(in, item, ',');) out.push_back(item);
    return out;
}

/// Simulated seconds from a common start to the end of the slowest rank: a barrier of messages
/// would let ranks go one after the other.
template <class Run>
Result<double> timed(const Communicator& world, const Run& run) {
    static const simgrid::s4u::BarrierPtr barrier =
        simgrid::s4u::Barrier::create(static_cast<unsigned>(world.size()));
    static std::vector<double> seconds(at(world.size()));
    barrier->wait();
    const double start = MPI_Wtime();
    PIPER_TRY(run());
    seconds[at(world.rank())] = MPI_Wtime() - start;
    barrier->wait();
    return *std::ranges::max_element(seconds);
}

/// Memory of one rank; folded, every rank has the same bytes, so that of a cluster's memory only
/// one rank's is ever touched.
class SimulatedMemory final : public MemorySource {
public:
    /// What is reserved from now on.
    void fold(bool on) { m_fold = on; }

    Result<void*> reserve(std::int64_t bytes) override {
        if (!m_fold) return hostMemory().reserve(bytes);
        const std::span<std::byte> shared = sharedBytes();
        const std::int64_t begin = m_used;
        m_used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
        if (at(m_used) > shared.size())
            return fail(ErrorCode::External, "a rank needs {} bytes of {}", m_used, shared.size());
        return shared.data() + begin;
    }
    void release(void* data, std::int64_t bytes) override {
        const std::span<std::byte> shared = sharedBytes();
        const auto* byte = static_cast<const std::byte*>(data);
        if (byte < shared.data() || byte >= shared.data() + shared.size())
            hostMemory().release(data, bytes);
    }

private:
    static constexpr std::int64_t kBytes = std::int64_t{1} << 36, kAlignment = 64;
    static std::span<std::byte> sharedBytes() {
        static void* const data = ::mmap(nullptr, at(kBytes), PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (data == MAP_FAILED) return {};
        return {static_cast<std::byte*>(data), at(kBytes)};
    }
    bool m_fold = false;
    std::int64_t m_used = 0;
};

void report(const Communicator& world, const std::string& name, std::int64_t bytes,
            double seconds) {
    if (world.rank() != 0) return;
    std::printf("%s,%lld,%.3f\n", name.c_str(), static_cast<long long>(bytes), 1e6 * seconds);
    std::fflush(stdout);  // what is there counts when the rest does not end in time
}

bool checks() {
    return std::getenv("PIPER_SIMULATED_CHECK") != nullptr;
}

std::byte pattern(std::int64_t from, std::int64_t to) {
    return static_cast<std::byte>((from * 37 + to * 11 + 5) & 0xFF);
}

/// "flat/2": flat, two messages in flight.
struct Entry {
    std::string algorithm;
    std::int64_t in_flight = 0;
};
Entry entry(const std::string& name) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos) return {name};
    return {name.substr(0, slash), std::stoll(name.substr(slash + 1))};
}

/// What a cluster file would say of the machine.
ExchangeLinks linksOf(const Machine& machine, std::int64_t nodes) {
    constexpr double kEfficiency = 0.95;   // smpi/bw-factor of sweep.py
    constexpr double kMessage = 0.8 * us;  // smpi/ois and smpi/or
    double node = static_cast<double>(machine.nics) * machine.nic;
    const auto group = static_cast<std::int64_t>(kGroupNodes);
    if (machine.taper > 0.0 && nodes > group)
        node = std::min(node, node / machine.taper * asDouble(nodes - 1) / asDouble(nodes - group));
    const double mates = kRanksPerNode - 1;
    ExchangeLinks links;
    links.node = BytesPerSecond(kEfficiency * node);
    links.local =
        BytesPerSecond(kEfficiency * (machine.twin > 0.0 ? mates * machine.port : machine.port));
    links.copy = BytesPerSecond(kCopyRate);
    links.message = Seconds(kMessage);
    links.latency = Seconds(kNicLatency + kSwitchLatency);
    return links;
}

Result<AllToAllAlgorithm> chosen(const Communicator& world, std::int64_t bytes) {
    const char* name = std::getenv("PIPER_SIMULATED_MACHINE");
    const Machine* machine = name == nullptr ? nullptr : machineOf(name);
    if (machine == nullptr)
        return fail(ErrorCode::InvalidInput, "PIPER_SIMULATED_MACHINE names no machine");
    const std::int64_t nodes = world.nodes().back() + 1;
    return pairsChoice(world.size(), nodes, bytes, linksOf(*machine, nodes)).algorithm;
}

Status pairs(Communicator& world, std::int64_t bytes, const std::string& name) {
    const std::int64_t size = world.size();
    SimulatedMemory memory;
    memory.fold(!checks());
    TaggedAllocator allocator(memory);
    PIPER_ASSIGN(Buffer outgoing, allocator.allocate(MemoryTerm::Other, size * bytes));
    PIPER_ASSIGN(Buffer incoming, allocator.allocate(MemoryTerm::Other, size * bytes));
    const std::span<std::byte> send = outgoing.as<std::byte>(), recv = incoming.as<std::byte>();
    if (checks())
        for (std::int64_t to = 0; to < size; ++to)
            std::fill_n(send.begin() + to * bytes, bytes, pattern(world.rank(), to));
    double seconds = 0.0;
    std::string shown = name;
    if (name == "mpi_alltoall") {  // not the v: vendors have more algorithms for it
        const int n = static_cast<int>(bytes);
        PIPER_ASSIGN(seconds, timed(world, [&]() -> Status {
                         MPI_Alltoall(send.data(), n, MPI_BYTE, recv.data(), n, MPI_BYTE,
                                      MPI_COMM_WORLD);
                         return {};
                     }));
    } else {
        const Entry wanted = entry(name);
        PIPER_ASSIGN(auto algorithm, parseEnum<AllToAllAlgorithm>(wanted.algorithm, "algorithm"));
        if (algorithm == AllToAllAlgorithm::Auto) {
            PIPER_ASSIGN(algorithm, chosen(world, bytes));
            shown += ":" + std::string(toText(algorithm));
        }
        PIPER_TRY(checkMovesBlocks(algorithm));
        AllToAll exchange(world, allocator, algorithm);
        exchange.limitInFlight(wanted.in_flight);
        const ExchangeRoute route = exchange.uniformRoute(1);
        PIPER_ASSIGN(seconds, timed(world, [&]() -> Status {
                         PIPER_ASSIGN(
                             auto pending,
                             exchange.start(route, ExchangeDirection::Forward, send, recv, bytes));
                         return pending->wait();
                     }));
    }
    if (checks())
        for (std::int64_t from = 0; from < size; ++from)
            for (std::int64_t i = 0; i < bytes; ++i)
                if (recv[at(from * bytes + i)] != pattern(from, world.rank()))
                    return fail(ErrorCode::External, "{}: byte {} from rank {} is wrong", name, i,
                                from);
    report(world, shown, bytes, seconds);
    return {};
}

struct Moe {
    std::int64_t topk = 8, experts = 256, limit = 0, group_limit = 0;
};
/// Racks by name: the platforms' links know none of this size.
constexpr std::int64_t kSwitchNodes = 4;

/// Even routing: topk experts of each token, on at most `limit` nodes in `group_limit` groups.
std::vector<std::int32_t> route(const Communicator& world, const Moe& moe, std::int64_t tokens) {
    std::minstd_rand random(static_cast<unsigned>(7 + world.rank()));
    const std::int64_t nodes = world.nodes().back() + 1, per_node = moe.experts / nodes;
    std::vector<std::int32_t> order(at(nodes)), places;
    for (std::size_t n = 0; n < order.size(); ++n) order[n] = static_cast<std::int32_t>(n);
    for (std::int64_t t = 0; t < tokens; ++t) {
        std::shuffle(order.begin(), order.end(), random);
        if (moe.group_limit > 0) {  // nodes of the first groups that come up, first
            std::vector<std::int32_t> groups;
            for (const std::int32_t node : order) {
                const auto group = node / static_cast<std::int32_t>(kSwitchNodes);
                if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
            }
            groups.resize(std::min(groups.size(), at(moe.group_limit)));
            std::ranges::stable_partition(order, [&](std::int32_t node) {
                const auto group = node / static_cast<std::int32_t>(kSwitchNodes);
                return std::ranges::find(groups, group) != groups.end();
            });
        }
        const std::int64_t reach = moe.limit > 0 ? std::min(moe.limit, nodes) : nodes;
        std::vector<std::int32_t> experts;
        for (std::int64_t n = 0; n < reach; ++n)
            for (std::int64_t e = 0; e < per_node; ++e)
                experts.push_back(order[at(n)] * static_cast<std::int32_t>(per_node) +
                                  static_cast<std::int32_t>(e));
        std::shuffle(experts.begin(), experts.end(), random);
        places.insert(places.end(), experts.begin(), experts.begin() + moe.topk);
    }
    return places;
}

/// Dispatch and combine of as many tokens as give `bytes` a pair on average, rows of 4 KiB or of
/// all these bytes.
Status moe(Communicator& world, const Moe& moe, std::int64_t bytes, const std::string& name) {
    const std::int64_t row = std::min<std::int64_t>(bytes, 4096), hidden = row / 4;
    const std::int64_t tokens = std::max<std::int64_t>(1, world.size() * bytes / (row * moe.topk));
    const std::vector<std::int32_t> places = route(world, moe, tokens);
    const std::vector<float> weights(places.size(), 0.5F);
    SimulatedMemory memory;
    TaggedAllocator allocator(memory);
    memory.fold(!checks());
    PIPER_ASSIGN(Buffer held_x, allocator.allocateFloats(MemoryTerm::Other, tokens * hidden));
    PIPER_ASSIGN(Buffer held_out, allocator.allocateFloats(MemoryTerm::Other, tokens * hidden));
    const Matrix x = held_x.matrix(tokens, hidden), out = held_out.matrix(tokens, hidden);
    if (checks()) std::fill_n(x.data, tokens * hidden, static_cast<float>(world.rank()));
    TokenExchangeOptions options;
    const Entry wanted = entry(name);
    PIPER_ASSIGN(options.algorithm, parseEnum<TokenAlgorithm>(wanted.algorithm, "algorithm"));
    options.in_flight = wanted.in_flight;
    options.hidden = hidden;
    options.local_experts = moe.experts / world.size();
    for (const std::int64_t node : world.nodes()) options.racks.push_back(node / kSwitchNodes);
    PIPER_ASSIGN(auto exchange, makeTokenExchange(world, allocator, options));
    memory.fold(false);  // what the ranks tell each other of the tokens
    PIPER_ASSIGN(const double seconds, timed(world, [&]() -> Status {
                     const TokenRouting routing{tokens, moe.topk, places, weights};
                     PIPER_ASSIGN(auto routes, exchange->route(std::span(&routing, 1)));
                     RoutedTokens& routed = *routes.front();
                     memory.fold(!checks());
                     PIPER_ASSIGN(Buffer rows, allocator.allocateFloats(MemoryTerm::Other,
                                                                        routed.rows() * hidden));
                     const Matrix y = rows.matrix(routed.rows(), hidden);
                     PIPER_ASSIGN(auto there, exchange->dispatch(routed, x, y));
                     PIPER_TRY(there->wait());
                     PIPER_ASSIGN(auto back, exchange->combine(routed, y, out, Store::Overwrite));
                     return back->wait();
                 }));
    const float expected = static_cast<float>(world.rank() * moe.topk) * 0.5F;
    if (checks() &&
        std::any_of(out.data, out.data + tokens * hidden, [&](float v) { return v != expected; }))
        return fail(ErrorCode::External, "{}: a combined element is not {}", name, expected);
    report(world, name, bytes, seconds);
    return {};
}

Status run(Communicator& world, const std::vector<std::string>& arguments) {
    const bool plain = arguments.size() == 3 && arguments[0] == "pairs";
    if (!plain && !(arguments.size() == 7 && arguments[0] == "moe"))
        return fail(ErrorCode::InvalidInput, "usage: see the head of simulate.cpp");
    const Moe shape = plain ? Moe{}
                            : Moe{std::stoll(arguments[2]), std::stoll(arguments[3]),
                                  std::stoll(arguments[4]), std::stoll(arguments[5])};
    for (const std::string& bytes : split(arguments[1]))
        for (const std::string& name : split(arguments.back()))
            PIPER_TRY(plain ? pairs(world, std::stoll(bytes), name)
                            : moe(world, shape, std::stoll(bytes), name));
    return {};
}

}  // namespace
}  // namespace piper

int main(int argc, char** argv) {
    auto transport = piper::makeMpiTransport({});
    if (!transport.ok()) {
        std::fprintf(stderr, "simulate: %s\n", transport.error().text().c_str());
        return 1;
    }
    const piper::Status status = piper::run((*transport)->world(), {argv + 1, argv + argc});
    if (status.ok()) return 0;
    std::fprintf(stderr, "simulate: rank %d: %s\n", static_cast<int>((*transport)->world().rank()),
                 status.error().text().c_str());
    (*transport)->abort(1);
}
