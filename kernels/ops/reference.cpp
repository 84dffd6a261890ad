// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace piper::reference {

namespace {

std::size_t index(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

double logistic(double x) {
    return 1.0 / (1.0 + std::exp(-x));
}

double inverseRms(const Tensor& x, std::int64_t r, double epsilon) {
    double sum = 0.0;
    for (std::int64_t c = 0; c < x.cols; ++c) sum += x.at(r, c) * x.at(r, c);
    return 1.0 / std::sqrt(sum / static_cast<double>(x.cols) + epsilon);
}

double logSumExp(const Tensor& x, std::int64_t r) {
    double top = x.at(r, 0);
    for (std::int64_t c = 1; c < x.cols; ++c) top = std::max(top, x.at(r, c));
    double sum = 0.0;
    for (std::int64_t c = 0; c < x.cols; ++c) sum += std::exp(x.at(r, c) - top);
    return top + std::log(sum);
}

}  // namespace

Tensor::Tensor(ConstMatrix x) : Tensor(x.rows, x.cols) {
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<double>(x.data[i]);
}

Tensor Tensor::slice(std::int64_t first, std::int64_t n) const {
    Tensor out(n, cols);
    std::copy_n(data.begin() + first * cols, n * cols, out.data.begin());
    return out;
}

void Tensor::place(std::int64_t first, const Tensor& part) {
    std::copy(part.data.begin(), part.data.end(), data.begin() + first * cols);
}

Tensor add(const Tensor& a, const Tensor& b) {
    Tensor out = a;
    for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] += b.data[i];
    return out;
}

Tensor embedding(const Ids& tokens, const Tensor& table) {
    Tensor out(std::int64_t(tokens.size()), table.cols);
    for (std::int64_t r = 0; r < out.rows; ++r) out.place(r, table.slice(tokens[index(r)], 1));
    return out;
}

Tensor embeddingWeightGrad(const Ids& tokens, const Tensor& dout, std::int64_t vocab) {
    Tensor out(vocab, dout.cols);
    for (std::int64_t r = 0; r < dout.rows; ++r)
        for (std::int64_t c = 0; c < dout.cols; ++c) out.at(tokens[index(r)], c) += dout.at(r, c);
    return out;
}

Tensor rmsNorm(const Tensor& x, const Tensor& weight, double epsilon) {
    Tensor y(x.rows, x.cols);
    for (std::int64_t r = 0; r < x.rows; ++r)
        for (std::int64_t c = 0; c < x.cols; ++c)
            y.at(r, c) = x.at(r, c) * inverseRms(x, r, epsilon) * weight.at(0, c);
    return y;
}

NormGrad rmsNormGrad(const Tensor& dy, const Tensor& x, const Tensor& weight, double epsilon) {
    NormGrad out{Tensor(x.rows, x.cols), Tensor(1, x.cols)};
    const auto n = static_cast<double>(x.cols);
    for (std::int64_t r = 0; r < x.rows; ++r) {
        const double inverse = inverseRms(x, r, epsilon);
        double sum = 0.0;
        for (std::int64_t c = 0; c < x.cols; ++c) {
            sum += dy.at(r, c) * weight.at(0, c) * x.at(r, c);
            out.dweight.at(0, c) += dy.at(r, c) * x.at(r, c) * inverse;
        }
        for (std::int64_t c = 0; c < x.cols; ++c)
            out.dx.at(r, c) = inverse * dy.at(r, c) * weight.at(0, c) -
                              x.at(r, c) * std::pow(inverse, 3) * sum / n;
    }
    return out;
}

namespace {

struct RowMoments {
    double mean = 0.0, inverse = 0.0;
};

RowMoments momentsOf(const Tensor& x, std::int64_t r, double epsilon) {
    const auto n = static_cast<double>(x.cols);
    RowMoments out;
    for (std::int64_t c = 0; c < x.cols; ++c) out.mean += x.at(r, c) / n;
    double variance = 0.0;
    for (std::int64_t c = 0; c < x.cols; ++c)
        variance += (x.at(r, c) - out.mean) * (x.at(r, c) - out.mean) / n;
    out.inverse = 1.0 / std::sqrt(variance + epsilon);
    return out;
}

}  // namespace

