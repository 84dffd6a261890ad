// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/token_exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kernels/alltoall/token_traffic.h"
#include "tests/kernels/support/mpi_main.h"

namespace piper {
namespace {

constexpr std::int64_t kTopk = 3, kLocalExperts = 2, kHidden = 37;
constexpr TokenAlgorithm kAll[] = {TokenAlgorithm::Vendor,    TokenAlgorithm::Flat,
                                   TokenAlgorithm::Node,      TokenAlgorithm::Rail,
                                   TokenAlgorithm::NodePair,  TokenAlgorithm::RankDedup,
                                   TokenAlgorithm::NodeDedup, TokenAlgorithm::RackDedup};

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}
Communicator& world() {
    return test::transport().world();
}
std::int64_t experts() {
    return kLocalExperts * world().size();
}

enum class Load { Uneven, OneExpert, NoTokens, ZeroRows };

/// The tokens of one rank; every rank can make those of any other.
struct Tokens {
    std::int64_t source, count, topk;
    std::vector<std::int32_t> places;
    std::vector<float> weights, x, d_out;

    Tokens(Load load, std::int64_t rank, std::int64_t chunk)
        : source(rank), count((rank * 5 + 3 + chunk) % 7 * 4), topk(std::min(kTopk, experts())) {
        if (load == Load::NoTokens) count = 0;
        std::minstd_rand random(static_cast<unsigned>(1 + rank + 50 * chunk));
        std::vector<std::int32_t> all(at(experts()));
        for (std::size_t e = 0; e < all.size(); ++e) all[e] = static_cast<std::int32_t>(e);
        for (std::int64_t t = 0; t < count; ++t) {
            if (load != Load::OneExpert) std::shuffle(all.begin(), all.end(), random);
            places.insert(places.end(), all.begin(), all.begin() + topk);
        }
        // Small integers and quarters: sums are exact in any order.
        const auto small = [&] { return static_cast<float>(static_cast<int>(random() % 9) - 4); };
        for (std::size_t i = 0; i < places.size(); ++i)
            weights.push_back(static_cast<float>(random() % 8) / 4.0F);
        for (std::int64_t i = 0; i < count * kHidden; ++i) {
            x.push_back(load == Load::ZeroRows ? 0.0F : small());
            d_out.push_back(small());
        }
    }
    [[nodiscard]] ConstMatrix matrix(const std::vector<float>& values) const {
        return {values.data(), count, kHidden};
    }
    [[nodiscard]] TokenRouting routing() const { return {count, topk, places, weights}; }
};

/// What the expert at `place` makes of an element.
float expertOf(std::int32_t place, float x) {
    return x * static_cast<float>(place % 3 + 1) + static_cast<float>(place % 5);
}
float expertSlope(std::int32_t place) {
    return static_cast<float>(place % 3 + 1);
}

/// Rows as every algorithm must deliver them: {source, slot} by local expert, source, token.
std::vector<std::pair<std::int64_t, std::int64_t>> expectedRows(const std::vector<Tokens>& all) {
    std::vector<std::pair<std::int64_t, std::int64_t>> rows;
    for (std::int64_t e = 0; e < kLocalExperts; ++e)
        for (const Tokens& tokens : all)
            for (std::size_t slot = 0; slot < tokens.places.size(); ++slot)
                if (tokens.places[slot] == world().rank() * kLocalExperts + e)
                    rows.emplace_back(tokens.source, slot);
    return rows;
}

/// Largest allowed distance of values that travelled once or were summed on the way.
float tolerance(WireFormat wire, float magnitude) {
    if (wire == WireFormat::Fp32) return 0.0F;
    return magnitude * (wire == WireFormat::Bf16 ? 1.0F / 64 : 1.0F / 4);
}

class Exchanged {
public:
    Exchanged(TokenAlgorithm algorithm, WireFormat wire, Load load)
        : m_algorithm(algorithm), m_wire(wire), m_load(load) {
        m_options.algorithm = algorithm;
        m_options.hidden = kHidden;
        m_options.local_experts = kLocalExperts;
        m_options.wire = wire;
        // Nodes 0, 1 | 2, 3 | ...: two of them to a rack.
        for (const std::int64_t node : world().nodes()) m_options.racks.push_back(node / 2);
    }

