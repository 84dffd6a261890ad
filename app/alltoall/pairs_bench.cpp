// SPDX-License-Identifier: Apache-2.0
#include "app/alltoall/bench.h"
#include "app/alltoall/contest.h"
#include "core/base/cast.h"
#include "kernels/alltoall/alltoall.h"

namespace piper::app {
namespace {

std::byte pattern(std::int64_t from, std::int64_t to, std::int64_t i) {
    return static_cast<std::byte>((from * 37 + to * 11 + i) & 0xFF);
}

/// `size` bytes between all pairs.
class PairRun {
public:
    PairRun(Communicator& world, std::int64_t size) : m_world(world), m_size(size) {
        m_send.resize(at(world.size() * size));
        m_recv.resize(m_send.size());
        for (std::int64_t to = 0; to < world.size(); ++to)
            for (std::int64_t i = 0; i < size; ++i)
                m_send[at(to * size + i)] = pattern(world.rank(), to, i);
    }
    Status make(const std::string& name) {
        PIPER_ASSIGN(const auto algorithm, parseEnum<AllToAllAlgorithm>(name, "algorithm"));
        PIPER_TRY(checkMovesBlocks(algorithm));
        m_exchange = std::make_unique<AllToAll>(m_world, m_allocator, algorithm);
        m_route = m_exchange->uniformRoute(1);
        return {};
    }
    Status pass() {
        PIPER_ASSIGN(auto transfer, m_exchange->start(m_route, ExchangeDirection::Forward, m_send,
                                                      m_recv, m_size));
        return transfer->wait();
    }
    Status check() {
        PIPER_TRY(pass());
        for (std::int64_t from = 0; from < m_world.size(); ++from)
            for (std::int64_t i = 0; i < m_size; ++i)
                if (m_recv[at(from * m_size + i)] != pattern(from, m_world.rank(), i))
                    return fail(ErrorCode::External, "byte {} from rank {} is wrong", i, from);
        return {};
    }

private:
    Communicator& m_world;
    std::int64_t m_size;
    std::vector<std::byte> m_send, m_recv;
    TaggedAllocator m_allocator;
    std::unique_ptr<AllToAll> m_exchange;
    ExchangeRoute m_route;
};

}  // namespace

Result<Json> benchPairs(Communicator& world, const BenchOptions& o) {
    std::vector<std::string> names = o.algorithms;
    if (names.empty()) names = {"vendor", "flat", "node", "rail", "node_pair"};
    names.insert(names.begin() + 1, names.front());
    Json out = {{"format_version", 1}, {"bench", "pairs"}, {"ranks", world.size()}};
    out["sizes"] = Json::array();
    for (const std::int64_t size : o.sizes) {
        std::vector<std::unique_ptr<PairRun>> runs;
        std::vector<Contestant> contestants;
        for (const std::string& name : names) {
            runs.push_back(std::make_unique<PairRun>(world, size));
            PairRun& run = *runs.back();
            PIPER_TRY(run.make(name));
            Status right = run.check();
            if (!right.ok()) return std::move(right).error().withContext(name);
            contestants.push_back({name, [&run] { return run.pass(); }});
        }
        contestants[1].name += " (again)";
        PIPER_ASSIGN(const std::vector<ContestResult> results,
                     holdContest(world, contestants, o.pairs));
        out["sizes"].push_back(
            {{"bytes_per_pair", size}, {"results", contestJson(results, o.rate())}});
    }
    return out;
}

}  // namespace piper::app