Tensor layerNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
    Tensor y = x;
    for (std::int64_t r = 0; r < x.rows; ++r) {
        const RowMoments m = momentsOf(x, r, epsilon);
        for (std::int64_t c = 0; c < x.cols; ++c)
            y.at(r, c) = (x.at(r, c) - m.mean) * m.inverse * weight.at(0, c) + bias.at(0, c);
    }
    return y;
}

/// Through the definition: dx_j = sum over i of dy_i w_i d(norm_i)/dx_j.
LayerNormGrad layerNormGrad(const Tensor& dy, const Tensor& x, const Tensor& weight,
                            double epsilon) {
    LayerNormGrad out{Tensor(x.rows, x.cols), Tensor(1, x.cols), Tensor(1, x.cols)};
    const auto n = static_cast<double>(x.cols);
    for (std::int64_t r = 0; r < x.rows; ++r) {
        const RowMoments m = momentsOf(x, r, epsilon);
        for (std::int64_t i = 0; i < x.cols; ++i) {
            const double norm = (x.at(r, i) - m.mean) * m.inverse;
            out.dweight.at(0, i) += dy.at(r, i) * norm;
            out.dbias.at(0, i) += dy.at(r, i);
            for (std::int64_t j = 0; j < x.cols; ++j) {
                const double other = (x.at(r, j) - m.mean) * m.inverse;
                const double slope =
                    m.inverse * ((i == j ? 1.0 : 0.0) - 1.0 / n - norm * other / n);
                out.dx.at(r, j) += dy.at(r, i) * weight.at(0, i) * slope;
            }
        }
    }
    return out;
}

Tensor rotary(const RotaryShape& s, const Tensor& x, double sign) {
    Tensor y = x;
    const std::int64_t half = s.head_dim / 2;
    for (std::int64_t r = 0; r < x.rows; ++r)
        for (std::int64_t h = 0; h < s.num_heads; ++h)
            for (std::int64_t i = 0; i < half; ++i) {
                const double angle = sign * static_cast<double>(r % s.seq_len) *
                                     std::pow(s.theta, -2.0 * static_cast<double>(i) /
                                                           static_cast<double>(s.head_dim));
                const std::int64_t c = h * (s.stride > 0 ? s.stride : s.head_dim) + s.first + i;
                const double a = x.at(r, c);
                const double b = x.at(r, c + half);
                y.at(r, c) = a * std::cos(angle) - b * std::sin(angle);
                y.at(r, c + half) = a * std::sin(angle) + b * std::cos(angle);
            }
    return y;
}

Tensor linear(const Tensor& x, const Tensor& w) {
    Tensor y(x.rows, w.rows);
    for (std::int64_t r = 0; r < x.rows; ++r)
        for (std::int64_t n = 0; n < w.rows; ++n)
            for (std::int64_t k = 0; k < x.cols; ++k) y.at(r, n) += x.at(r, k) * w.at(n, k);
    return y;
}

Tensor linearInputGrad(const Tensor& dy, const Tensor& w) {
    Tensor dx(dy.rows, w.cols);
    for (std::int64_t r = 0; r < dy.rows; ++r)
        for (std::int64_t n = 0; n < w.rows; ++n)
            for (std::int64_t k = 0; k < w.cols; ++k) dx.at(r, k) += dy.at(r, n) * w.at(n, k);
    return dx;
}

Tensor linearWeightGrad(const Tensor& dy, const Tensor& x) {
    Tensor dw(dy.cols, x.cols);
    for (std::int64_t r = 0; r < dy.rows; ++r)
        for (std::int64_t n = 0; n < dy.cols; ++n)
            for (std::int64_t k = 0; k < x.cols; ++k) dw.at(n, k) += dy.at(r, n) * x.at(r, k);
    return dw;
}

Tensor groupedLinear(const Tensor& x, const Offsets& offsets, const Tensor& w) {
    const auto groups = std::int64_t(offsets.size()) - 1;
    const std::int64_t n = w.rows / groups;
    Tensor y(x.rows, n);
    for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t first = offsets[index(g)];
        y.place(first, linear(x.slice(first, offsets[index(g + 1)] - first), w.slice(g * n, n)));
    }
    return y;
}

Tensor groupedLinearInputGrad(const Tensor& dy, const Offsets& offsets, const Tensor& w) {
    const auto groups = std::int64_t(offsets.size()) - 1;
    Tensor dx(dy.rows, w.cols);
    for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t first = offsets[index(g)];
        dx.place(first, linearInputGrad(dy.slice(first, offsets[index(g + 1)] - first),
                                        w.slice(g * dy.cols, dy.cols)));
    }
    return dx;
}