    void run() {
        TaggedAllocator allocator;
        auto made = makeTokenExchange(world(), allocator, m_options);
        ASSERT_TRUE(made.ok()) << made.error().text();
        TokenExchange& exchange = **made;
        constexpr std::int64_t kChunks = 2;
        std::vector<std::vector<Tokens>> chunks;  // [chunk][rank]
        std::vector<TokenRouting> routings;
        for (std::int64_t c = 0; c < kChunks; ++c) {
            chunks.emplace_back();
            for (std::int64_t r = 0; r < world().size(); ++r)
                chunks.back().emplace_back(m_load, r, c);
            routings.push_back(chunks.back()[at(world().rank())].routing());
        }
        auto routes = exchange.route(routings);
        ASSERT_TRUE(routes.ok()) << routes.error().text();
        for (std::size_t c = 0; c < chunks.size(); ++c) check(exchange, *(*routes)[c], chunks[c]);
        EXPECT_EQ(allocator.currentBytes(), 0) << "staging memory is given back";
        ASSERT_TRUE(world().barrier().ok());
    }

private:
    void check(TokenExchange& exchange, RoutedTokens& routed, const std::vector<Tokens>& all) {
        const Tokens& own = all[at(world().rank())];
        const auto expected = expectedRows(all);
        ASSERT_EQ(routed.rows(), static_cast<std::int64_t>(expected.size()));
        ASSERT_EQ(routed.offsets().back(), routed.rows());
        const TokenTraffic traffic = closedForm(all);
        std::vector<float> rows(expected.size() * kHidden), d_y(rows.size());
        std::vector<float> out(own.x.size(), -1.0F), dx(out.size(), 2.0F);
        std::vector<float> d_weights(own.places.size());
        const auto matrix = [&](std::vector<float>& v, std::size_t n) {
            return Matrix(v.data(), static_cast<std::int64_t>(n), kHidden);
        };
        const Matrix y = matrix(rows, expected.size()), grad = matrix(d_y, expected.size());

        finish([&] { return exchange.dispatch(routed, own.matrix(own.x), y); }, traffic.spread);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            const auto& [source, slot] = expected[i];
            const Tokens& from = all[at(source)];
            const std::int32_t place = from.places[at(slot)];
            for (std::int64_t c = 0; c < kHidden; ++c) {
                const float x = from.x[at(slot / from.topk * kHidden + c)];
                float& value = rows[i * kHidden + at(c)];
                ASSERT_NEAR(value, x, tolerance(m_wire, 4)) << "row " << i;
                value = expertOf(place, x);
            }
        }
        finish(
            [&] {
                return exchange.combine(routed, y, matrix(out, at(own.count)), Store::Overwrite);
            },
            traffic.reduce);
        finish([&] { return exchange.combineGrad(routed, own.matrix(own.d_out), y, grad); },
               traffic.spread);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            const auto& [source, slot] = expected[i];
            const Tokens& from = all[at(source)];
            for (std::int64_t c = 0; c < kHidden; ++c) {
                const float d = from.d_out[at(slot / from.topk * kHidden + c)];
                float& value = d_y[i * kHidden + at(c)];
                ASSERT_NEAR(value, d * from.weights[at(slot)], tolerance(m_wire, 8));
                value = d * from.weights[at(slot)] * expertSlope(from.places[at(slot)]);
            }
        }
        finish(
            [&] {
                return exchange.dispatchGrad(routed, grad, matrix(dx, at(own.count)), d_weights,
                                             Store::Accumulate);
            },
            traffic.reduce_scalars);
        checkTokens(own, out, dx, d_weights);
    }

    void checkTokens(const Tokens& own, const std::vector<float>& out, const std::vector<float>& dx,
                     const std::vector<float>& d_weights) const {
        for (std::int64_t t = 0; t < own.count; ++t) {
            std::vector<float> dot(at(own.topk), 0.0F);
            for (std::int64_t c = 0; c < kHidden; ++c) {
                const std::size_t i = at(t * kHidden + c);
                float sum = 0.0F, d_sum = 2.0F;
                for (std::int64_t k = 0; k < own.topk; ++k) {
                    const std::size_t slot = at(t * own.topk + k);
                    const float y = expertOf(own.places[slot], own.x[i]);
                    sum += own.weights[slot] * y;
                    d_sum += own.weights[slot] * own.d_out[i] * expertSlope(own.places[slot]);
                    dot[at(k)] += own.d_out[i] * y;
                }
                ASSERT_NEAR(out[i], sum, tolerance(m_wire, 48)) << "token " << t;
                ASSERT_NEAR(dx[i], d_sum, tolerance(m_wire, 48)) << "token " << t;
            }
            for (std::int64_t k = 0; k < own.topk; ++k)
                ASSERT_NEAR(d_weights[at(t * own.topk + k)], dot[at(k)], tolerance(m_wire, 400));
        }
    }

    /// Runs one transfer and holds what the transport counted against the closed form.
    template <class Start>
    void finish(const Start& start, const ExchangeTraffic& expected) const {
        const TransportCounters before = world().counters();
        auto transfer = start();
        ASSERT_TRUE(transfer.ok()) << transfer.error().text();
        const Status status = (*transfer)->wait();
        ASSERT_TRUE(status.ok()) << status.error().text();
        const TransportCounters& after = world().counters();
        const ExchangeTraffic counted{after.messages_sent - before.messages_sent,
                                      after.bytes_sent - before.bytes_sent,
                                      after.inter_node_messages - before.inter_node_messages,
                                      after.inter_node_bytes - before.inter_node_bytes};
        EXPECT_EQ(counted, expected) << toText(m_algorithm);
    }

    [[nodiscard]] TokenTraffic closedForm(const std::vector<Tokens>& all) const {
        SlotOwners owners;
        for (const Tokens& tokens : all) {
            owners.emplace_back();
            for (const std::int32_t place : tokens.places)
                owners.back().push_back(place / kLocalExperts);
        }
        const std::int64_t row = wireRowBytes(m_wire, kHidden);
        const std::size_t rank = at(world().rank());
        if (deduplicates(m_algorithm)) {
            const auto tiers = dedupTiers(m_algorithm, world().nodes(), m_options.racks);
            return tokenTraffic(*tiers, world().nodes(), owners, all.front().topk, row)[rank];
        }
        const ExchangeTopology topology(world().nodes());
        const AlgorithmChoice choice =
            chooseAlgorithm(wayOf(m_algorithm), topology.size(), topology.numNodes());
        TokenTraffic out;
        out.spread = exchangeTraffic(choice.algorithm, topology, slotRows(owners), row)[rank];
        out.reduce = mirroredTraffic(choice.algorithm, topology, slotRows(owners), row)[rank];
        out.reduce_scalars = out.reduce;
        return out;
    }

    TokenAlgorithm m_algorithm;
    WireFormat m_wire;
    Load m_load;
    TokenExchangeOptions m_options;
};

