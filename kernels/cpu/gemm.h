// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/base/result.h"
#include "kernels/ops/tensor.h"

namespace piper {

/// One operand as it lies in memory: element (r, c) of the stored rows is data[r * stride + c].
/// transposed: the product takes its transpose.
struct GemmOperand {
    const float* data = nullptr;
    std::int64_t stride = 1;
    bool transposed = false;
};

/// c [m, n] (+)= a [m, k] * b [k, n].
struct GemmCall {
    std::int64_t m = 0, n = 0, k = 0;
    GemmOperand a, b;
    float* c = nullptr;
    std::int64_t c_stride = 1;
    Store store = Store::Overwrite;
};

/// The only place that speaks with oneDNN; one engine and one in-order stream, one thread.
class Gemm {
public:
    /// Errors: External when oneDNN has no CPU engine.
    [[nodiscard]] static Result<std::unique_ptr<Gemm>> make();
    ~Gemm();
    Gemm(const Gemm&) = delete;
    Gemm& operator=(const Gemm&) = delete;

    /// For shapes that come again and again: a matmul primitive made once per shape (making one
    /// takes 50 to 300 us, as long as a small product) and kept.
    Status runFixed(const GemmCall& call);
    /// For shapes that change from call to call (rows routed to an expert, tiles at an edge):
    /// oneDNN's sgemm, which makes nothing. Where both use the same kernel they are equally fast.
    Status runVarying(const GemmCall& call);

    /// Called after every product. Products made elsewhere tell it by meanwhile().
    void setMeanwhile(std::function<void()> meanwhile) { m_meanwhile = std::move(meanwhile); }
    void meanwhile() const {
        if (m_meanwhile) m_meanwhile();
    }

private:
    struct Engine;
    explicit Gemm(std::unique_ptr<Engine> engine);
    std::unique_ptr<Engine> m_engine;
    std::function<void()> m_meanwhile;
};

}  // namespace piper