Tensor groupedLinearWeightGrad(const Tensor& dy, const Tensor& x, const Offsets& offsets) {
    const auto groups = std::int64_t(offsets.size()) - 1;
    Tensor dw(groups * dy.cols, x.cols);
    for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t first = offsets[index(g)];
        const std::int64_t rows = offsets[index(g + 1)] - first;
        dw.place(g * dy.cols, linearWeightGrad(dy.slice(first, rows), x.slice(first, rows)));
    }
    return dw;
}

Tensor swiglu(const Tensor& gate_up) {
    Tensor out(gate_up.rows, gate_up.cols / 2);
    for (std::int64_t r = 0; r < out.rows; ++r)
        for (std::int64_t c = 0; c < out.cols; ++c) {
            const double gate = gate_up.at(r, c);
            out.at(r, c) = gate * logistic(gate) * gate_up.at(r, out.cols + c);
        }
    return out;
}

Tensor swigluGrad(const Tensor& dout, const Tensor& gate_up) {
    Tensor out(gate_up.rows, gate_up.cols);
    for (std::int64_t r = 0; r < dout.rows; ++r)
        for (std::int64_t c = 0; c < dout.cols; ++c) {
            const double gate = gate_up.at(r, c);
            const double s = logistic(gate);
            out.at(r, c) =
                dout.at(r, c) * gate_up.at(r, dout.cols + c) * (s + gate * s * (1.0 - s));
            out.at(r, dout.cols + c) = dout.at(r, c) * gate * s;
        }
    return out;
}

Tensor gateRows(const Tensor& gate, const Tensor& x) {
    Tensor out = x;
    for (std::int64_t r = 0; r < x.rows; ++r)
        for (std::int64_t c = 0; c < x.cols; ++c) out.at(r, c) *= logistic(gate.at(r, 0));
    return out;
}

GateGrad gateRowsGrad(const Tensor& dy, const Tensor& gate, const Tensor& x) {
    GateGrad out{Tensor(x.rows, 1), dy};
    for (std::int64_t r = 0; r < x.rows; ++r) {
        const double s = logistic(gate.at(r, 0));
        for (std::int64_t c = 0; c < x.cols; ++c) {
            out.dgate.at(r, 0) += dy.at(r, c) * x.at(r, c) * s * (1.0 - s);
            out.dx.at(r, c) *= s;
        }
    }
    return out;
}

Tensor gelu(const Tensor& x) {
    Tensor out = x;
    const double root = std::sqrt(2.0 / std::numbers::pi);
    for (double& v : out.data) v = 0.5 * v * (1.0 + std::tanh(root * (v + 0.044715 * v * v * v)));
    return out;
}

Tensor geluGrad(const Tensor& dout, const Tensor& x) {
    Tensor out = dout;
    const double root = std::sqrt(2.0 / std::numbers::pi);
    for (std::size_t i = 0; i < out.data.size(); ++i) {
        const double v = x.data[i];
        const double t = std::tanh(root * (v + 0.044715 * v * v * v));
        const double slope = root * (1.0 + 3.0 * 0.044715 * v * v);
        out.data[i] *= 0.5 * (1.0 + t) + 0.5 * v * (1.0 - t * t) * slope;
    }
    return out;
}

namespace {

/// Probabilities of one head of one sequence: [seq_len, seq_len], zero outside the band.
struct Probabilities {
    Tensor p;
    std::vector<double> lse;
};

Probabilities probabilities(const AttentionShape& s, const Tensor& q, const Tensor& k,
                            std::int64_t sequence, std::int64_t head) {
    Probabilities out{Tensor(s.seq_len, s.seq_len), std::vector<double>(index(s.seq_len))};
    const std::int64_t key_head = head / (s.num_heads / s.num_kv_heads);
    const double scale = 1.0 / std::sqrt(static_cast<double>(s.qk_head_dim));
    for (std::int64_t i = 0; i < s.seq_len; ++i) {
        const std::int64_t first =
            s.sliding_window > 0 ? std::max<std::int64_t>(0, i - s.sliding_window + 1) : 0;
        double sum = 0.0;
        for (std::int64_t j = first; j <= i; ++j) {
            double score = 0.0;
            for (std::int64_t d = 0; d < s.qk_head_dim; ++d)
                score += q.at(sequence * s.seq_len + i, head * s.qk_head_dim + d) *
                         k.at(sequence * s.seq_len + j, key_head * s.qk_head_dim + d);
            out.p.at(i, j) = std::exp(score * scale);
            sum += out.p.at(i, j);
        }
        for (std::int64_t j = first; j <= i; ++j) out.p.at(i, j) /= sum;
        out.lse[index(i)] = std::log(sum);
    }
    return out;
}

}  // namespace

