// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_backend_impl.h"

namespace piper {

namespace {

std::int64_t length(std::size_t n) {
    return static_cast<std::int64_t>(n);
}

std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

void copyRow(const float* from, float* to, std::int64_t n) {
    std::memcpy(to, from, at(n) * sizeof(float));
}

/// The k largest of scores, ties to the lower number, largest first.
void chooseTop(const float* scores, std::int64_t num_experts, std::int64_t k,
               std::int32_t* experts) {
    for (std::int64_t j = 0; j < k; ++j) {
        std::int32_t best = -1;
        for (std::int32_t e = 0; e < static_cast<std::int32_t>(num_experts); ++e) {
            if (std::find(experts, experts + j, e) != experts + j) continue;
            if (best < 0 || scores[e] > scores[best]) best = e;
        }
        experts[j] = best;
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

Status checkTokens(ConstIndices tokens, std::int64_t vocab, bool allow_negative) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
        if (tokens[i] >= vocab || (tokens[i] < 0 && !allow_negative))
            return fail(ErrorCode::InvalidInput,
                        "token {} at row {} is outside the vocabulary 0..{}", tokens[i], i,
                        vocab - 1);
    return {};
}

}  // namespace

Status CpuBackend::embeddingForward(ConstIndices tokens, ConstMatrix table, Matrix out) {
    PIPER_CHECK(out.rows == length(tokens.size()) && out.cols == table.cols);
    PIPER_TRY(checkTokens(tokens, table.rows, false));
    for (std::int64_t r = 0; r < out.rows; ++r)
        copyRow(table.row(tokens[at(r)]), out.row(r), out.cols);
    touch(2 * out.size());
    return {};
}

Status CpuBackend::embeddingWeightGrad(ConstIndices tokens, ConstMatrix dout, Matrix dtable) {
    PIPER_CHECK(dout.rows == length(tokens.size()) && dout.cols == dtable.cols);
    PIPER_TRY(checkTokens(tokens, dtable.rows, false));
    for (std::int64_t r = 0; r < dout.rows; ++r)
        m_loops.add(dout.cols, dout.row(r), dtable.row(tokens[at(r)]));
    touch(3 * dout.size());
    return {};
}

Status CpuBackend::routerForward(const RouterShape& shape, RouterMode mode, ConstMatrix logits,
                                 Matrix scores, Indices experts, Matrix weights) {
    PIPER_CHECK(logits.cols == shape.num_experts && scores.cols == logits.cols);
    PIPER_CHECK(scores.rows == logits.rows && weights.rows == logits.rows);
    PIPER_CHECK(weights.cols == shape.router_topk && shape.router_topk <= shape.num_experts);
    PIPER_CHECK(length(experts.size()) == weights.size());
    if (mode == RouterMode::Replay) PIPER_TRY(checkExperts(shape, experts));
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
        if (mode == RouterMode::Choose)
            chooseTop(row, shape.num_experts, shape.router_topk, chosen);
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

Status CpuBackend::columnSums(ConstMatrix x, std::span<double> sums) {
    PIPER_CHECK(length(sums.size()) == x.cols);
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t r = 0; r < x.rows; ++r) m_loops.addToDouble(x.cols, x.row(r), sums.data());
    touch(x.size());
    return {};
}

Status CpuBackend::gatherRows(ConstMatrix x, ConstIndices index, Matrix y) {
    PIPER_CHECK(y.rows == length(index.size()) && y.cols == x.cols);
    for (std::int64_t r = 0; r < y.rows; ++r) {
        PIPER_CHECK(index[at(r)] >= 0 && index[at(r)] < x.rows);
        copyRow(x.row(index[at(r)]), y.row(r), y.cols);
    }
    touch(2 * y.size() + y.rows);
    return {};
}

Status CpuBackend::scatterRows(ConstMatrix x, ConstIndices index, Matrix y) {
    PIPER_CHECK(x.rows == length(index.size()) && y.cols == x.cols);
    for (std::int64_t r = 0; r < x.rows; ++r) {
        PIPER_CHECK(index[at(r)] >= 0 && index[at(r)] < y.rows);
        copyRow(x.row(r), y.row(index[at(r)]), y.cols);
    }
    touch(2 * x.size() + x.rows);
    return {};
}

Status CpuBackend::permuteForward(ConstMatrix x, ConstIndices slot_of_row, std::int64_t router_topk,
                                  Matrix rows) {
    PIPER_CHECK(rows.rows == length(slot_of_row.size()) && rows.cols == x.cols);
    for (std::int64_t r = 0; r < rows.rows; ++r) {
        const std::int64_t token = slot_of_row[at(r)] / router_topk;
        PIPER_CHECK(token >= 0 && token < x.rows);
        copyRow(x.row(token), rows.row(r), x.cols);
    }
    touch(2 * rows.size() + rows.rows);
    return {};
}

Status CpuBackend::permuteInputGrad(ConstMatrix drows, ConstIndices row_of_slot,
                                    std::int64_t router_topk, Matrix dx, Store store) {
    PIPER_CHECK(dx.rows * router_topk == length(row_of_slot.size()) && dx.cols == drows.cols);
    for (std::int64_t token = 0; token < dx.rows; ++token) {
        float* out = dx.row(token);
        if (store == Store::Overwrite) std::fill_n(out, dx.cols, 0.0F);
        for (std::int64_t j = 0; j < router_topk; ++j) {
            const std::int32_t row = row_of_slot[at(token * router_topk + j)];
            PIPER_CHECK(row < drows.rows);
            if (row >= 0) m_loops.add(dx.cols, drows.row(row), out);
        }
    }
    touch(drows.size() + (store == Store::Accumulate ? 2 : 1) * dx.size());
    return {};
}

Status CpuBackend::combineForward(ConstMatrix rows, ConstIndices row_of_slot, ConstMatrix weights,
                                  Matrix y, Store store) {
    PIPER_CHECK(weights.rows == y.rows && rows.cols == y.cols);
    PIPER_CHECK(weights.size() == length(row_of_slot.size()));
    for (std::int64_t token = 0; token < y.rows; ++token) {
        float* out = y.row(token);
        if (store == Store::Overwrite) std::fill_n(out, y.cols, 0.0F);
        for (std::int64_t j = 0; j < weights.cols; ++j) {
            const std::int32_t row = row_of_slot[at(token * weights.cols + j)];
            PIPER_CHECK(row < rows.rows);
            if (row >= 0) m_loops.addScaled(y.cols, weights.at(token, j), rows.row(row), out);
        }
    }
    touch(rows.size() + 2 * weights.size() + (store == Store::Accumulate ? 2 : 1) * y.size());
    return {};
}

Status CpuBackend::combineInputGrad(ConstMatrix dy, ConstMatrix rows, ConstIndices row_of_slot,
                                    ConstMatrix weights, Matrix drows, Matrix dweights) {
    PIPER_CHECK(weights.rows == dy.rows && rows.cols == dy.cols && drows.cols == rows.cols);
    PIPER_CHECK(drows.rows == rows.rows && dweights.rows == weights.rows);
    PIPER_CHECK(dweights.cols == weights.cols && weights.size() == length(row_of_slot.size()));
    for (std::int64_t token = 0; token < dy.rows; ++token)
        for (std::int64_t j = 0; j < weights.cols; ++j) {
            const std::int32_t row = row_of_slot[at(token * weights.cols + j)];
            PIPER_CHECK(row < rows.rows);
            dweights.at(token, j) =
                row < 0 ? 0.0F : m_loops.dot(dy.cols, dy.row(token), rows.row(row));
            if (row >= 0)
                m_loops.copyScaled(dy.cols, weights.at(token, j), dy.row(token), drows.row(row));
        }
    touch(dy.size() + rows.size() + drows.size() + 3 * weights.size());
    return {};
}

Status CpuBackend::crossEntropyForward(ConstMatrix logits, ConstIndices targets, Vector lse,
                                       double& loss_sum) {
    PIPER_CHECK(length(targets.size()) == logits.rows && length(lse.size()) == logits.rows);
    PIPER_TRY(checkTokens(targets, logits.cols, true));
    loss_sum = 0.0;
    for (std::int64_t r = 0; r < logits.rows; ++r) {
        const float top = m_loops.rowMax(logits.cols, logits.row(r));
        const double log_sum =
            static_cast<double>(top) + std::log(m_loops.expSum(logits.cols, top, logits.row(r)));
        lse[at(r)] = static_cast<float>(log_sum);
        if (targets[at(r)] >= 0)
            loss_sum += log_sum - static_cast<double>(logits.at(r, targets[at(r)]));
    }
    touch(logits.size() + 2 * logits.rows);
    return {};
}

Status CpuBackend::crossEntropyInputGrad(Matrix logits, ConstIndices targets, ConstVector lse,
                                         float scale) {
    PIPER_CHECK(length(targets.size()) == logits.rows && length(lse.size()) == logits.rows);
    PIPER_TRY(checkTokens(targets, logits.cols, true));
    for (std::int64_t r = 0; r < logits.rows; ++r) {
        float* row = logits.row(r);
        if (targets[at(r)] < 0) {
            std::fill_n(row, logits.cols, 0.0F);
            continue;
        }
        m_loops.expScaledRow(logits.cols, lse[at(r)], scale, row);
        row[targets[at(r)]] -= scale;
    }
    touch(2 * logits.size() + 2 * logits.rows);
    return {};
}

}  // namespace piper
