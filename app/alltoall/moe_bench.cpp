// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "app/alltoall/bench.h"
#include "app/files/files.h"
#include "core/base/cast.h"
#include "core/base/json.h"
#include "kernels/alltoall/selector.h"
#include "kernels/alltoall/token_exchange.h"

namespace piper::app {
namespace {

/// The tokens of this rank: routing drawn without replacement, expert e with a chance in proportion
/// to 1 / (popularity of e)^zipf, on at most node_limit nodes.
struct Tokens {
    std::vector<std::int32_t> places;
    std::vector<float> weights, x;
};

std::vector<std::int64_t> nodesOfExperts(const Communicator& world, std::int64_t experts) {
    std::vector<std::int64_t> out;
    for (std::int64_t e = 0; e < experts; ++e)
        out.push_back(world.nodes()[at(e / (experts / world.size()))]);
    return out;
}

std::vector<double> popularity(const BenchOptions& o) {
    std::vector<double> chance(at(o.experts));
    for (std::size_t e = 0; e < chance.size(); ++e)
        chance[e] = std::pow(static_cast<double>(e + 1), -o.zipf);
    std::minstd_rand random(77);  // hot experts lie anywhere
    std::shuffle(chance.begin(), chance.end(), random);
    return chance;
}

Tokens makeTokens(const Communicator& world, const BenchOptions& o) {
    std::minstd_rand random(static_cast<unsigned>(1000 + world.rank()));
    const std::vector<std::int64_t> node_of = nodesOfExperts(world, o.experts);
    std::vector<std::int64_t> nodes = world.nodes();
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    const std::vector<double> chance = popularity(o);
    Tokens out;
    for (std::int64_t t = 0; t < o.tokens; ++t) {
        std::shuffle(nodes.begin(), nodes.end(), random);
        const std::size_t reach =
            o.node_limit > 0 ? std::min(at(o.node_limit), nodes.size()) : nodes.size();
        std::vector<double> left = chance;
        for (std::size_t e = 0; e < left.size(); ++e)
            if (std::find(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(reach),
                          node_of[e]) == nodes.begin() + static_cast<std::ptrdiff_t>(reach))
                left[e] = 0.0;
        for (std::int64_t k = 0; k < o.topk; ++k) {
            std::discrete_distribution<std::int32_t> draw(left.begin(), left.end());
            out.places.push_back(draw(random));
            left[at(out.places.back())] = 0.0;
            out.weights.push_back(static_cast<float>(random() % 8 + 1) / 8.0F);
        }
    }
    for (std::int64_t i = 0; i < o.tokens * o.hidden; ++i)
        out.x.push_back(static_cast<float>(static_cast<int>(random() % 17) - 8));
    return out;
}

float expertFactor(std::int64_t place) {
    return static_cast<float>(place % 3 + 1);
}

/// One algorithm with its buffers.
class MoeRun {
public:
    MoeRun(Communicator& world, const BenchOptions& o, const Tokens& tokens)
        : m_world(world), m_options(o), m_tokens(tokens), m_out(tokens.x.size()) {}

