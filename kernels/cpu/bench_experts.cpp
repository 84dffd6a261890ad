// SPDX-License-Identifier: Apache-2.0
// The experts' products beside oneDNN's own, pair by pair.
#include <dnnl.h>
#include <fmt/format.h>
#include <omp.h>

#include <array>
#include <dnnl.hpp>

#include "kernels/cpu/bench_support.h"

namespace piper {

namespace {

using bench::Stage;
using reference::Tensor;

/// Of one timing; several calls where one is shorter.
constexpr Seconds kTiming(0.03);

/// c [m, n] (+)= a [m, k] b [k, n] for every group, by oneDNN's matmul primitive; b may be packed
/// as oneDNN likes it best, once and ahead of time.
class PeerProduct {
public:
    struct Operand {
        ConstMatrix rows;  ///< of all groups
        bool transposed = false;
    };
    PeerProduct(std::array<std::int64_t, 3> mnk, std::int64_t groups, Operand a, Operand b,
                Matrix c, bool pack, bool accumulate) {
        using dnnl::memory;
        const auto [m, n, k] = mnk;
        const auto plain = [](std::int64_t rows, std::int64_t cols, bool transposed) {
            return memory::desc({rows, cols}, memory::data_type::f32,
                                transposed ? memory::dims{1, rows} : memory::dims{cols, 1});
        };
        const memory::desc a_desc = plain(m, k, a.transposed), b_desc = plain(k, n, b.transposed);
        const memory::desc any({k, n}, memory::data_type::f32, memory::format_tag::any);
        const memory::desc c_desc = plain(m, n, false);
        dnnl::primitive_attr attributes;
        if (accumulate) {
            dnnl::post_ops sum;
            sum.append_sum(1.0F);
            attributes.set_post_ops(sum);
        }
        const dnnl::matmul::primitive_desc plan(
            dnnl::matmul::desc(a_desc, pack ? any : b_desc, c_desc), attributes, m_engine);
        m_primitive = dnnl::matmul(plan);
        for (std::int64_t g = 0; g < groups; ++g) {
            const auto at = [g](auto* data, std::int64_t size) {
                return const_cast<float*>(data) + g * size;
            };
            memory weights(b_desc, m_engine, at(b.rows.data, k * n));
            if (pack) {
                memory packed(plan.weights_desc(), m_engine);
                dnnl::reorder(weights, packed).execute(m_stream, weights, packed);
                m_stream.wait();
                weights = packed;
            }
            m_arguments.push_back({{DNNL_ARG_SRC, memory(a_desc, m_engine, at(a.rows.data, m * k))},
                                   {DNNL_ARG_WEIGHTS, weights},
                                   {DNNL_ARG_DST, memory(c_desc, m_engine, at(c.data, m * n))}});
        }
    }

    void run() {
        for (const auto& arguments : m_arguments) m_primitive.execute(m_stream, arguments);
        m_stream.wait();
    }

private:
    dnnl::engine m_engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream m_stream{m_engine};
    dnnl::matmul m_primitive;
    std::vector<std::unordered_map<int, dnnl::memory>> m_arguments;
};

/// The operands of SwiGLU experts with as many tokens each.
struct Experts {
    std::int64_t groups = 0, tokens = 0, hidden = 0, ffn = 0;
    std::vector<std::int64_t> offsets;
    Matrix x, up, act, y, dy, dact, dup, dx;
    Matrix w_up, w_down, dw_up, dw_down;
    Matrix peer_up, peer_y, peer_dact, peer_dx, peer_dw_up, peer_dw_down;

