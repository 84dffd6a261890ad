// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/cpu/cpu_backend_impl.h"

namespace piper {

namespace {

void checkOffsets(std::span<const std::int64_t> offsets, std::int64_t rows) {
    PIPER_CHECK(offsets.size() >= 2 && offsets.front() == 0 && offsets.back() == rows);
    PIPER_CHECK(std::is_sorted(offsets.begin(), offsets.end()));
}

}  // namespace

Result<std::unique_ptr<Backend>> makeCpuBackend(TaggedAllocator& allocator) {
    PIPER_ASSIGN(std::unique_ptr<Gemm> gemm, Gemm::make());
    const Loops& loops = chooseLoops();
    PIPER_ASSIGN(Attention attention, Attention::make(allocator, *gemm, loops));
    return std::unique_ptr<Backend>(
        std::make_unique<CpuBackend>(allocator, std::move(gemm), std::move(attention), loops));
}

CpuBackend::CpuBackend(TaggedAllocator& allocator, std::unique_ptr<Gemm> gemm, Attention attention,
                       const Loops& loops)
    : m_allocator(allocator),
      m_gemm(std::move(gemm)),
      m_attention(std::move(attention)),
      m_loops(loops) {}

Status CpuBackend::copyToDevice(std::span<const std::byte> host, std::span<std::byte> device) {
    PIPER_CHECK(host.size() == device.size());
    if (!host.empty()) std::memcpy(device.data(), host.data(), host.size());
    return {};
}

Status CpuBackend::copyToHost(std::span<const std::byte> device, std::span<std::byte> host) {
    return copyToDevice(device, host);
}

Status CpuBackend::fill(Vector x, float value) {
    std::fill(x.begin(), x.end(), value);
    touch(length(x.size()));
    return {};
}

Status CpuBackend::add(ConstVector x, Vector y) {
    PIPER_CHECK(x.size() == y.size());
    m_loops.add(length(x.size()), x.data(), y.data());
    touch(3 * length(x.size()));
    return {};
}

Status CpuBackend::scale(Vector x, float factor) {
    m_loops.scale(length(x.size()), factor, x.data());
    touch(2 * length(x.size()));
    return {};
}

Status CpuBackend::linearForward(ConstMatrix x, ConstMatrix w, Matrix y, Store store) {
    PIPER_CHECK(x.cols == w.cols && y.rows == x.rows && y.cols == w.rows);
    m_work.addGemm(x.rows, w.rows, x.cols);
    return m_gemm->runFixed({x.rows,
                             w.rows,
                             x.cols,
                             {x.data, x.cols, false},
                             {w.data, w.cols, true},
                             y.data,
                             y.cols,
                             store});
}

Status CpuBackend::linearInputGrad(ConstMatrix dy, ConstMatrix w, Matrix dx, Store store) {
    PIPER_CHECK(dy.cols == w.rows && dx.rows == dy.rows && dx.cols == w.cols);
    m_work.addGemm(dy.rows, w.cols, dy.cols);
    return m_gemm->runFixed({dy.rows,
                             w.cols,
                             dy.cols,
                             {dy.data, dy.cols, false},
                             {w.data, w.cols, false},
                             dx.data,
                             dx.cols,
                             store});
}

Status CpuBackend::linearWeightGrad(ConstMatrix dy, ConstMatrix x, Matrix dw) {
    PIPER_CHECK(dy.rows == x.rows && dw.rows == dy.cols && dw.cols == x.cols);
    m_work.addGemm(dy.cols, x.cols, x.rows);
    return m_gemm->runFixed({dy.cols,
                             x.cols,
                             x.rows,
                             {dy.data, dy.cols, true},
                             {x.data, x.cols, false},
                             dw.data,
                             dw.cols,
                             Store::Accumulate});
}

Status CpuBackend::biasForward(ConstVector bias, Matrix y) {
    PIPER_CHECK(length(bias.size()) == y.cols);
    for (std::int64_t r = 0; r < y.rows; ++r) m_loops.add(y.cols, bias.data(), y.row(r));
    touch(2 * y.size() + y.cols);
    return {};
}

Status CpuBackend::biasWeightGrad(ConstMatrix dy, Vector dbias) {
    PIPER_CHECK(length(dbias.size()) == dy.cols);
    for (std::int64_t r = 0; r < dy.rows; ++r) m_loops.add(dy.cols, dy.row(r), dbias.data());
    touch(dy.size() + 2 * dy.cols);
    return {};
}

Status CpuBackend::groupedLinearForward(ConstMatrix x, std::span<const std::int64_t> offsets,
                                        ConstMatrix w, Matrix y) {
    checkOffsets(offsets, x.rows);
    const std::int64_t groups = length(offsets.size()) - 1;
    PIPER_CHECK(x.cols == w.cols && y.rows == x.rows && w.rows == groups * y.cols);
    for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
        const std::int64_t first = offsets[g];
        const std::int64_t rows = offsets[g + 1] - first;
        if (rows == 0) continue;
        m_work.addGemm(rows, y.cols, x.cols);
        if (Loops::rowsForwardPays(rows, y.cols, x.cols)) {
            m_loops.rowsForward(rows, y.cols, x.cols, x.row(first), w.row(length(g) * y.cols),
                                y.row(first), m_scratch.data());
            m_gemm->meanwhile();
            continue;
        }
        PIPER_TRY(m_gemm->runVarying({rows,
                                      y.cols,
                                      x.cols,
                                      {x.row(first), x.cols, false},
                                      {w.row(length(g) * y.cols), w.cols, true},
                                      y.row(first),
                                      y.cols,
                                      Store::Overwrite}));
    }
    return {};
}

