// SPDX-License-Identifier: Apache-2.0
// Norms over rows and the rotation of queries and keys.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend_impl.h"

namespace piper {

Status CpuBackend::rmsNormForward(ConstMatrix x, ConstVector weight, float epsilon, Matrix y,
                                  Vector inverse_rms) {
    PIPER_CHECK(sameShape(x, y) && length(weight.size()) == x.cols);
    PIPER_CHECK(length(inverse_rms.size()) == x.rows);
    for (std::int64_t r = 0; r < x.rows; ++r)
        inverse_rms[static_cast<std::size_t>(r)] =
            m_loops.rmsNormRow(x.cols, x.row(r), weight.data(), epsilon, y.row(r));
    touch(2 * x.size() + x.cols + x.rows);
    return {};
}

Status CpuBackend::rmsNormInputGrad(ConstMatrix dy, ConstMatrix x, ConstVector weight,
                                    ConstVector inverse_rms, Matrix dx, Store store) {
    PIPER_CHECK(sameShape(x, dy) && sameShape(x, dx) && length(weight.size()) == x.cols);
    PIPER_CHECK(length(inverse_rms.size()) == x.rows);
    for (std::int64_t r = 0; r < x.rows; ++r)
        m_loops.rmsNormInputGradRow(x.cols, dy.row(r), x.row(r), weight.data(),
                                    inverse_rms[static_cast<std::size_t>(r)],
                                    store == Store::Accumulate, dx.row(r));
    touch((store == Store::Accumulate ? 4 : 3) * x.size() + x.cols + x.rows);
    return {};
}

Status CpuBackend::rmsNormWeightGrad(ConstMatrix dy, ConstMatrix x, ConstVector inverse_rms,
                                     Vector dweight) {
    PIPER_CHECK(sameShape(x, dy) && length(dweight.size()) == x.cols);
    PIPER_CHECK(length(inverse_rms.size()) == x.rows);
    for (std::int64_t r = 0; r < x.rows; ++r)
        m_loops.rmsNormWeightGradRow(x.cols, dy.row(r), x.row(r),
                                     inverse_rms[static_cast<std::size_t>(r)], dweight.data());
    touch(2 * x.size() + 2 * x.cols + x.rows);
    return {};
}

Status CpuBackend::layerNormForward(ConstMatrix x, ConstVector weight, ConstVector bias,
                                    float epsilon, Matrix y, Vector mean, Vector inverse) {
    PIPER_CHECK(sameShape(x, y) && length(weight.size()) == x.cols && bias.size() == weight.size());
    PIPER_CHECK(length(mean.size()) == x.rows && length(inverse.size()) == x.rows);
    for (std::int64_t r = 0; r < x.rows; ++r) {
        const Loops::Moments m =
            m_loops.layerNormRow(x.cols, x.row(r), weight.data(), bias.data(), epsilon, y.row(r));
        mean[static_cast<std::size_t>(r)] = m.mean;
        inverse[static_cast<std::size_t>(r)] = m.inverse;
    }
    touch(2 * x.size() + 2 * x.cols + 2 * x.rows);
    return {};
}

Status CpuBackend::layerNormInputGrad(ConstMatrix dy, ConstMatrix x, ConstVector weight,
                                      ConstVector mean, ConstVector inverse, Matrix dx,
                                      Store store) {
    PIPER_CHECK(sameShape(x, dy) && sameShape(x, dx) && length(weight.size()) == x.cols);
    PIPER_CHECK(length(mean.size()) == x.rows && length(inverse.size()) == x.rows);
    for (std::int64_t r = 0; r < x.rows; ++r)
        m_loops.layerNormInputGradRow(
            x.cols, dy.row(r), x.row(r), weight.data(),
            {mean[static_cast<std::size_t>(r)], inverse[static_cast<std::size_t>(r)]},
            store == Store::Accumulate, dx.row(r));
    touch((store == Store::Accumulate ? 4 : 3) * x.size() + x.cols + 2 * x.rows);
    return {};
}

Status CpuBackend::layerNormWeightGrad(ConstMatrix dy, ConstMatrix x, ConstVector mean,
                                       ConstVector inverse, Vector dweight, Vector dbias) {
    PIPER_CHECK(sameShape(x, dy) && length(dweight.size()) == x.cols);
    PIPER_CHECK(dbias.size() == dweight.size());
    PIPER_CHECK(length(mean.size()) == x.rows && length(inverse.size()) == x.rows);
    for (std::int64_t r = 0; r < x.rows; ++r)
        m_loops.layerNormWeightGradRow(
            x.cols, dy.row(r), x.row(r),
            {mean[static_cast<std::size_t>(r)], inverse[static_cast<std::size_t>(r)]},
            dweight.data(), dbias.data());
    touch(2 * x.size() + 4 * x.cols + 2 * x.rows);
    return {};
}

Status CpuBackend::prepareAngles(const RotaryShape& shape) {
    if (m_angles_of.seq_len == shape.seq_len && m_angles_of.head_dim == shape.head_dim &&
        m_angles_of.theta == shape.theta)
        return {};
    const std::int64_t half = shape.head_dim / 2;
    m_angles.reset();
    m_angles_of.seq_len = 0;
    PIPER_ASSIGN(m_angles,
                 m_allocator.allocateFloats(MemoryTerm::Workspace,
                                            2 * std::max<std::int64_t>(1, shape.seq_len * half)));
    float* cosine = m_angles.floats().data();
    float* sine = cosine + shape.seq_len * half;
    for (std::int64_t i = 0; i < half; ++i) {
        const double frequency = std::pow(
            shape.theta, -2.0 * static_cast<double>(i) / static_cast<double>(shape.head_dim));
        for (std::int64_t p = 0; p < shape.seq_len; ++p) {
            const double angle = static_cast<double>(p) * frequency;
            cosine[p * half + i] = static_cast<float>(std::cos(angle));
            sine[p * half + i] = static_cast<float>(std::sin(angle));
        }
    }
    m_angles_of = shape;
    return {};
}

Status CpuBackend::rotate(const RotaryShape& shape, Matrix x, float sign) {
    PIPER_CHECK(shape.head_dim % 2 == 0 && x.cols == shape.num_heads * shape.headStride());
    PIPER_CHECK(shape.first >= 0 && shape.first + shape.head_dim <= shape.headStride());
    PIPER_CHECK(x.rows % shape.seq_len == 0);
    PIPER_TRY(prepareAngles(shape));
    const std::int64_t half = shape.head_dim / 2;
    const float* cosine = m_angles.floats().data();
    const float* sine = cosine + shape.seq_len * half;
    for (std::int64_t r = 0; r < x.rows; ++r) {
        const std::int64_t at = r % shape.seq_len * half;
        for (std::int64_t h = 0; h < shape.num_heads; ++h)
            m_loops.rotaryHead(half, cosine + at, sine + at, sign,
                               x.row(r) + h * shape.headStride() + shape.first);
    }
    touch(2 * x.rows * shape.num_heads * shape.head_dim);
    return {};
}

Status CpuBackend::rotaryForward(const RotaryShape& shape, Matrix x) {
    return rotate(shape, x, 1.0F);
}

Status CpuBackend::rotaryInputGrad(const RotaryShape& shape, Matrix dx) {
    return rotate(shape, dx, -1.0F);
}

}  // namespace piper
