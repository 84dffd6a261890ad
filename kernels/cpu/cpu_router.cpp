// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "kernels/cpu/cpu_backend_impl.h"

namespace piper {

namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

/// The k largest of `scores`, ties to the lower number, largest first; they are excluded after it.
void chooseTop(float* scores, std::int64_t num_experts, std::int64_t k, std::int32_t* experts) {
    for (std::int64_t j = 0; j < k; ++j) {
        const float* best = std::max_element(scores, scores + num_experts);
        // Limits that leave fewer are refused with the plan (core/plan/own_worker.h); NaN is
        // reported with the layer's output.
        PIPER_CHECK(*best != kExcluded);
        experts[j] = static_cast<std::int32_t>(best - scores);
        scores[best - scores] = kExcluded;
    }
}

Status checkExperts(const RouterShape& shape, ConstIndices experts) {
    for (std::size_t i = 0; i < experts.size(); ++i)
        if (experts[i] < 0 || experts[i] >= shape.num_experts)
            return fail(ErrorCode::InvalidInput, "replayed expert {} of slot {} is outside 0..{}",
                        experts[i], i, shape.num_experts - 1);
    return {};
}

float chosenSum(const RouterShape& shape, const float* scores, const std::int32_t* experts) {
    float sum = 0.0F;
    for (std::int64_t j = 0; j < shape.router_topk; ++j) sum += scores[experts[j]];
    return sum;
}

void chosenWeights(const RouterShape& shape, const float* scores, const std::int32_t* experts,
                   float* weights) {
    const auto factor = static_cast<float>(shape.routed_scaling_factor);
    const float norm =
        shape.norm_topk_prob ? factor / (chosenSum(shape, scores, experts) + 1e-20F) : factor;
    for (std::int64_t j = 0; j < shape.router_topk; ++j) weights[j] = norm * scores[experts[j]];
}

/// dscores += what the chosen weights ask for.
void weightsGrad(const RouterShape& shape, const float* scores, const std::int32_t* experts,
                 const float* dweights, float* dscores) {
    const auto factor = static_cast<float>(shape.routed_scaling_factor);
    float norm = factor;
    float mean = 0.0F;
    if (shape.norm_topk_prob) {
        const float sum = chosenSum(shape, scores, experts) + 1e-20F;
        for (std::int64_t j = 0; j < shape.router_topk; ++j)
            mean += dweights[j] * scores[experts[j]] / sum;
        norm = factor / sum;
    }
    for (std::int64_t j = 0; j < shape.router_topk; ++j)
        dscores[experts[j]] += norm * (dweights[j] - mean);
}

/// In place: gradients of scores become gradients of logits.
void scoresGrad(const RouterShape& shape, const float* scores, float* d) {
    if (shape.scoring == ScoringFunction::Sigmoid) {
        for (std::int64_t e = 0; e < shape.num_experts; ++e)
            d[e] = d[e] * scores[e] * (1.0F - scores[e]);
        return;
    }
    float mean = 0.0F;
    for (std::int64_t e = 0; e < shape.num_experts; ++e) mean += d[e] * scores[e];
    for (std::int64_t e = 0; e < shape.num_experts; ++e) d[e] = scores[e] * (d[e] - mean);
}

}  // namespace

float CpuBackend::groupScore(ConstIndices group_of_expert, std::int32_t group, std::int64_t best) {
    m_found.clear();
    for (std::size_t e = 0; e < group_of_expert.size(); ++e)
        if (group_of_expert[e] == group) m_found.push_back(m_selection[e]);
    const auto n = std::min<std::ptrdiff_t>(best, std::ssize(m_found));
    std::partial_sort(m_found.begin(), m_found.begin() + n, m_found.end(), std::greater<>());
    return std::accumulate(m_found.begin(), m_found.begin() + n, 0.0F);
}

void CpuBackend::limitGroups(ConstIndices group_of_expert, std::int64_t groups, std::int64_t keep,
                             std::int64_t best) {
    if (keep >= groups) return;
    m_group_scores.clear();
    for (std::int32_t g = 0; g < static_cast<std::int32_t>(groups); ++g)
        m_group_scores.push_back(groupScore(group_of_expert, g, best));
    m_kept.resize(at(keep));
    chooseTop(m_group_scores.data(), groups, keep, m_kept.data());
    for (std::size_t e = 0; e < group_of_expert.size(); ++e)
        if (std::ranges::find(m_kept, group_of_expert[e]) == m_kept.end())
            m_selection[e] = kExcluded;
}

