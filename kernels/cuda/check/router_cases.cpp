// SPDX-License-Identifier: Apache-2.0
// Router and permutation against plain loops.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/cuda/check/cases.h"
#include "kernels/cuda/check/host_data.h"
#include "kernels/cuda/check/ranks.h"

namespace piper::cuda {
namespace {

struct RouterCase {
    const char* name;
    std::int64_t num_experts, router_topk;
    bool sigmoid, normalize;
    std::int64_t num_groups, topk_groups;
};

/// Scores, choice and weights of one token in double, from the device's own scores: two experts
/// whose scores round alike may change places.
double tokenDifference(const RouterCase& item, const float* logits, const float* scores,
                       const std::int32_t* experts, const float* weights) {
    const auto count = static_cast<std::size_t>(item.num_experts);
    Worst worst;
    double total = 0;
    for (std::size_t e = 0; e < count; ++e) total += std::exp(double(logits[e]));
    for (std::size_t e = 0; e < count; ++e) {
        const double x = double(logits[e]);
        worst.add(double(scores[e]),
                  item.sigmoid ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / total);
    }
    std::vector<float> left(scores, scores + count);
    if (item.topk_groups < item.num_groups) {
        const std::size_t width = count / static_cast<std::size_t>(item.num_groups);
        std::vector<float> best;
        for (std::size_t g = 0; g < count; g += width) {
            best.push_back(*std::max_element(scores + g, scores + g + width));
        }
        std::vector<float> sorted = best;
        std::sort(sorted.begin(), sorted.end(), std::greater<>());
        const float limit = sorted[static_cast<std::size_t>(item.topk_groups) - 1];
        for (std::size_t e = 0; e < count; ++e) {
            if (best[e / width] < limit) left[e] = -INFINITY;
        }
    }
    double sum = 0;
    for (std::int64_t j = 0; j < item.router_topk; ++j) sum += double(scores[experts[j]]);
    for (std::int64_t j = 0; j < item.router_topk; ++j) {
        const auto best = std::max_element(left.begin(), left.end());
        if (best - left.begin() != experts[j]) worst.add(1.0, 0.0);
        *best = -INFINITY;
        const double score = double(scores[experts[j]]);
        worst.add(double(weights[j]), 2.5 * (item.normalize ? score / sum : score));
    }
    return worst.value();
}

Correctness checkRouter(const Device& device, const RouterCase& item) {
    const std::int64_t tokens = 777;
    const auto logits = randomFloats(tokens * item.num_experts, 14);
    const DeviceMemory device_logits(device, logits);
    const DeviceMemory device_scores(device, tokens * item.num_experts * 4);
    const DeviceMemory device_experts(device, tokens * item.router_topk * 4);
    const DeviceMemory device_weights(device, tokens * item.router_topk * 4);
    const DeviceMemory bad(device, std::vector<std::int32_t>{-1});
    PiperCudaRouter call{};
    call.tokens = tokens;
    call.num_experts = item.num_experts;
    call.router_topk = item.router_topk;
    call.num_groups = item.num_groups;
    call.topk_groups = item.topk_groups;
    call.sigmoid = item.sigmoid ? 1 : 0;
    call.normalize = item.normalize ? 1 : 0;
    call.scale = 2.5F;
    call.logits = device_logits.as<float>();
    call.scores = device_scores.as<float>();
    call.experts = device_experts.as<std::int32_t>();
    call.weights = device_weights.as<float>();
    call.bad_row = bad.as<std::int32_t>();
    device.require(device.api().routerForward(device.context(), &call), "routerForward");
    const auto scores = device_scores.read<float>(tokens * item.num_experts);
    const auto experts = device_experts.read<std::int32_t>(tokens * item.router_topk);
    const auto weights = device_weights.read<float>(tokens * item.router_topk);
    double worst = bad.read<std::int32_t>(1)[0] == -1 ? 0.0 : 1.0;
    for (std::int64_t t = 0; t < tokens; ++t) {
        const double difference = tokenDifference(
            item, logits.data() + t * item.num_experts, scores.data() + t * item.num_experts,
            experts.data() + t * item.router_topk, weights.data() + t * item.router_topk);
        if (!(difference <= worst)) worst = difference;
    }
    return {worst, 2e-6};
}

double scoreOf(const RouterCase& item, const std::vector<double>& x, std::size_t e) {
    if (item.sigmoid) return 1.0 / (1.0 + std::exp(-x[e]));
    double total = 0;
    for (const double value : x) total += std::exp(value);
    return std::exp(x[e]) / total;
}

/// dlogits against a difference quotient of sum(dweights * weights), the weights in double.
Correctness checkRouterGrad(const Device& device, const RouterCase& item) {
    const std::int64_t tokens = 33;
    const auto count = static_cast<std::size_t>(item.num_experts);
    const auto topk = static_cast<std::size_t>(item.router_topk);
    const auto logits = randomFloats(tokens * item.num_experts, 15);
    const auto dweights = randomFloats(tokens * item.router_topk, 16);
    std::vector<float> scores(logits.size());
    std::vector<std::int32_t> experts(dweights.size());
    const auto objective = [&](const std::vector<double>& x, std::size_t t) {
        double sum = 0;
        double pulled = 0;
        for (std::size_t j = t * topk; j < (t + 1) * topk; ++j) {
            const double s = scoreOf(item, x, static_cast<std::size_t>(experts[j]));
            sum += s;
            pulled += double(dweights[j]) * s;
        }
        return 2.5 * (item.normalize ? pulled / sum : pulled);
    };
    const auto rowOf = [&](std::size_t t) {
        return std::vector<double>(logits.begin() + static_cast<std::ptrdiff_t>(t * count),
                                   logits.begin() + static_cast<std::ptrdiff_t>((t + 1) * count));
    };
    for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t) {
        const auto x = rowOf(t);
        for (std::size_t e = 0; e < count; ++e) scores[t * count + e] = float(scoreOf(item, x, e));
        for (std::size_t j = 0; j < topk; ++j) {
            experts[t * topk + j] = static_cast<std::int32_t>((t + 3 * j) % count);
        }
    }
    const DeviceMemory device_scores(device, scores);
    const DeviceMemory device_experts(device, experts);
    const DeviceMemory device_dweights(device, dweights);
    const DeviceMemory device_dlogits(device, tokens * item.num_experts * 4);
    PiperCudaRouterGrad call{};
    call.tokens = tokens;
    call.num_experts = item.num_experts;
    call.router_topk = item.router_topk;
    call.sigmoid = item.sigmoid ? 1 : 0;
    call.normalize = item.normalize ? 1 : 0;
    call.scale = 2.5F;
    call.scores = device_scores.as<float>();
    call.experts = device_experts.as<std::int32_t>();
    call.dweights = device_dweights.as<float>();
    call.dlogits = device_dlogits.as<float>();
    device.require(device.api().routerInputGrad(device.context(), &call), "routerInputGrad");
    const auto dlogits = device_dlogits.read<float>(tokens * item.num_experts);
    Worst worst;
    for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t) {
        for (std::size_t e = 0; e < count; ++e) {
            auto x = rowOf(t);
            x[e] += 1e-5;
            const double above = objective(x, t);
            x[e] -= 2e-5;
            worst.add(double(dlogits[t * count + e]), (above - objective(x, t)) / 2e-5);
        }
    }
    return {worst.value(), 1e-5};
}

