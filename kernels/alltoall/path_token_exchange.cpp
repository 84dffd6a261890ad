// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/path_token_exchange.h"

#include <algorithm>
#include <cstring>

#include "core/base/cast.h"
#include "kernels/alltoall/alltoall.h"
#include "kernels/ops/permutation.h"

namespace piper {
namespace {

/// n rows go out, one for each slot of a token, sorted by expert; r come in, by source.
class PathTokens final : public RoutedTokens {
public:
    [[nodiscard]] std::int64_t rows() const override { return route.received(); }
    [[nodiscard]] std::span<const std::int64_t> offsets() const override { return expert_offsets; }

    std::int64_t topk = 1;
    std::span<const float> weights;  ///< [n] by slot
    ExchangeRoute route;
    std::vector<std::int32_t> slot_of_row, row_of_slot;      ///< [n]
    std::vector<std::int32_t> row_of_sorted, sorted_of_row;  ///< [r]
    std::vector<std::int64_t> expert_offsets;
    std::vector<float> returned;  ///< [n, H] from combine until the gradient of the weights is made
    std::vector<float> d_weights;  ///< [n] by slot

    [[nodiscard]] std::int64_t slots() const {
        return static_cast<std::int64_t>(slot_of_row.size());
    }
};

/// A transfer with work after it; done when both are.
class FinishedBy final : public PendingTransfer {
public:
    using Finish = std::function<void()>;
    FinishedBy(std::unique_ptr<PendingTransfer> inner, std::vector<Buffer> held, Finish finish)
        : m_held(std::move(held)), m_inner(std::move(inner)), m_finish(std::move(finish)) {}
    ~FinishedBy() override { (void)wait(); }
    FinishedBy(const FinishedBy&) = delete;
    FinishedBy& operator=(const FinishedBy&) = delete;

    [[nodiscard]] bool test() override {
        if (!m_done && !m_inner->test()) return false;
        (void)wait();
        return true;
    }
    Status wait() override {
        if (m_done) return m_status;
        m_done = true;
        m_status = m_inner->wait();
        if (m_status.ok()) m_finish();
        m_inner.reset();
        m_held.clear();
        return m_status;
    }

private:
    std::vector<Buffer> m_held;
    std::unique_ptr<PendingTransfer> m_inner;
    Finish m_finish;
    bool m_done = false;
    Status m_status;
};

class PathExchange final : public TokenExchange {
public:
    PathExchange(Communicator& group, TaggedAllocator& allocator,
                 const TokenExchangeOptions& options)
        : m_group(group),
          m_allocator(allocator),
          m_options(options),
          m_row_bytes(wireRowBytes(options.wire, options.hidden)),
          m_exchange(group, allocator, wayOf(options.algorithm)) {
        m_exchange.limitInFlight(options.in_flight);
    }

    Result<Routes> route(std::span<const TokenRouting> chunks) override;
    Transfer dispatch(RoutedTokens& routed, ConstMatrix x, Matrix rows) override;
    Transfer combine(RoutedTokens& routed, ConstMatrix y, Matrix out, Store store) override;
    Transfer combineGrad(RoutedTokens& routed, ConstMatrix d_out, ConstMatrix y,
                         Matrix d_y) override;
    Transfer dispatchGrad(RoutedTokens& routed, ConstMatrix d_rows, Matrix dx,
                          std::span<float> d_weights, Store store) override;

private:
    using Row = std::span<const float>;
    /// Sends what `rowToSend` gives for each outer (forward) or inner (mirrored) row.
    Transfer move(PathTokens& tokens, ExchangeDirection direction,
                  const std::function<Row(std::int64_t)>& rowToSend,
                  std::function<void(const std::byte*)> finish);
    std::function<void(const std::byte*)> toSorted(const PathTokens& tokens, Matrix rows) const;