    Status make(TokenAlgorithm algorithm) {
        TokenExchangeOptions options;
        options.algorithm = algorithm;
        options.hidden = m_options.hidden;
        options.local_experts = m_options.experts / m_world.size();
        PIPER_ASSIGN(options.wire, parseEnum<WireFormat>(m_options.wire, "wire format"));
        options.racks = m_options.racks;
        PIPER_ASSIGN(m_exchange, makeTokenExchange(m_world, m_allocator, options));
        return {};
    }
    /// Routing, dispatch, `work` on the rows, combine.
    template <class Work>
    Status pass(const Work& work) {
        const BenchOptions& o = m_options;
        const TokenRouting routing{o.tokens, o.topk, m_tokens.places, m_tokens.weights};
        PIPER_ASSIGN(auto routes, m_exchange->route(std::span(&routing, 1)));
        RoutedTokens& routed = *routes.front();
        PIPER_ASSIGN(Buffer rows, m_allocator.allocateFloats(MemoryTerm::DispatchedRows,
                                                             routed.rows() * o.hidden));
        const Matrix y = rows.matrix(routed.rows(), o.hidden);
        PIPER_ASSIGN(auto there,
                     m_exchange->dispatch(routed, {m_tokens.x.data(), o.tokens, o.hidden}, y));
        PIPER_TRY(there->wait());
        work(y, routed.offsets());
        PIPER_ASSIGN(auto back, m_exchange->combine(routed, y, {m_out.data(), o.tokens, o.hidden},
                                                    Store::Overwrite));
        return back->wait();
    }
    Status check() {
        const std::int64_t first = m_options.experts / m_world.size() * m_world.rank();
        PIPER_TRY(pass([&](Matrix y, std::span<const std::int64_t> offsets) {
            for (std::size_t e = 0; e + 1 < offsets.size(); ++e)
                for (std::int64_t r = offsets[e]; r < offsets[e + 1]; ++r)
                    for (float& v : std::span(y.row(r), at(y.cols)))
                        v *= expertFactor(first + static_cast<std::int64_t>(e));
        }));
        const float allowed = m_options.wire == "fp32" ? 0.0F : m_options.wire == "bf16" ? 4 : 32;
        for (std::int64_t t = 0; t < m_options.tokens; ++t) {
            float factor = 0.0F;
            for (std::int64_t k = 0; k < m_options.topk; ++k) {
                const std::size_t slot = at(t * m_options.topk + k);
                factor += m_tokens.weights[slot] * expertFactor(m_tokens.places[slot]);
            }
            for (std::int64_t c = 0; c < m_options.hidden; ++c) {
                const std::size_t i = at(t * m_options.hidden + c);
                if (std::fabs(m_out[i] - factor * m_tokens.x[i]) > allowed)
                    return fail(ErrorCode::External, "token {} element {}: {} instead of {}", t, c,
                                m_out[i], factor * m_tokens.x[i]);
            }
        }
        return {};
    }

private:
    Communicator& m_world;
    const BenchOptions& m_options;
    const Tokens& m_tokens;
    std::vector<float> m_out;
    TaggedAllocator m_allocator;
    std::unique_ptr<TokenExchange> m_exchange;
};

/// Owners of the slots of every rank's tokens.
Result<SlotOwners> gatherOwners(Communicator& world, const BenchOptions& o, const Tokens& tokens) {
    std::vector<std::int32_t> all(tokens.places.size() * at(world.size()));
    PIPER_TRY(world.allGather(std::as_bytes(std::span(tokens.places)),
                              std::as_writable_bytes(std::span(all))));
    SlotOwners owners;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (i % tokens.places.size() == 0) owners.emplace_back();
        owners.back().push_back(all[i] / (o.experts / world.size()));
    }
    return owners;
}

/// Rows that reach the hottest rank, over the mean.
Result<double> imbalance(Communicator& world, const BenchOptions& o, const Tokens& tokens) {
    std::vector<double> rows(at(world.size()), 0.0);
    for (const std::int32_t place : tokens.places)
        rows[at(place / (o.experts / world.size()))] += 1;
    PIPER_TRY(world.allReduceSum(std::span<double>(rows)));
    const double sum = std::accumulate(rows.begin(), rows.end(), 0.0);
    return *std::ranges::max_element(rows) * static_cast<double>(world.size()) / sum;
}

std::int64_t reach(const BenchOptions& o, std::int64_t nodes) {
    return o.node_limit > 0 ? std::min(o.node_limit, nodes) : nodes;
}

Status checkOptions(const Communicator& world, const BenchOptions& o) {
    if (o.experts % world.size() != 0)
        return fail(ErrorCode::InvalidInput, "--experts {} over {} ranks: not the same number each",
                    o.experts, world.size());
    if (o.topk > o.experts)
        return fail(ErrorCode::InvalidInput, "--topk {} of {} experts", o.topk, o.experts);
    const std::int64_t nodes = ExchangeTopology(world.nodes()).numNodes();
    if (o.node_limit > 0 && o.node_limit * (o.experts / nodes) < o.topk)
        return fail(ErrorCode::InvalidInput,
                    "--node-limit {}: so many of {} nodes hold {} experts, a token needs {}",
                    o.node_limit, nodes, o.node_limit * (o.experts / nodes), o.topk);
    return {};
}

}  // namespace

