// SPDX-License-Identifier: Apache-2.0
// Embedding and head: where tokens come in and the loss comes out. Their tables are split over the
// tensor-parallel ranks by rows of the vocabulary.
#include <cmath>

#include "kernels/pipeline/blocks.h"

namespace piper {
namespace {

constexpr MemoryTerm kHead = MemoryTerm::HeadActivation;

/// The tokens whose row of a table is here: their rows, and where in the micro-batch they stand.
struct OwnTokens {
    std::vector<std::int32_t> rows, places;

    OwnTokens(const BlockContext& c, std::int64_t table_rows, ConstIndices tokens) {
        const std::int64_t first = c.tensor.rank() * table_rows;
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            const std::int64_t row = tokens[i] - first;
            if (row < 0 || row >= table_rows) continue;
            rows.push_back(static_cast<std::int32_t>(row));
            places.push_back(static_cast<std::int32_t>(i));
        }
    }
    [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(rows.size()); }
};

/// Position of every token that this rank holds the hidden state of.
std::vector<std::int32_t> positions(const BlockContext& c) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(c.tokens()));
    const std::int64_t first = c.tensor.firstRow(c.allTokens());
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<std::int32_t>((first + static_cast<std::int64_t>(i)) % c.plan.seq_len);
    return out;
}

/// Looks the own tokens up; rows of the others become zero.
Status lookUp(const BlockContext& c, const Matrix& table, ConstIndices tokens, Matrix out) {
    const OwnTokens own(c, table.rows, tokens);
    PIPER_ASSIGN(const Buffer found,
                 c.floats(MemoryTerm::CommunicationBuffer, own.count() * c.hidden()));
    const Matrix rows = found.matrix(own.count(), c.hidden());
    PIPER_TRY(c.backend.gatherRows(table, own.rows, rows));
    PIPER_TRY(c.backend.fill(out.span(), 0.0F));
    return c.backend.scatterRows(rows, own.places, out);
}

/// Targets as columns of this rank's logits.
std::vector<std::int32_t> ownTargets(const BlockContext& c, std::int64_t vocab,
                                     ConstIndices targets) {
    std::vector<std::int32_t> out(targets.begin(), targets.end());
    const std::int64_t first = c.tensor.rank() * vocab;
    for (std::int32_t& target : out) {
        if (target < 0) continue;
        const std::int64_t own = target - first;
        target =
            own >= 0 && own < vocab ? static_cast<std::int32_t>(own) : Backend::kTargetElsewhere;
    }
    return out;
}

/// Log-sum-exp and loss over the whole vocabulary out of those over this rank's part of it: the
/// loss here is the sum over its own targets of lse - logit.
Status joinVocabulary(const BlockContext& c, ConstIndices own, Buffer& lse, double& loss_sum) {
    std::vector<float> part(own.size());
    PIPER_TRY(c.backend.copyToHost(lse.as<std::byte>(), std::as_writable_bytes(std::span(part))));
    std::vector<double> top(part.begin(), part.end()), sum(part.size());
    PIPER_TRY(c.tensor.max(top));
    double own_logits = -loss_sum;
    for (std::size_t i = 0; i < part.size(); ++i) {
        sum[i] = std::exp(static_cast<double>(part[i]) - top[i]);
        if (own[i] >= 0) own_logits += static_cast<double>(part[i]);
    }
    sum.push_back(own_logits);
    PIPER_TRY(c.tensor.sum(std::span<double>(sum)));
    loss_sum = -sum.back();
    for (std::size_t i = 0; i < part.size(); ++i) {
        const double whole = top[i] + std::log(sum[i]);
        part[i] = static_cast<float>(whole);
        if (own[i] >= 0 || own[i] == Backend::kTargetElsewhere) loss_sum += whole;
    }
    return c.backend.copyToDevice(std::as_bytes(std::span(part)), lse.as<std::byte>());
}

}  // namespace

Status embeddingForward(const BlockContext& c, const StageTensors& w, ConstIndices tokens,
                        Matrix out) {
    if (!c.tensor.split())
        PIPER_TRY(c.backend.embeddingForward(tokens, w.embedding, out));
    else
        PIPER_TRY(c.summed(out, Store::Overwrite,
                           [&](Matrix all, Store) { return lookUp(c, w.embedding, tokens, all); }));
    if (w.position.size() == 0) return {};
    PIPER_ASSIGN(const Buffer rows, c.floats(MemoryTerm::Workspace, out.size()));
    const Matrix position = c.rows(rows);
    PIPER_TRY(c.backend.embeddingForward(positions(c), w.position, position));
    return c.backend.add(rows.floats(), out.span());
}