    Communicator& m_group;
    TaggedAllocator& m_allocator;
    TokenExchangeOptions m_options;
    std::int64_t m_row_bytes;
    AllToAll m_exchange;
};

Result<TokenExchange::Routes> PathExchange::route(std::span<const TokenRouting> chunks) {
    const std::int64_t experts = m_options.local_experts * m_group.size();
    std::vector<std::int64_t> counts;
    std::vector<std::unique_ptr<PathTokens>> made;
    for (const TokenRouting& chunk : chunks) {
        const std::size_t slots = at(chunk.tokens * chunk.topk);
        if (chunk.places.size() != slots || chunk.weights.size() != slots)
            return fail(ErrorCode::InvalidInput,
                        "{} places and {} weights for {} tokens with {} experts each",
                        chunk.places.size(), chunk.weights.size(), chunk.tokens, chunk.topk);
        auto tokens = std::make_unique<PathTokens>();
        tokens->topk = chunk.topk;
        tokens->weights = chunk.weights;
        tokens->slot_of_row.resize(slots);
        tokens->row_of_slot.resize(slots);
        std::vector<std::int64_t> offsets(at(experts) + 1);
        PIPER_TRY(makePermutation(chunk.places, experts, tokens->slot_of_row, tokens->row_of_slot,
                                  offsets));
        for (std::size_t e = 0; e < at(experts); ++e) counts.push_back(offsets[e + 1] - offsets[e]);
        made.push_back(std::move(tokens));
    }
    PIPER_ASSIGN(std::vector<ExchangeRoute> routes,
                 m_exchange.exchangeCounts(counts, static_cast<std::int64_t>(chunks.size()),
                                           m_options.local_experts));
    Routes out;
    for (std::size_t i = 0; i < made.size(); ++i) {
        PathTokens& tokens = *made[i];
        tokens.route = std::move(routes[i]);
        tokens.row_of_sorted.resize(at(tokens.rows()));
        tokens.expert_offsets.resize(at(m_options.local_experts) + 1);
        makeReceiveOrder(tokens.route.recv_counts, m_options.local_experts, tokens.row_of_sorted,
                         tokens.expert_offsets);
        tokens.sorted_of_row.resize(tokens.row_of_sorted.size());
        for (std::size_t row = 0; row < tokens.row_of_sorted.size(); ++row)
            tokens.sorted_of_row[at(tokens.row_of_sorted[row])] = static_cast<std::int32_t>(row);
        out.push_back(std::move(made[i]));
    }
    return out;
}

TokenExchange::Transfer PathExchange::move(PathTokens& tokens, ExchangeDirection direction,
                                           const std::function<Row(std::int64_t)>& rowToSend,
                                           std::function<void(const std::byte*)> finish) {
    const bool forward = direction == ExchangeDirection::Forward;
    const std::int64_t out = forward ? tokens.slots() : tokens.rows();
    const std::int64_t in = forward ? tokens.rows() : tokens.slots();
    std::vector<Buffer> held(2);
    PIPER_ASSIGN(held[0], m_allocator.allocate(MemoryTerm::CommunicationBuffer, out * m_row_bytes));
    PIPER_ASSIGN(held[1], m_allocator.allocate(MemoryTerm::CommunicationBuffer, in * m_row_bytes));
    const std::span<std::byte> send = held[0].as<std::byte>(), recv = held[1].as<std::byte>();
    for (std::int64_t i = 0; i < out; ++i)
        encodeRow(m_options.wire, rowToSend(i), send.data() + i * m_row_bytes);
    PIPER_ASSIGN(auto inner, m_exchange.start(tokens.route, direction, send, recv, m_row_bytes));
    return std::unique_ptr<PendingTransfer>(std::make_unique<FinishedBy>(
        std::move(inner), std::move(held),
        [finish = std::move(finish), data = recv.data()] { finish(data); }));
}

std::function<void(const std::byte*)> PathExchange::toSorted(const PathTokens& tokens,
                                                             Matrix rows) const {
    return [this, &tokens, rows](const std::byte* arrived) {
        for (std::int64_t i = 0; i < rows.rows; ++i)
            decodeRow(m_options.wire, arrived + tokens.row_of_sorted[at(i)] * m_row_bytes,
                      {rows.row(i), at(rows.cols)});
    };
}

TokenExchange::Transfer PathExchange::dispatch(RoutedTokens& routed, ConstMatrix x, Matrix rows) {
    auto& tokens = static_cast<PathTokens&>(routed);
    const auto send = [&](std::int64_t i) {
        return Row(x.row(tokens.slot_of_row[at(i)] / tokens.topk), at(x.cols));
    };
    return move(tokens, ExchangeDirection::Forward, send, toSorted(tokens, rows));
}

TokenExchange::Transfer PathExchange::combine(RoutedTokens& routed, ConstMatrix y, Matrix out,
                                              Store store) {
    auto& tokens = static_cast<PathTokens&>(routed);
    const auto send = [&](std::int64_t i) {
        return Row(y.row(tokens.sorted_of_row[at(i)]), at(y.cols));
    };
    const auto finish = [this, &tokens, out, store](const std::byte* arrived) {
        const auto width = at(out.cols);
        tokens.returned.resize(at(tokens.slots()) * width);
        if (store == Store::Overwrite) std::ranges::fill(out.span(), 0.0F);
        for (std::size_t slot = 0; slot < tokens.row_of_slot.size(); ++slot) {
            const auto row = at(tokens.row_of_slot[slot]);
            const std::span<float> kept = std::span(tokens.returned).subspan(row * width, width);
            decodeRow(m_options.wire, arrived + row * at(m_row_bytes), kept);
            float* to = out.row(static_cast<std::int64_t>(slot) / tokens.topk);
            for (std::size_t i = 0; i < width; ++i) to[i] += tokens.weights[slot] * kept[i];
        }
    };
    return move(tokens, ExchangeDirection::Mirrored, send, finish);
}

TokenExchange::Transfer PathExchange::combineGrad(RoutedTokens& routed, ConstMatrix d_out,
                                                  ConstMatrix, Matrix d_y) {
    auto& tokens = static_cast<PathTokens&>(routed);
    const auto width = at(d_out.cols);
    if (tokens.returned.size() != at(tokens.slots()) * width)
        return fail(ErrorCode::InvalidInput, "the gradient of a combine that was not done");
    tokens.d_weights.resize(at(tokens.slots()));
    std::vector<float> scaled(width);
    const auto send = [&](std::int64_t i) {
        const auto slot = at(tokens.slot_of_row[at(i)]);
        const float* d = d_out.row(static_cast<std::int64_t>(slot) / tokens.topk);
        const float* y = tokens.returned.data() + at(i) * width;
        float dot = 0.0F;
        for (std::size_t c = 0; c < width; ++c) {
            dot += d[c] * y[c];
            scaled[c] = d[c] * tokens.weights[slot];
        }
        tokens.d_weights[slot] = dot;
        return Row(scaled);
    };
    Transfer transfer = move(tokens, ExchangeDirection::Forward, send, toSorted(tokens, d_y));
    tokens.returned = {};
    return transfer;
}

TokenExchange::Transfer PathExchange::dispatchGrad(RoutedTokens& routed, ConstMatrix d_rows,
                                                   Matrix dx, std::span<float> d_weights,
                                                   Store store) {
    auto& tokens = static_cast<PathTokens&>(routed);
    std::ranges::copy(tokens.d_weights, d_weights.begin());
    const auto send = [&](std::int64_t i) {
        return Row(d_rows.row(tokens.sorted_of_row[at(i)]), at(d_rows.cols));
    };
    const auto finish = [this, &tokens, dx, store](const std::byte* arrived) {
        if (store == Store::Overwrite) std::ranges::fill(dx.span(), 0.0F);
        for (std::size_t slot = 0; slot < tokens.row_of_slot.size(); ++slot)
            addDecodedRow(m_options.wire, arrived + tokens.row_of_slot[slot] * m_row_bytes,
                          {dx.row(static_cast<std::int64_t>(slot) / tokens.topk), at(dx.cols)});
    };
    return move(tokens, ExchangeDirection::Mirrored, send, finish);
}

}  // namespace

Result<std::unique_ptr<TokenExchange>> makePathTokenExchange(Communicator& group,
                                                             TaggedAllocator& allocator,
                                                             const TokenExchangeOptions& options) {
    return std::unique_ptr<TokenExchange>(
        std::make_unique<PathExchange>(group, allocator, options));
}

}  // namespace piper