AttentionResult attention(const AttentionShape& s, const Tensor& q, const Tensor& k,
                          const Tensor& v) {
    AttentionResult out{Tensor(s.rows(), s.num_heads * s.v_head_dim),
                        Tensor(s.batch * s.num_heads, s.seq_len)};
    for (std::int64_t b = 0; b < s.batch; ++b)
        for (std::int64_t h = 0; h < s.num_heads; ++h) {
            const Probabilities one = probabilities(s, q, k, b, h);
            const std::int64_t key_head = h / (s.num_heads / s.num_kv_heads);
            for (std::int64_t i = 0; i < s.seq_len; ++i) {
                out.lse.at(b * s.num_heads + h, i) = one.lse[index(i)];
                for (std::int64_t j = 0; j <= i; ++j)
                    for (std::int64_t d = 0; d < s.v_head_dim; ++d)
                        out.o.at(b * s.seq_len + i, h * s.v_head_dim + d) +=
                            one.p.at(i, j) * v.at(b * s.seq_len + j, key_head * s.v_head_dim + d);
            }
        }
    return out;
}

namespace {

void attentionGradHead(const AttentionShape& s, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Tensor& d_o, std::int64_t b, std::int64_t h, AttentionGrad& out) {
    const Tensor p = probabilities(s, q, k, b, h).p;
    const std::int64_t key_head = h / (s.num_heads / s.num_kv_heads);
    const double scale = 1.0 / std::sqrt(static_cast<double>(s.qk_head_dim));
    const std::int64_t top = b * s.seq_len;
    for (std::int64_t i = 0; i < s.seq_len; ++i) {
        std::vector<double> dp(index(i + 1), 0.0);
        double mean = 0.0;
        for (std::int64_t j = 0; j <= i; ++j) {
            for (std::int64_t d = 0; d < s.v_head_dim; ++d) {
                const double grad = d_o.at(top + i, h * s.v_head_dim + d);
                dp[index(j)] += grad * v.at(top + j, key_head * s.v_head_dim + d);
                out.dv.at(top + j, key_head * s.v_head_dim + d) += p.at(i, j) * grad;
            }
            mean += dp[index(j)] * p.at(i, j);
        }
        for (std::int64_t j = 0; j <= i; ++j) {
            const double ds = p.at(i, j) * (dp[index(j)] - mean) * scale;
            for (std::int64_t d = 0; d < s.qk_head_dim; ++d) {
                const std::int64_t q_col = h * s.qk_head_dim + d;
                const std::int64_t k_col = key_head * s.qk_head_dim + d;
                out.dq.at(top + i, q_col) += ds * k.at(top + j, k_col);
                out.dk.at(top + j, k_col) += ds * q.at(top + i, q_col);
            }
        }
    }
}

}  // namespace

AttentionGrad attentionGrad(const AttentionShape& s, const Tensor& q, const Tensor& k,
                            const Tensor& v, const Tensor& d_o) {
    AttentionGrad out{Tensor(q.rows, q.cols), Tensor(k.rows, k.cols), Tensor(v.rows, v.cols)};
    for (std::int64_t b = 0; b < s.batch; ++b)
        for (std::int64_t h = 0; h < s.num_heads; ++h)
            attentionGradHead(s, q, k, v, d_o, b, h, out);
    return out;
}

namespace {

/// The best `keep` of `scores`, ties to the lower index, best first.
std::vector<std::int32_t> bestOf(const std::vector<double>& scores, std::int64_t keep) {
    std::vector<std::int32_t> order(scores.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return scores[index(a)] > scores[index(b)];
    });
    order.resize(index(keep));
    return order;
}