    [[nodiscard]] double flops() const {
        return 6.0 * static_cast<double>(groups * tokens) * static_cast<double>(hidden * ffn);
    }
};

Result<Experts> makeExperts(Stage& stage, const ExpertShape& shape, std::int64_t tokens) {
    Experts e;
    e.groups = shape.num_experts;
    e.tokens = tokens;
    e.hidden = shape.hidden;
    e.ffn = shape.ffn;
    const std::int64_t r = e.groups * tokens;
    for (std::int64_t g = 0; g <= e.groups; ++g) e.offsets.push_back(g * tokens);
    const auto make = [&stage](std::int64_t rows, std::int64_t cols, Matrix& out,
                               float scale = 1.0F) -> Status {
        PIPER_ASSIGN(out, stage.filled(rows, cols, scale));
        return {};
    };
    for (Matrix* m : {&e.x, &e.y, &e.dy, &e.dx, &e.peer_y, &e.peer_dx})
        PIPER_TRY(make(r, e.hidden, *m));
    for (Matrix* m : {&e.act, &e.dact, &e.peer_dact}) PIPER_TRY(make(r, e.ffn, *m));
    for (Matrix* m : {&e.up, &e.dup, &e.peer_up}) PIPER_TRY(make(r, 2 * e.ffn, *m));
    for (Matrix* m : {&e.w_up, &e.dw_up, &e.peer_dw_up})
        PIPER_TRY(make(e.groups * 2 * e.ffn, e.hidden, *m, 0.05F));
    for (Matrix* m : {&e.w_down, &e.dw_down, &e.peer_dw_down})
        PIPER_TRY(make(e.groups * e.hidden, e.ffn, *m, 0.05F));
    return e;
}

using Call = std::function<Status()>;

/// One pass of the experts, of the worker and of its peers.
struct TimedPass {
    ExpertPass pass;
    Call own;
    std::vector<std::pair<ExpertPeer, Call>> peers;
    std::vector<std::pair<Matrix, Matrix>> same;  ///< own and the peers' results
};

Call productsOf(std::vector<std::shared_ptr<PeerProduct>> products) {
    return [products = std::move(products)]() -> Status {
        for (const auto& product : products) product->run();
        return {};
    };
}

Call loopOfGemms(const Experts& e) {
    return [&e]() -> Status {
        const auto product = [](std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                                const float* b, float* c) {
            return dnnl_sgemm('N', 'T', m, n, k, 1.0F, a, k, b, k, 0.0F, c, n) == dnnl_success
                       ? Status{}
                       : fail(ErrorCode::External, "oneDNN refused a product of {} x {} x {}", m, n,
                              k);
        };
        for (std::int64_t g = 0; g < e.groups; ++g) {
            const std::int64_t at = g * e.tokens;
            PIPER_TRY(product(e.tokens, 2 * e.ffn, e.hidden, e.x.row(at), e.w_up.row(g * 2 * e.ffn),
                              e.peer_up.row(at)));
            PIPER_TRY(product(e.tokens, e.hidden, e.ffn, e.act.row(at), e.w_down.row(g * e.hidden),
                              e.peer_y.row(at)));
        }
        return {};
    };
}

std::vector<TimedPass> passesOf(Backend& cpu, const Experts& e) {
    const std::int64_t t = e.tokens, h = e.hidden, f = e.ffn, n = e.groups;
    const auto peer = [n](std::array<std::int64_t, 3> mnk, PeerProduct::Operand a,
                          PeerProduct::Operand b, Matrix c, bool pack, bool accumulate) {
        return std::make_shared<PeerProduct>(mnk, n, a, b, c, pack, accumulate);
    };
    std::vector<TimedPass> passes;
    passes.push_back(
        {ExpertPass::Forward,
         [&cpu, &e]() -> Status {
             PIPER_TRY(cpu.groupedLinearForward(e.x, e.offsets, e.w_up, e.up));
             PIPER_TRY(cpu.swigluForward(e.up, e.act));
             return cpu.groupedLinearForward(e.act, e.offsets, e.w_down, e.y);
         },
         {{ExpertPeer::Packed,
           productsOf({peer({t, 2 * f, h}, {e.x}, {e.w_up, true}, e.peer_up, true, false),
                       peer({t, h, f}, {e.act}, {e.w_down, true}, e.peer_y, true, false)})},
          {ExpertPeer::Loop, loopOfGemms(e)}},
         {{e.up, e.peer_up}, {e.y, e.peer_y}}});
    passes.push_back(
        {ExpertPass::InputGrad,
         [&cpu, &e]() -> Status {
             PIPER_TRY(cpu.groupedLinearInputGrad(e.dy, e.offsets, e.w_down, e.dact));
             PIPER_TRY(cpu.swigluInputGrad(e.dact, e.up, e.dup));
             return cpu.groupedLinearInputGrad(e.dup, e.offsets, e.w_up, e.dx);
         },
         {{ExpertPeer::Packed,
           productsOf({peer({t, f, h}, {e.dy}, {e.w_down}, e.peer_dact, true, false),
                       peer({t, h, 2 * f}, {e.dup}, {e.w_up}, e.peer_dx, true, false)})}},
         {{e.dact, e.peer_dact}, {e.dx, e.peer_dx}}});
    passes.push_back(
        {ExpertPass::WeightGrad,
         [&cpu, &e]() -> Status {
             PIPER_TRY(cpu.groupedLinearWeightGrad(e.dy, e.act, e.offsets, e.dw_down));
             return cpu.groupedLinearWeightGrad(e.dup, e.x, e.offsets, e.dw_up);
         },
         {{ExpertPeer::Packed,
           productsOf({peer({h, f, t}, {e.dy, true}, {e.act}, e.peer_dw_down, false, true),
                       peer({2 * f, h, t}, {e.dup, true}, {e.x}, e.peer_dw_up, false, true)})}},
         {{e.dw_down, e.peer_dw_down}, {e.dw_up, e.peer_dw_up}}});
    return passes;
}

Status checkPass(Stage& stage, const Experts& e, const TimedPass& pass) {
    for (const auto& [peer, call] : pass.peers) {
        for (const auto& [own, other] : pass.same) {
            PIPER_TRY(stage.cpu().fill(own.span(), 0.0F));
            PIPER_TRY(stage.cpu().fill(other.span(), 0.0F));
        }
        // The peers take the activations that the own pass leaves.
        PIPER_TRY(pass.own());
        PIPER_TRY(call());
        for (const auto& [own, other] : pass.same)
            PIPER_TRY(bench::checkAgainst(other, Tensor(ConstMatrix(own)),
                                          fmt::format("experts of {} tokens, {} beside {}",
                                                      e.tokens, toText(pass.pass), toText(peer))));
    }
    if (pass.pass != ExpertPass::Forward) return {};
    for (const std::int64_t g : bench::sampleRows(e.groups)) {
        const Matrix x = e.x.slice(g * e.tokens, 1);
        const Tensor act = reference::swiglu(reference::linear(
            Tensor(ConstMatrix(x)), Tensor(ConstMatrix(e.w_up.slice(g * 2 * e.ffn, 2 * e.ffn)))));
        PIPER_TRY(bench::checkAgainst(
            e.y.slice(g * e.tokens, 1),
            reference::linear(act, Tensor(ConstMatrix(e.w_down.slice(g * e.hidden, e.hidden)))),
            fmt::format("experts of {} tokens, expert {}", e.tokens, g)));
    }
    return {};
}

Result<double> secondsOf(const Call& call, std::int64_t calls) {
    const double start = bench::threadSeconds();
    for (std::int64_t i = 0; i < calls; ++i) PIPER_TRY(call());
    return (bench::threadSeconds() - start) / static_cast<double>(calls);
}

Status timePass(const Experts& e, const TimedPass& pass, std::int64_t pairs,
                std::vector<ExpertPairs>& out) {
    PIPER_ASSIGN(const double once, secondsOf(pass.own, 1));
    const auto calls = static_cast<std::int64_t>(kTiming.value / std::max(once, 1e-6)) + 1;
    for (const auto& [peer, call] : pass.peers) {
        ExpertPairs row{e.tokens, pass.pass, peer, e.flops(), {}, {}, {}};
        for (std::int64_t i = 0; i < pairs; ++i) {
            PIPER_ASSIGN(row.own.emplace_back(), secondsOf(pass.own, calls));
            PIPER_ASSIGN(row.peer_seconds.emplace_back(), secondsOf(call, calls));
            PIPER_ASSIGN(row.again.emplace_back(), secondsOf(pass.own, calls));
        }
        out.push_back(std::move(row));
    }
    return {};
}

}  // namespace

Result<std::vector<ExpertPairs>> benchExperts(const ExpertShape& shape,
                                              const std::vector<std::int64_t>& tokens,
                                              std::int64_t pairs) {
    omp_set_num_threads(1);
    std::vector<ExpertPairs> out;
    try {
        for (const std::int64_t t : tokens) {
            PIPER_ASSIGN(const std::unique_ptr<Stage> stage, Stage::make());
            PIPER_ASSIGN(const Experts experts, makeExperts(*stage, shape, t));
            for (const TimedPass& pass : passesOf(stage->cpu(), experts)) {
                PIPER_TRY(checkPass(*stage, experts, pass));
                PIPER_TRY(timePass(experts, pass, pairs, out));
            }
        }
    } catch (const dnnl::error& e) {
        return fail(ErrorCode::External, "oneDNN failed in the benchmark: {}", e.what());
    }
    return out;
}

Result<double> bestSquareRate(std::int64_t size, std::int64_t times) {
    PIPER_ASSIGN(const std::unique_ptr<Stage> stage, Stage::make());
    PIPER_ASSIGN(const Matrix x, stage->filled(size, size));
    PIPER_ASSIGN(const Matrix w, stage->filled(size, size));
    PIPER_ASSIGN(const Matrix y, stage->filled(size, size));
    const Call call = [&] { return stage->cpu().linearForward(x, w, y, Store::Overwrite); };
    PIPER_TRY(call());
    PIPER_TRY(bench::checkAgainst(
        y.slice(0, 1),
        reference::linear(Tensor(ConstMatrix(x.slice(0, 1))), Tensor(ConstMatrix(w))),
        fmt::format("gemm {} cubed", size)));
    double best = 0.0;
    const double n = static_cast<double>(size);
    for (std::int64_t i = 0; i < times; ++i) {
        PIPER_ASSIGN(const double seconds, secondsOf(call, 1));
        best = std::max(best, 2.0 * n * n * n / seconds);
    }
    return best;
}

}  // namespace piper