Result<MoeContest> holdMoeContest(Communicator& world, const BenchOptions& o,
                                  std::vector<std::string> names) {
    PIPER_TRY(checkOptions(world, o));
    const Tokens tokens = makeTokens(world, o);
    // The baseline a second time: what ratios mean nothing.
    names.insert(names.begin() + 1, names.front());
    std::vector<std::unique_ptr<MoeRun>> runs;
    std::vector<Contestant> contestants;
    for (const std::string& name : names) {
        PIPER_ASSIGN(const auto algorithm, parseEnum<TokenAlgorithm>(name, "algorithm"));
        runs.push_back(std::make_unique<MoeRun>(world, o, tokens));
        MoeRun& run = *runs.back();
        PIPER_TRY(run.make(algorithm));
        Status right = run.check();
        if (!right.ok()) return std::move(right).error().withContext(name);
        contestants.push_back(
            {name, [&run] { return run.pass([](Matrix, std::span<const std::int64_t>) {}); }});
    }
    contestants[1].name += " (again)";
    MoeContest out;
    PIPER_ASSIGN(out.imbalance, imbalance(world, o, tokens));
    PIPER_ASSIGN(out.results, holdContest(world, contestants, o.pairs));
    return out;
}

Result<Json> benchMoe(Communicator& world, const BenchOptions& o) {
    std::vector<std::string> names = o.algorithms;
    if (names.empty()) names = {"vendor", "flat", "node", "rank_dedup", "node_dedup"};
    PIPER_ASSIGN(const MoeContest contest, holdMoeContest(world, o, std::move(names)));
    return Json{{"format_version", 1},
                {"bench", "moe"},
                {"ranks", world.size()},
                {"tokens", o.tokens},
                {"row_bytes", wireRowBytes(WireFormat::Fp32, o.hidden)},
                {"topk", o.topk},
                {"experts", o.experts},
                {"node_limit", o.node_limit},
                {"zipf", o.zipf},
                {"imbalance", contest.imbalance},
                {"wire", o.wire},
                {"results", contestJson(contest.results, o.rate())}};
}

Result<Json> explainMoe(Communicator& world, const BenchOptions& o) {
    PIPER_TRY(checkOptions(world, o));
    if (o.rate_mbit <= 0.0 && o.cluster.empty())
        return fail(ErrorCode::InvalidInput,
                    "explain needs --rate-mbit, a node's link, or --cluster, a file that has it");
    PIPER_ASSIGN(const auto wire, parseEnum<WireFormat>(o.wire, "wire format"));
    const Tokens tokens = makeTokens(world, o);
    const std::int64_t nodes = ExchangeTopology(world.nodes()).numNodes();
    const std::int64_t row = wireRowBytes(wire, o.hidden);
    ExchangeLinks links;
    Json out = {{"format_version", 1}, {"bench", "explain"}};
    PIPER_ASSIGN(const double hottest, imbalance(world, o, tokens));
    if (!o.cluster.empty()) {
        PIPER_ASSIGN(const ClusterSpec cluster, loadCluster(o.cluster));
        links =
            exchangeLinks(cluster, static_cast<double>(world.size()) / static_cast<double>(nodes));
        const ExchangeSetting setting{
            world.size(), nodes,           o.tokens, static_cast<double>(row),
            o.topk,       reach(o, nodes), hottest};
        const AlgorithmChoice choice = chooseFor(cluster, setting, o.experts);
        out["auto"] = {{"algorithm", toText(choice.algorithm)}, {"why", choice.reason}};
    }
    if (o.rate_mbit > 0.0) {
        links.node = BytesPerSecond(o.rate());
        links.message = links.latency = Seconds(o.message_us * 1e-6);
    }
    PIPER_ASSIGN(const SlotOwners owners, gatherOwners(world, o, tokens));
    const std::vector<AlgorithmEstimate> estimates =
        estimateAlgorithms(world.nodes(), owners, o.topk, row, links);
    out["why"] = explainChoice(estimates);
    out["algorithms"] = Json::array();
    for (const AlgorithmEstimate& e : estimates)
        out["algorithms"].push_back({{"algorithm", toText(e.algorithm)},
                                     {"seconds", e.cost.total().value},
                                     {"link_seconds", e.cost.link.value},
                                     {"message_seconds", e.cost.messages.value},
                                     {"local_seconds", e.cost.local.value},
                                     {"busiest_node", e.node},
                                     {"busiest_node_bytes", e.cost.node_bytes},
                                     {"rank_messages", e.cost.rank_messages}});
    return out;
}

}  // namespace piper::app