/// Experts outside the `keep` groups with the highest sums of their `best` best fall to -infinity.
void keepBestGroups(std::vector<double>& scores, const std::vector<std::int64_t>& group,
                    std::int64_t groups, std::int64_t keep, std::int64_t best) {
    std::vector<double> sums(index(groups), 0.0);
    for (std::int64_t g = 0; g < groups; ++g) {
        std::vector<double> own;
        for (std::size_t e = 0; e < scores.size(); ++e)
            if (group[e] == g && std::isfinite(scores[e])) own.push_back(scores[e]);
        std::sort(own.rbegin(), own.rend());
        if (own.empty()) sums[index(g)] = -INFINITY;
        for (std::size_t i = 0; i < own.size() && i < index(best); ++i) sums[index(g)] += own[i];
    }
    const std::vector<std::int32_t> kept = bestOf(sums, std::min(keep, groups));
    for (std::size_t e = 0; e < scores.size(); ++e) {
        const bool in = std::count(kept.begin(), kept.end(), group[e]) > 0;
        if (!in) scores[e] = -INFINITY;
    }
}

/// The experts of one token whose scores these are.
std::vector<std::int32_t> chosen(const RouterShape& s, std::vector<double> scores) {
    for (std::size_t e = 0; e < s.bias.size(); ++e) scores[e] += static_cast<double>(s.bias[e]);
    std::vector<std::int64_t> group;
    if (s.num_groups > 1) {
        const std::int64_t size = s.num_experts / s.num_groups;
        for (std::int64_t e = 0; e < s.num_experts; ++e) group.push_back(e / size);
        keepBestGroups(scores, group, s.num_groups, s.topk_groups, s.bias.empty() ? 1 : 2);
    }
    if (s.node_limit > 0) {
        group.assign(s.node_of_expert.begin(), s.node_of_expert.end());
        const std::int64_t nodes = 1 + *std::max_element(group.begin(), group.end());
        keepBestGroups(scores, group, nodes, s.node_limit,
                       (s.router_topk + s.node_limit - 1) / s.node_limit);
    }
    return bestOf(scores, s.router_topk);
}

}  // namespace

RouterResult router(const RouterShape& s, const Tensor& logits, const Ids& replay) {
    RouterResult out{Tensor(logits.rows, logits.cols), Tensor(logits.rows, s.router_topk), replay};
    const bool choose = replay.empty();
    for (std::int64_t r = 0; r < logits.rows; ++r) {
        std::vector<double> scores;
        for (std::int64_t e = 0; e < s.num_experts; ++e) {
            out.scores.at(r, e) = s.scoring == ScoringFunction::Softmax
                                      ? std::exp(logits.at(r, e) - logSumExp(logits, r))
                                      : logistic(logits.at(r, e));
            scores.push_back(out.scores.at(r, e));
        }
        if (choose) {
            const std::vector<std::int32_t> picked = chosen(s, std::move(scores));
            out.experts.insert(out.experts.end(), picked.begin(), picked.end());
        }
        double sum = 0.0;
        for (std::int64_t j = 0; j < s.router_topk; ++j)
            sum += out.scores.at(r, out.experts[index(r * s.router_topk + j)]);
        for (std::int64_t j = 0; j < s.router_topk; ++j)
            out.weights.at(r, j) = s.routed_scaling_factor *
                                   out.scores.at(r, out.experts[index(r * s.router_topk + j)]) /
                                   (s.norm_topk_prob ? sum : 1.0);
    }
    return out;
}

Tensor routerGrad(const RouterShape& s, const RouterResult& forward, const Tensor& dweights,
                  const Tensor& dscore) {
    const Tensor& scores = forward.scores;
    Tensor out(scores.rows, scores.cols);
    for (std::int64_t r = 0; r < scores.rows; ++r) {
        const std::int32_t* chosen = forward.experts.data() + r * s.router_topk;
        std::vector<double> d(index(scores.cols), 0.0);
        if (dscore.rows > 0) d = dscore.data;
        double sum = 0.0;
        double pull = 0.0;
        for (std::int64_t j = 0; j < s.router_topk; ++j) {
            sum += scores.at(r, chosen[j]);
            pull += dweights.at(r, j) * scores.at(r, chosen[j]);
        }
        for (std::int64_t j = 0; j < s.router_topk; ++j)
            d[index(chosen[j])] += s.routed_scaling_factor *
                                   (s.norm_topk_prob ? dweights.at(r, j) / sum - pull / (sum * sum)
                                                     : dweights.at(r, j));
        double mean = 0.0;
        for (std::int64_t e = 0; e < scores.cols; ++e) mean += d[index(e)] * scores.at(r, e);
        for (std::int64_t e = 0; e < scores.cols; ++e)
            out.at(r, e) = s.scoring == ScoringFunction::Softmax
                               ? scores.at(r, e) * (d[index(e)] - mean)
                               : d[index(e)] * scores.at(r, e) * (1.0 - scores.at(r, e));
    }
    return out;
}

