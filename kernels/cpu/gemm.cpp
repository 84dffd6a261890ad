// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm.h"

#include <dnnl.h>
#include <omp.h>

#include <array>
#include <cstring>
#include <dnnl.hpp>
#include <exception>
#include <map>

namespace piper {

namespace {

using Key = std::array<std::int64_t, 9>;
constexpr std::size_t kMaxPrimitives = 1024;

Key keyOf(const GemmCall& g) {
    return {g.m,
            g.n,
            g.k,
            g.a.stride,
            g.b.stride,
            g.c_stride,
            g.a.transposed,
            g.b.transposed,
            g.store == Store::Accumulate};
}

dnnl::memory::desc describe(std::int64_t rows, std::int64_t cols, const GemmOperand& x) {
    const dnnl::memory::dims strides =
        x.transposed ? dnnl::memory::dims{1, x.stride} : dnnl::memory::dims{x.stride, 1};
    return {{rows, cols}, dnnl::memory::data_type::f32, strides};
}

Error fault(const GemmCall& g, const char* what) {
    Error error = fail(ErrorCode::External, "oneDNN failed in a product of m {} n {} k {}: {}", g.m,
                       g.n, g.k, what);
    error.hint = "ONEDNN_VERBOSE=1 in the environment makes it say why";
    return error;
}

/// Nothing to multiply: the output is the empty sum. True when that was all.
bool finishEmpty(const GemmCall& g) {
    if (g.m == 0 || g.n == 0) return true;
    if (g.k != 0) return false;
    if (g.store == Store::Overwrite)
        for (std::int64_t r = 0; r < g.m; ++r)
            std::memset(g.c + r * g.c_stride, 0, static_cast<std::size_t>(g.n) * sizeof(float));
    return true;
}

}  // namespace

struct Gemm::Engine {
    struct Matmul {
        dnnl::matmul primitive;
        dnnl::memory a, b, c;
    };

    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    std::map<Key, Matmul> matmuls;

    Matmul& find(const GemmCall& g) {
        const Key key = keyOf(g);
        if (const auto found = matmuls.find(key); found != matmuls.end()) return found->second;
        if (matmuls.size() >= kMaxPrimitives) matmuls.clear();
        const auto a = describe(g.m, g.k, g.a);
        const auto b = describe(g.k, g.n, g.b);
        const auto c = describe(g.m, g.n, {nullptr, g.c_stride, false});
        dnnl::primitive_attr attributes;
        if (g.store == Store::Accumulate) {
            dnnl::post_ops sum;
            sum.append_sum(1.0F);
            attributes.set_post_ops(sum);
        }
        const dnnl::matmul::primitive_desc plan(dnnl::matmul::desc(a, b, c), attributes, engine);
        Matmul made{dnnl::matmul(plan), dnnl::memory(a, engine, nullptr),
                    dnnl::memory(b, engine, nullptr), dnnl::memory(c, engine, nullptr)};
        return matmuls.emplace(key, std::move(made)).first->second;
    }
};

Gemm::Gemm(std::unique_ptr<Engine> engine) : m_engine(std::move(engine)) {}
Gemm::~Gemm() = default;

Result<std::unique_ptr<Gemm>> Gemm::make() {
    try {
        return std::unique_ptr<Gemm>(new Gemm(std::make_unique<Engine>()));
    } catch (const std::exception& e) {
        return fail(ErrorCode::External, "oneDNN cannot start on this processor: {}", e.what());
    }
}

Status Gemm::runFixed(const GemmCall& g) {
    if (finishEmpty(g)) return {};
    // A rank is one core: more threads would spin against the other ranks. The setting belongs to
    // the calling thread, so it is made here and not once.
    omp_set_num_threads(1);
    try {
        Engine::Matmul& matmul = m_engine->find(g);
        // oneDNN's handles are not const; it does not write to a source.
        matmul.a.set_data_handle(const_cast<float*>(g.a.data));
        matmul.b.set_data_handle(const_cast<float*>(g.b.data));
        matmul.c.set_data_handle(g.c);
        matmul.primitive.execute(
            m_engine->stream,
            {{DNNL_ARG_SRC, matmul.a}, {DNNL_ARG_WEIGHTS, matmul.b}, {DNNL_ARG_DST, matmul.c}});
        m_engine->stream.wait();
    } catch (const std::exception& e) {
        return fault(g, e.what());
    }
    meanwhile();
    return {};
}

Status Gemm::runVarying(const GemmCall& g) {
    if (finishEmpty(g)) return {};
    omp_set_num_threads(1);
    const float beta = g.store == Store::Accumulate ? 1.0F : 0.0F;
    const dnnl_status_t status =
        dnnl_sgemm(g.a.transposed ? 'T' : 'N', g.b.transposed ? 'T' : 'N', g.m, g.n, g.k, 1.0F,
                   g.a.data, g.a.stride, g.b.data, g.b.stride, beta, g.c, g.c_stride);
    if (status != dnnl_success) return fault(g, "sgemm refused its arguments");
    meanwhile();
    return {};
}

}  // namespace piper