Status CpuBackend::groupedLinearInputGrad(ConstMatrix dy, std::span<const std::int64_t> offsets,
                                          ConstMatrix w, Matrix dx) {
    checkOffsets(offsets, dy.rows);
    const std::int64_t groups = length(offsets.size()) - 1;
    PIPER_CHECK(dx.cols == w.cols && dx.rows == dy.rows && w.rows == groups * dy.cols);
    for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
        const std::int64_t first = offsets[g];
        const std::int64_t rows = offsets[g + 1] - first;
        if (rows == 0) continue;
        m_work.addGemm(rows, w.cols, dy.cols);
        if (rows <= Loops::kFewRows) {
            m_loops.fewRowsInputGrad(rows, dy.cols, w.cols, dy.row(first),
                                     w.row(length(g) * dy.cols), dx.row(first));
            m_gemm->meanwhile();
            continue;
        }
        PIPER_TRY(m_gemm->runVarying({rows,
                                      w.cols,
                                      dy.cols,
                                      {dy.row(first), dy.cols, false},
                                      {w.row(length(g) * dy.cols), w.cols, false},
                                      dx.row(first),
                                      dx.cols,
                                      Store::Overwrite}));
    }
    return {};
}

Status CpuBackend::groupedLinearWeightGrad(ConstMatrix dy, ConstMatrix x,
                                           std::span<const std::int64_t> offsets, Matrix dw) {
    checkOffsets(offsets, dy.rows);
    const std::int64_t groups = length(offsets.size()) - 1;
    PIPER_CHECK(dw.cols == x.cols && dy.rows == x.rows && dw.rows == groups * dy.cols);
    for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
        const std::int64_t first = offsets[g];
        const std::int64_t rows = offsets[g + 1] - first;
        if (rows == 0) continue;
        m_work.addGemm(dy.cols, x.cols, rows);
        if (rows <= Loops::kFewRows) {
            m_loops.fewRowsWeightGrad(rows, dy.cols, x.cols, dy.row(first), x.row(first),
                                      dw.row(length(g) * dy.cols));
            m_gemm->meanwhile();
            continue;
        }
        PIPER_TRY(m_gemm->runVarying({dy.cols,
                                      x.cols,
                                      rows,
                                      {dy.row(first), dy.cols, true},
                                      {x.row(first), x.cols, false},
                                      dw.row(length(g) * dy.cols),
                                      dw.cols,
                                      Store::Accumulate}));
    }
    return {};
}

Status CpuBackend::swigluForward(ConstMatrix gate_up, Matrix out) {
    PIPER_CHECK(gate_up.rows == out.rows && gate_up.cols == 2 * out.cols);
    for (std::int64_t r = 0; r < out.rows; ++r)
        m_loops.swigluRow(out.cols, gate_up.row(r), out.row(r));
    touch(3 * out.size());
    return {};
}