Status embeddingWeightGrad(const BlockContext& c, StageTensors& dw, ConstIndices tokens,
                           ConstMatrix dout) {
    if (dw.position.size() > 0)
        PIPER_TRY(c.backend.embeddingWeightGrad(positions(c), dout, dw.position));
    if (!c.tensor.split()) return c.backend.embeddingWeightGrad(tokens, dout, dw.embedding);
    PIPER_ASSIGN(const GatheredRows all, c.tensor.gather(dout));
    const OwnTokens own(c, dw.embedding.rows, tokens);
    PIPER_ASSIGN(const Buffer found,
                 c.floats(MemoryTerm::CommunicationBuffer, own.count() * c.hidden()));
    const Matrix rows = found.matrix(own.count(), c.hidden());
    PIPER_TRY(c.backend.gatherRows(all.rows, own.places, rows));
    return c.backend.embeddingWeightGrad(own.rows, rows, dw.embedding);
}

Status headForward(const BlockContext& c, const StageTensors& w, Buffer hidden,
                   ConstIndices targets, double& loss_sum, HeadState& s) {
    PIPER_ASSIGN(GatheredRows all, c.tensor.gather(c.rows(hidden)));
    s.input = all.held.empty() ? std::move(hidden) : std::move(all.held);
    const Matrix x = s.input.matrix(c.allTokens(), c.hidden());
    PIPER_TRY(normForward(c, x, w.final_norm, kHead, s.norm));
    PIPER_ASSIGN(s.logits, c.floats(kHead, x.rows * w.head.rows));
    PIPER_ASSIGN(s.lse, c.floats(kHead, x.rows));
    const Matrix logits = s.logits.matrix(x.rows, w.head.rows);
    PIPER_TRY(
        c.backend.linearForward(s.norm.y.matrix(x.rows, x.cols), w.head, logits, Store::Overwrite));
    double sum = 0.0;
    if (c.tensor.split()) {
        const std::vector<std::int32_t> own = ownTargets(c, w.head.rows, targets);
        PIPER_TRY(c.backend.crossEntropyForward(logits, own, s.lse.floats(), sum));
        PIPER_TRY(joinVocabulary(c, own, s.lse, sum));
    } else {
        PIPER_TRY(c.backend.crossEntropyForward(logits, targets, s.lse.floats(), sum));
    }
    loss_sum += sum;
    return {};
}

Result<Buffer> headInputGrad(const BlockContext& c, const StageTensors& w, ConstIndices targets,
                             float scale, HeadState& s) {
    const std::int64_t t = c.allTokens(), h = c.hidden();
    const Matrix logits = s.logits.matrix(t, w.head.rows), x = s.input.matrix(t, h);
    PIPER_TRY(c.backend.crossEntropyInputGrad(
        logits,
        c.tensor.split() ? ownTargets(c, w.head.rows, targets)
                         : std::vector<std::int32_t>(targets.begin(), targets.end()),
        s.lse.floats(), scale));
    PIPER_ASSIGN(s.d_norm, c.floats(kGradient, t * h));
    PIPER_ASSIGN(Buffer dx, c.floats(kGradient, t * h));
    const Matrix d_norm = s.d_norm.matrix(t, h), all = dx.matrix(t, h);
    PIPER_TRY(c.backend.linearInputGrad(logits, w.head, d_norm, Store::Overwrite));
    PIPER_TRY(c.tensor.sum(Vector(d_norm.span())));
    PIPER_TRY(normInputGrad(c, d_norm, x, w.final_norm, s.norm, all, Store::Overwrite));
    if (!c.tensor.splitsRows()) return dx;
    PIPER_ASSIGN(Buffer own, c.hiddenState(kGradient));
    PIPER_TRY(c.backend.copyRows(all.slice(c.tensor.firstRow(t), c.tokens()), c.rows(own)));
    return own;
}

Status headWeightGrad(const BlockContext& c, StageTensors& dw, HeadState& s) {
    const std::int64_t t = c.allTokens(), h = c.hidden();
    PIPER_TRY(c.backend.linearWeightGrad(s.logits.matrix(t, dw.head.rows), s.norm.y.matrix(t, h),
                                         dw.head));
    PIPER_TRY(
        normWeightGrad(c, s.d_norm.matrix(t, h), s.input.matrix(t, h), s.norm, dw.final_norm));
    s = HeadState{};
    return {};
}

}  // namespace piper