Tensor permute(const Tensor& x, const Ids& slot_of_row, std::int64_t router_topk) {
    Tensor rows(std::int64_t(slot_of_row.size()), x.cols);
    for (std::int64_t r = 0; r < rows.rows; ++r)
        if (slot_of_row[index(r)] >= 0)
            rows.place(r, x.slice(slot_of_row[index(r)] / router_topk, 1));
    return rows;
}

Tensor permuteGrad(const Tensor& drows, const Ids& row_of_slot, std::int64_t router_topk) {
    Tensor dx(std::int64_t(row_of_slot.size()) / router_topk, drows.cols);
    for (std::size_t slot = 0; slot < row_of_slot.size(); ++slot)
        for (std::int64_t c = 0; c < dx.cols && row_of_slot[slot] >= 0; ++c)
            dx.at(std::int64_t(slot) / router_topk, c) += drows.at(row_of_slot[slot], c);
    return dx;
}

Tensor combine(const Tensor& rows, const Ids& row_of_slot, const Tensor& weights) {
    Tensor y(weights.rows, rows.cols);
    for (std::int64_t token = 0; token < y.rows; ++token)
        for (std::int64_t j = 0; j < weights.cols; ++j) {
            const std::int32_t row = row_of_slot[index(token * weights.cols + j)];
            for (std::int64_t c = 0; c < y.cols && row >= 0; ++c)
                y.at(token, c) += weights.at(token, j) * rows.at(row, c);
        }
    return y;
}

CombineGrad combineGrad(const Tensor& dy, const Tensor& rows, const Ids& row_of_slot,
                        const Tensor& weights) {
    CombineGrad out{Tensor(rows.rows, rows.cols), Tensor(weights.rows, weights.cols)};
    for (std::int64_t token = 0; token < dy.rows; ++token)
        for (std::int64_t j = 0; j < weights.cols; ++j) {
            const std::int32_t row = row_of_slot[index(token * weights.cols + j)];
            for (std::int64_t c = 0; c < dy.cols && row >= 0; ++c) {
                out.drows.at(row, c) = weights.at(token, j) * dy.at(token, c);
                out.dweights.at(token, j) += dy.at(token, c) * rows.at(row, c);
            }
        }
    return out;
}

double crossEntropy(const Tensor& logits, const Ids& targets) {
    double loss = 0.0;
    for (std::int64_t r = 0; r < logits.rows; ++r)
        if (targets[index(r)] >= 0) loss += logSumExp(logits, r) - logits.at(r, targets[index(r)]);
    return loss;
}

Tensor crossEntropyGrad(const Tensor& logits, const Ids& targets, double scale) {
    Tensor out(logits.rows, logits.cols);
    for (std::int64_t r = 0; r < logits.rows; ++r) {
        if (targets[index(r)] < 0) continue;
        for (std::int64_t c = 0; c < logits.cols; ++c)
            out.at(r, c) = scale * std::exp(logits.at(r, c) - logSumExp(logits, r));
        out.at(r, targets[index(r)]) -= scale;
    }
    return out;
}

void adamW(const AdamWParameters& p, const Tensor& gradient, Tensor& weight, Tensor& m, Tensor& v) {
    const auto step = static_cast<double>(p.step);
    for (std::size_t i = 0; i < weight.data.size(); ++i) {
        const double g = gradient.data[i] * p.gradient_scale;
        m.data[i] = p.beta1 * m.data[i] + (1.0 - p.beta1) * g;
        v.data[i] = p.beta2 * v.data[i] + (1.0 - p.beta2) * g * g;
        const double first = m.data[i] / (1.0 - std::pow(p.beta1, step));
        const double second = v.data[i] / (1.0 - std::pow(p.beta2, step));
        weight.data[i] -= p.learning_rate * (p.weight_decay * weight.data[i] +
                                             first / (std::sqrt(second) + p.epsilon));
    }
}

}  // namespace piper::reference