Correctness checkPermutation(const Device& device, std::int64_t slots, std::int64_t num_experts) {
    const auto experts = randomExperts(slots, static_cast<int>(num_experts), 17);
    const DeviceMemory device_experts(device, experts);
    const DeviceMemory offsets(device, (num_experts + 1) * 8);
    const DeviceMemory slot_of_row(device, slots * 4);
    const DeviceMemory row_of_slot(device, slots * 4);
    const DeviceMemory bad(device, std::vector<std::int32_t>{-1});
    const DeviceMemory scratch(device, PIPER_CUDA_PERMUTATION_CHUNKS * num_experts * 4);
    const PiperCudaPermutation call{slots,
                                    num_experts,
                                    device_experts.as<std::int32_t>(),
                                    offsets.as<std::int64_t>(),
                                    slot_of_row.as<std::int32_t>(),
                                    row_of_slot.as<std::int32_t>(),
                                    bad.as<std::int32_t>(),
                                    scratch.as<std::int32_t>()};
    device.require(device.api().makePermutation(device.context(), &call), "makePermutation");
    std::vector<std::int32_t> order(experts.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return experts[static_cast<std::size_t>(a)] < experts[static_cast<std::size_t>(b)];
    });
    const auto rows = slot_of_row.read<std::int32_t>(slots);
    const auto places = row_of_slot.read<std::int32_t>(slots);
    const auto firsts = offsets.read<std::int64_t>(num_experts + 1);
    double wrong = bad.read<std::int32_t>(1)[0] == -1 ? 0.0 : 1.0;
    for (std::size_t row = 0; row < order.size(); ++row) {
        if (rows[row] != order[row]) ++wrong;
        if (places[static_cast<std::size_t>(order[row])] != static_cast<std::int32_t>(row)) ++wrong;
    }
    for (std::int64_t e = 0; e <= num_experts; ++e) {
        const auto below = std::count_if(experts.begin(), experts.end(),
                                         [e](std::int32_t chosen) { return chosen < e; });
        if (firsts[static_cast<std::size_t>(e)] != below) ++wrong;
    }
    return {wrong, 0.0};
}

}  // namespace

void addRouterCases(std::vector<CorrectnessCase>& cases) {
    for (const RouterCase& item : {RouterCase{"softmax top-8 of 64", 64, 8, false, false, 1, 1},
                                   RouterCase{"softmax top-2 of 7", 7, 2, false, true, 1, 1},
                                   RouterCase{"sigmoid top-8 of 256", 256, 8, true, true, 8, 4}}) {
        cases.push_back({std::string("router ") + item.name,
                         [item](const Device& device) { return checkRouter(device, item); }});
        cases.push_back({std::string("router gradient ") + item.name,
                         [item](const Device& device) { return checkRouterGrad(device, item); }});
    }
    for (const auto& [slots, experts] :
         {std::pair{65536, 256}, std::pair{1000, 7}, std::pair{200000, 1024}, std::pair{1, 1}}) {
        cases.push_back({"permutation of " + std::to_string(slots) + " slots, " +
                             std::to_string(experts) + " experts",
                         [slots = slots, experts = experts](const Device& device) {
                             return checkPermutation(device, slots, experts);
                         }});
    }
}

std::vector<CorrectnessCase> correctnessCases() {
    std::vector<CorrectnessCase> cases;
    addGemmCases(cases);
    addRowCases(cases);
    addRouterCases(cases);
    addRankCases(cases);
    addGroupedCases(cases, PIPER_CUDA_PORTABLE);
    addGroupedCases(cases, PIPER_CUDA_HOPPER);
    return cases;
}

}  // namespace piper::cuda