TEST(TokenExchange, EveryAlgorithmGivesTheReferenceThereAndBack) {
    for (const TokenAlgorithm algorithm : kAll)
        for (const Load load : {Load::Uneven, Load::OneExpert, Load::NoTokens, Load::ZeroRows})
            Exchanged(algorithm, WireFormat::Fp32, load).run();
}

TEST(TokenExchange, NarrowRowsOnTheWire) {
    for (const TokenAlgorithm algorithm : {TokenAlgorithm::Flat, TokenAlgorithm::NodeDedup})
        for (const WireFormat wire : {WireFormat::Bf16, WireFormat::Fp8})
            Exchanged(algorithm, wire, Load::Uneven).run();
}

TEST(TokenExchange, WrongRoutingsAreRefused) {
    TaggedAllocator allocator;
    TokenExchangeOptions options;
    for (const TokenAlgorithm algorithm : {TokenAlgorithm::Flat, TokenAlgorithm::NodeDedup}) {
        options.algorithm = algorithm;
        auto exchange = makeTokenExchange(world(), allocator, options);
        ASSERT_TRUE(exchange.ok());
        const std::vector<std::int32_t> outside = {static_cast<std::int32_t>(world().size())};
        const std::vector<float> weight = {1.0F};
        const TokenRouting bad[] = {{1, 1, outside, weight}}, unequal[] = {{2, 1, outside, weight}};
        EXPECT_FALSE((*exchange)->route(bad).ok());
        EXPECT_FALSE((*exchange)->route(unequal).ok());
    }
    options.hidden = 0;
    EXPECT_FALSE(makeTokenExchange(world(), allocator, options).ok());
}

}  // namespace
}  // namespace piper