Status CpuBackend::swigluInputGrad(ConstMatrix dout, ConstMatrix gate_up, Matrix dgate_up) {
    PIPER_CHECK(sameShape(gate_up, dgate_up));
    PIPER_CHECK(gate_up.rows == dout.rows && gate_up.cols == 2 * dout.cols);
    for (std::int64_t r = 0; r < dout.rows; ++r)
        m_loops.swigluGradRow(dout.cols, dout.row(r), gate_up.row(r), dgate_up.row(r));
    touch(5 * dout.size());
    return {};
}

Status CpuBackend::geluForward(ConstMatrix x, Matrix out) {
    PIPER_CHECK(sameShape(x, out));
    m_loops.gelu(x.size(), x.data, out.data);
    touch(2 * x.size());
    return {};
}

Status CpuBackend::geluInputGrad(ConstMatrix dout, ConstMatrix x, Matrix dx) {
    PIPER_CHECK(sameShape(x, dout) && sameShape(x, dx));
    m_loops.geluGrad(x.size(), dout.data, x.data, dx.data);
    touch(3 * x.size());
    return {};
}

namespace {

void checkAttention(const AttentionShape& s, ConstMatrix q, ConstMatrix k, ConstMatrix v,
                    ConstMatrix o, std::size_t lse) {
    PIPER_CHECK(s.num_kv_heads > 0 && s.num_heads % s.num_kv_heads == 0);
    for (const ConstMatrix& x : {q, k, v, o}) PIPER_CHECK(x.rows == s.rows());
    PIPER_CHECK(q.cols == s.num_heads * s.qk_head_dim && k.cols == s.num_kv_heads * s.qk_head_dim);
    PIPER_CHECK(v.cols == s.num_kv_heads * s.v_head_dim && o.cols == s.num_heads * s.v_head_dim);
    PIPER_CHECK(length(lse) == s.lseSize());
}

}  // namespace

Status CpuBackend::attentionForward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k,
                                    ConstMatrix v, Matrix o, Vector lse) {
    checkAttention(shape, q, k, v, o, lse.size());
    m_work.addAttention(shape, false);
    return m_attention.forward(shape, q, k, v, o, lse);
}

Status CpuBackend::attentionBackward(const AttentionShape& shape, ConstMatrix q, ConstMatrix k,
                                     ConstMatrix v, ConstMatrix o, ConstVector lse, ConstMatrix d_o,
                                     Matrix dq, Matrix dk, Matrix dv) {
    checkAttention(shape, q, k, v, o, lse.size());
    PIPER_CHECK(sameShape(o, d_o) && sameShape(q, dq) && sameShape(k, dk) && sameShape(v, dv));
    m_work.addAttention(shape, true);
    return m_attention.backward(shape, q, k, v, o, lse, d_o, dq, dk, dv);
}

Status CpuBackend::addSquaredSum(ConstVector x, double& sum) {
    sum += m_loops.squaredSum(length(x.size()), x.data());
    touch(length(x.size()));
    return {};
}

Status CpuBackend::adamW(const AdamWParameters& p, ConstVector gradient, Vector weight,
                         Vector first_moment, Vector second_moment) {
    PIPER_CHECK(gradient.size() == weight.size() && p.step >= 1);
    PIPER_CHECK(weight.size() == first_moment.size() && weight.size() == second_moment.size());
    const double steps = static_cast<double>(p.step);
    const double first = 1.0 - std::pow(p.beta1, steps);
    const double second = 1.0 - std::pow(p.beta2, steps);
    const Loops::Adam adam{.gradient_scale = static_cast<float>(p.gradient_scale),
                           .beta1 = static_cast<float>(p.beta1),
                           .beta2 = static_cast<float>(p.beta2),
                           .epsilon = static_cast<float>(p.epsilon),
                           .step_size = static_cast<float>(p.learning_rate / first),
                           .second_correction = static_cast<float>(1.0 / std::sqrt(second)),
                           .decay = static_cast<float>(1.0 - p.learning_rate * p.weight_decay)};
    m_loops.adam(length(weight.size()), &adam, gradient.data(), weight.data(), first_moment.data(),
                 second_moment.data());
    touch(7 * length(weight.size()));
    return {};
}

}  // namespace piper
