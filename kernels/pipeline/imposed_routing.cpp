// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/imposed_routing.h"

#include <algorithm>
#include <numeric>

#include "core/base/cast.h"
#include "core/resources/routing.h"
#include "kernels/ops/counter_random.h"

namespace piper {
namespace {

/// Numbers in [0, 1) and of a range, one after the other from one key.
class Draws {
public:
    explicit Draws(std::uint64_t key) : m_key(key) {}

    double unit() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }

private:
    std::uint64_t next() { return mixBits(m_key, m_count++); }

    std::uint64_t m_key, m_count = 0;
};

}  // namespace

bool imposesRouting(const Plan& plan) {
    return plan.model.moe && plan.routing_load.kind != RoutingLoadKind::Uniform &&
           plan.model.moe->topk_groups >= plan.model.moe->num_groups;
}

ImposedRouting::ImposedRouting(const Plan& plan, std::uint64_t seed)
    : m_topk(plan.model.moe->router_topk), m_seed(seed) {
    for (std::int32_t layer = 0; layer < plan.model.num_layers; ++layer)
        m_shares.push_back(drawableShares(plan, LayerId(layer)));
}

Status ImposedRouting::choose(std::int64_t step, LayerId layer, std::int64_t sample,
                              Indices experts, std::int64_t first_position) const {
    const std::vector<double>& shares = m_shares[layer.index()];
    const auto topk = static_cast<std::size_t>(m_topk);
    std::vector<std::int32_t> order(shares.size());
    std::uint64_t key = m_seed;
    for (const std::int64_t part : {step, std::int64_t{layer.value}, sample})
        key = mixBits(key, static_cast<std::uint64_t>(part));
    for (std::size_t t = 0; t * topk < experts.size(); ++t) {
        Draws draws(mixBits(key, static_cast<std::uint64_t>(first_position) + t));
        std::iota(order.begin(), order.end(), 0);
        // In an order of its own for every token, so that no two experts belong together.
        for (std::size_t i = order.size(); i > 1; --i)
            std::swap(order[i - 1], order[draws.below(i)]);
        const double start = draws.unit();
        double sum = 0.0;
        std::size_t taken = 0;
        for (std::size_t i = 0; i < order.size() && taken < topk; ++i) {
            sum += shares[static_cast<std::size_t>(order[i])] * asDouble(m_topk);
            const std::size_t left = order.size() - i;
            // The last ones are taken whatever rounding has made of the sum.
            if (sum > start + static_cast<double>(taken) || left == topk - taken)
                experts[t * topk + taken++] = order[i];
        }
    }
    return {};
}

}  // namespace piper