/// Picks a token's experts by its scores [E].
void CpuBackend::choose(const RouterShape& shape, const float* scores, std::int32_t* experts) {
    m_selection.assign(scores, scores + shape.num_experts);
    if (!shape.bias.empty()) m_loops.add(shape.num_experts, shape.bias.data(), m_selection.data());
    if (shape.num_groups > 1)
        limitGroups(m_group_of_expert, shape.num_groups, shape.topk_groups,
                    shape.bias.empty() ? 1 : 2);
    if (shape.node_limit > 0) {
        const std::int64_t nodes = 1 + *std::ranges::max_element(shape.node_of_expert);
        const std::int64_t each = (shape.router_topk + shape.node_limit - 1) / shape.node_limit;
        limitGroups(shape.node_of_expert, nodes, shape.node_limit, each);
    }
    chooseTop(m_selection.data(), shape.num_experts, shape.router_topk, experts);
}

Status CpuBackend::routerForward(const RouterShape& shape, RouterMode mode, ConstMatrix logits,
                                 Matrix scores, Indices experts, Matrix weights) {
    PIPER_CHECK(logits.cols == shape.num_experts && scores.cols == logits.cols);
    PIPER_CHECK(scores.rows == logits.rows && weights.rows == logits.rows);
    PIPER_CHECK(weights.cols == shape.router_topk && shape.router_topk <= shape.num_experts);
    PIPER_CHECK(length(experts.size()) == weights.size());
    if (mode == RouterMode::Replay) PIPER_TRY(checkExperts(shape, experts));
    m_group_of_expert.resize(at(shape.num_experts));
    for (std::int64_t e = 0; e < shape.num_experts; ++e)
        m_group_of_expert[at(e)] =
            static_cast<std::int32_t>(e * shape.num_groups / shape.num_experts);
    for (std::int64_t r = 0; r < logits.rows; ++r) {
        float* row = scores.row(r);
        float sum = 0.0F;
        if (shape.scoring == ScoringFunction::Softmax) {
            copyRow(logits.row(r), row, logits.cols);
            sum = m_loops.expRow(logits.cols, m_loops.rowMax(logits.cols, row), row);
            m_loops.scale(logits.cols, 1.0F / sum, row);
        } else {
            for (std::int64_t e = 0; e < logits.cols; ++e)
                sum += row[e] = 1.0F / (1.0F + std::exp(-logits.at(r, e)));
        }
        if (!std::isfinite(sum)) {
            Error error =
                fail(ErrorCode::External, "the router's logits of row {} are not finite", r);
            error.hint = "the run has diverged: lower the learning rate";
            return error;
        }
        std::int32_t* chosen = experts.data() + r * shape.router_topk;
        if (mode == RouterMode::Choose) choose(shape, row, chosen);
        chosenWeights(shape, row, chosen, weights.row(r));
    }
    touch(2 * logits.size() + 2 * weights.size());
    return {};
}

Status CpuBackend::routerInputGrad(const RouterShape& shape, ConstMatrix scores,
                                   ConstIndices experts, ConstMatrix dweights, ConstVector dscore,
                                   Matrix dlogits) {
    PIPER_CHECK(scores.cols == shape.num_experts && dlogits.cols == scores.cols);
    PIPER_CHECK(dlogits.rows == scores.rows && dweights.rows == scores.rows);
    PIPER_CHECK(dweights.cols == shape.router_topk && length(experts.size()) == dweights.size());
    PIPER_CHECK(dscore.empty() || length(dscore.size()) == scores.cols);
    for (std::int64_t r = 0; r < scores.rows; ++r) {
        float* d = dlogits.row(r);
        if (dscore.empty())
            std::fill_n(d, scores.cols, 0.0F);
        else
            copyRow(dscore.data(), d, scores.cols);
        weightsGrad(shape, scores.row(r), experts.data() + r * shape.router_topk, dweights.row(r),
                    d);
        scoresGrad(shape, scores.row(r), d);
    }
    touch(2 * scores.size() + 2 * dweights.size());
    return {};
}

}  // namespace piper
