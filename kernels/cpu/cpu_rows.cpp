// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend_impl.h"

namespace piper {

namespace {

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
        if (slot_of_row[at(r)] < 0) {
            std::fill_n(rows.row(r), rows.cols, 0.0F);
            continue;
        }
        const std::int64_t token = slot_of_row[at(r)] / router_topk;
        PIPER_CHECK(token < x.rows);
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
        const std::int32_t target = targets[at(r)];
        if (target < 0 && target != kTargetElsewhere) {
            std::fill_n(row, logits.cols, 0.0F);
            continue;
        }
        m_loops.expScaledRow(logits.cols, lse[at(r)], scale, row);
        if (target >= 0) row[target] -= scale;
    }
    touch(2 * logits.size() + 2 * logits.rows);
    return {};
}

Status CpuBackend::copyRows(ConstMatrix x, Matrix y) {
    PIPER_CHECK(x.rows == y.rows && x.cols == y.cols);
    if (x.size() > 0) copyRow(x.data, y.data, x.size());
    touch(2 * x.size());
    return {};
}

Status CpuBackend::copyBlocks(ConstMatrix x, ColumnBlocks from, Matrix y, ColumnBlocks to,
                              std::int64_t blocks, std::int64_t width, Store store) {
    PIPER_CHECK(x.rows == y.rows && blocks >= 0 && width >= 0);
    PIPER_CHECK(from.first >= 0 && from.first + (blocks - 1) * from.stride + width <= x.cols);
    PIPER_CHECK(to.first >= 0 && to.first + (blocks - 1) * to.stride + width <= y.cols);
    for (std::int64_t r = 0; r < x.rows; ++r)
        for (std::int64_t b = 0; b < blocks; ++b) {
            const float* source = x.row(r) + from.first + b * from.stride;
            float* target = y.row(r) + to.first + b * to.stride;
            if (store == Store::Overwrite)
                copyRow(source, target, width);
            else
                m_loops.add(width, source, target);
        }
    touch((store == Store::Accumulate ? 3 : 2) * x.rows * blocks * width);
    return {};
}

Status CpuBackend::gateRowsForward(ConstVector gate, ConstMatrix x, Matrix y, Store store) {
    PIPER_CHECK(length(gate.size()) == x.rows && x.rows == y.rows && x.cols == y.cols);
    for (std::int64_t r = 0; r < x.rows; ++r) {
        const float open = 1.0F / (1.0F + std::exp(-gate[at(r)]));
        if (store == Store::Overwrite)
            m_loops.copyScaled(x.cols, open, x.row(r), y.row(r));
        else
            m_loops.addScaled(x.cols, open, x.row(r), y.row(r));
    }
    touch((store == Store::Accumulate ? 3 : 2) * x.size() + x.rows);
    return {};
}

Status CpuBackend::gateRowsInputGrad(ConstMatrix dy, ConstVector gate, ConstMatrix x, Matrix dx,
                                     Vector dgate) {
    PIPER_CHECK(length(gate.size()) == x.rows && dy.rows == x.rows && dy.cols == x.cols);
    PIPER_CHECK(dx.rows == x.rows && dx.cols == x.cols && dgate.size() == gate.size());
    for (std::int64_t r = 0; r < x.rows; ++r) {
        const float open = 1.0F / (1.0F + std::exp(-gate[at(r)]));
        dgate[at(r)] = open * (1.0F - open) * m_loops.dot(x.cols, dy.row(r), x.row(r));
        m_loops.copyScaled(x.cols, open, dy.row(r), dx.row(r));
    }
    touch(3 * x.size() + 2 * x.rows);
    return {};
}

}  // namespace piper
