// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/token_exchange.h"

#include <numeric>

#include "kernels/alltoall/exchange_tags.h"
#include "kernels/alltoall/path_token_exchange.h"
#include "kernels/alltoall/token_script.h"

namespace piper {

template <>
std::span<const EnumName<TokenAlgorithm>> enumNames<TokenAlgorithm>() {
    static constexpr EnumName<TokenAlgorithm> rows[] = {{TokenAlgorithm::Vendor, "vendor"},
                                                        {TokenAlgorithm::Flat, "flat"},
                                                        {TokenAlgorithm::Node, "node"},
                                                        {TokenAlgorithm::Rail, "rail"},
                                                        {TokenAlgorithm::NodePair, "node_pair"},
                                                        {TokenAlgorithm::RankDedup, "rank_dedup"},
                                                        {TokenAlgorithm::NodeDedup, "node_dedup"},
                                                        {TokenAlgorithm::RackDedup, "rack_dedup"}};
    return rows;
}

bool deduplicates(TokenAlgorithm algorithm) {
    return algorithm >= TokenAlgorithm::RankDedup;
}

AllToAllAlgorithm wayOf(TokenAlgorithm algorithm) {
    switch (algorithm) {
        case TokenAlgorithm::Vendor:
            return AllToAllAlgorithm::Vendor;
        case TokenAlgorithm::Node:
            return AllToAllAlgorithm::Node;
        case TokenAlgorithm::Rail:
            return AllToAllAlgorithm::Rail;
        case TokenAlgorithm::NodePair:
            return AllToAllAlgorithm::NodePair;
        default:
            return AllToAllAlgorithm::Flat;
    }
}

Result<ExchangeTiers> dedupTiers(TokenAlgorithm algorithm, const std::vector<std::int64_t>& nodes,
                                 const std::vector<std::int64_t>& racks) {
    const auto size = static_cast<std::int64_t>(nodes.size());
    std::vector<std::vector<std::int64_t>> tiers;
    if (algorithm == TokenAlgorithm::RackDedup) tiers.push_back(racks);
    if (algorithm != TokenAlgorithm::RankDedup) tiers.push_back(nodes);
    return ExchangeTiers::make(size, std::move(tiers));
}

namespace {

class DedupTokens final : public RoutedTokens {
public:
    explicit DedupTokens(TokenRoute made) : route(std::move(made)) {}
    [[nodiscard]] std::int64_t rows() const override { return route.rows(); }
    [[nodiscard]] std::span<const std::int64_t> offsets() const override { return route.offsets; }

    TokenRoute route;
    std::vector<float> row_scalars;  ///< [rows] of d_out with y
};

class DedupExchange final : public TokenExchange {
public:
    DedupExchange(Communicator& group, TaggedAllocator& allocator,
                  const TokenExchangeOptions& options, ExchangeTiers tiers)
        : m_group(group), m_allocator(allocator), m_options(options), m_tiers(std::move(tiers)) {}

    Result<Routes> route(std::span<const TokenRouting> chunks) override {
        PIPER_ASSIGN(
            std::vector<TokenRoute> made,
            makeTokenRoutes(m_group, m_tiers, m_options.local_experts, chunks, m_tags.next()));
        Routes out;
        for (TokenRoute& one : made) out.push_back(std::make_unique<DedupTokens>(std::move(one)));
        return out;
    }
    Transfer dispatch(RoutedTokens& routed, ConstMatrix x, Matrix rows) override {
        return run(spreadScript({routeOf(routed), m_options.wire, x, rows, {}}, m_allocator));
    }
    Transfer combine(RoutedTokens& routed, ConstMatrix y, Matrix out, Store store) override {
        ReduceProblem problem{routeOf(routed), m_options.wire, y, true, out, store, false, {}, {}};
        return run(reduceScript(std::move(problem), m_allocator));
    }
    Transfer combineGrad(RoutedTokens& routed, ConstMatrix d_out, ConstMatrix y,
                         Matrix d_y) override {
        auto& tokens = static_cast<DedupTokens&>(routed);
        tokens.row_scalars.resize(tokens.route.locals.size());
        const auto hook = [&tokens, y, d_y](std::int64_t row, const TokenRoute::Slot& slot) {
            float dot = 0.0F;
            for (std::int64_t i = 0; i < d_y.cols; ++i) {
                dot += d_y.at(row, i) * y.at(row, i);
                d_y.at(row, i) *= slot.weight;
            }
            tokens.row_scalars[static_cast<std::size_t>(row)] = dot;
        };
        return run(spreadScript({tokens.route, m_options.wire, d_out, d_y, hook}, m_allocator));
    }
    Transfer dispatchGrad(RoutedTokens& routed, ConstMatrix d_rows, Matrix dx,
                          std::span<float> d_weights, Store store) override {
        const auto& tokens = static_cast<DedupTokens&>(routed);
        ReduceProblem problem{tokens.route, m_options.wire,     d_rows,   false, dx, store,
                              true,         tokens.row_scalars, d_weights};
        return run(reduceScript(std::move(problem), m_allocator));
    }

private:
    static const TokenRoute& routeOf(RoutedTokens& routed) {
        return static_cast<DedupTokens&>(routed).route;
    }
    Transfer run(Result<ExchangeScript> script) {
        if (!script.ok()) return std::move(script).error();
        return runScript(m_group, std::move(script).value(), m_tags.next(), m_options.in_flight);
    }

    Communicator& m_group;
    TaggedAllocator& m_allocator;
    TokenExchangeOptions m_options;
    ExchangeTiers m_tiers;
    ExchangeTags m_tags{ExchangeTags::kTokens};
};

}  // namespace

Result<std::unique_ptr<TokenExchange>> makeTokenExchange(Communicator& group,
                                                         TaggedAllocator& allocator,
                                                         const TokenExchangeOptions& options) {
    if (options.hidden < 1 || options.local_experts < 1)
        return fail(ErrorCode::InvalidInput, "rows of {} elements for {} experts a rank",
                    options.hidden, options.local_experts);
    if (!deduplicates(options.algorithm)) return makePathTokenExchange(group, allocator, options);
    PIPER_ASSIGN(ExchangeTiers tiers, dedupTiers(options.algorithm, group.nodes(), options.racks));
    return std::unique_ptr<TokenExchange>(
        std::make_unique<DedupExchange>(group, allocator, options, std::move(tiers)));
}

}  // namespace piper
