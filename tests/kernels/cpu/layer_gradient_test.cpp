// SPDX-License-Identifier: Apache-2.0
// A whole one-layer model (embedding, attention with rotary and qk-norm, mixture of experts, head,
// loss): the backend's gradients of every weight against central differences of the reference's
// loss, taken in double. Routing is that of the unperturbed model, since the choice has no slope.
#include <map>
#include <string>

#include "kernels/ops/permutation.h"
#include "tests/kernels/cpu/cpu_fixture.h"

namespace piper {
namespace {

using reference::Ids;
using reference::Tensor;

constexpr std::int64_t kVocab = 19, kHidden = 12, kHeads = 4, kKvHeads = 2, kHead = 6;
constexpr std::int64_t kSeq = 7, kBatch = 2, kTokens = kSeq * kBatch;
constexpr std::int64_t kExperts = 5, kTopk = 2, kFfn = 8;
constexpr double kEpsilon = 1e-5;

const AttentionShape kAttention{kBatch, kSeq, kHeads, kKvHeads, kHead, kHead};
const RotaryShape kQueryRotary{kSeq, kHeads, kHead, 1e4};
const RotaryShape kKeyRotary{kSeq, kKvHeads, kHead, 1e4};
const RouterShape kRouter{kExperts, kTopk, ScoringFunction::Softmax, true, 1.0};

/// Name -> weight; both models read the same names.
std::map<std::string, std::pair<std::int64_t, std::int64_t>> weightShapes() {
    return {{"embedding", {kVocab, kHidden}},
            {"attention_norm", {1, kHidden}},
            {"query", {kHeads * kHead, kHidden}},
            {"key", {kKvHeads * kHead, kHidden}},
            {"value", {kKvHeads * kHead, kHidden}},
            {"query_norm", {1, kHead}},
            {"key_norm", {1, kHead}},
            {"output", {kHidden, kHeads * kHead}},
            {"moe_norm", {1, kHidden}},
            {"router", {kExperts, kHidden}},
            {"gate_up", {kExperts * 2 * kFfn, kHidden}},
            {"down", {kExperts * kHidden, kFfn}},
            {"final_norm", {1, kHidden}},
            {"head", {kVocab, kHidden}}};
}

struct Batch {
    Ids tokens, targets, experts;  ///< experts empty: choose
};

using Weights = std::map<std::string, Tensor>;

Tensor headNorm(Tensor x, const Tensor& weight) {
    const std::int64_t rows = x.rows;
    const std::int64_t cols = x.cols;
    x.rows = rows * cols / kHead;
    x.cols = kHead;
    Tensor y = reference::rmsNorm(x, weight, kEpsilon);
    y.rows = rows;
    y.cols = cols;
    return y;
}

double referenceLoss(const Weights& w, Batch& batch) {
    const Tensor x = reference::embedding(batch.tokens, w.at("embedding"));
    const Tensor a = reference::rmsNorm(x, w.at("attention_norm"), kEpsilon);
    const Tensor q = reference::rotary(
        kQueryRotary, headNorm(reference::linear(a, w.at("query")), w.at("query_norm")), 1.0);
    const Tensor k = reference::rotary(
        kKeyRotary, headNorm(reference::linear(a, w.at("key")), w.at("key_norm")), 1.0);
    const Tensor v = reference::linear(a, w.at("value"));
    const Tensor o = reference::attention(kAttention, q, k, v).o;
    const Tensor x1 = reference::add(x, reference::linear(o, w.at("output")));
    const Tensor b = reference::rmsNorm(x1, w.at("moe_norm"), kEpsilon);
    const auto routed =
        reference::router(kRouter, reference::linear(b, w.at("router")), batch.experts);
    batch.experts = routed.experts;
    Ids slots(routed.experts.size()), rows(routed.experts.size());
    reference::Offsets offsets(kExperts + 1);
    EXPECT_TRUE(makePermutation(routed.experts, kExperts, slots, rows, offsets).ok());
    const Tensor act = reference::swiglu(
        reference::groupedLinear(reference::permute(b, slots, kTopk), offsets, w.at("gate_up")));
    const Tensor y = reference::combine(reference::groupedLinear(act, offsets, w.at("down")), rows,
                                        routed.weights);
    const Tensor f = reference::rmsNorm(reference::add(x1, y), w.at("final_norm"), kEpsilon);
    return reference::crossEntropy(reference::linear(f, w.at("head")), batch.targets) / kTokens;
}

/// The same model on a backend, forward and backward.
class Model {
public:
    Model(Backend& cpu, const Weights& weights) : m_cpu(cpu) {
        for (const auto& [name, w] : weights) {
            Owned value(w.rows, w.cols), gradient(w.rows, w.cols);
            for (std::size_t i = 0; i < w.data.size(); ++i)
                value.data[i] = static_cast<float>(w.data[i]);
            std::fill(gradient.data.begin(), gradient.data.end(), 0.0F);
            m_weights.emplace(name, value);
            m_gradients.emplace(name, gradient);
        }
    }

    double run(const Batch& batch) {
        forward(batch);
        backward(batch);
        return m_loss / kTokens;
    }
    const Owned& gradient(const std::string& name) const { return m_gradients.at(name); }
    const Ids& experts() const { return m_experts; }

private:
    Matrix w(const std::string& name) { return m_weights.at(name).m; }
    Vector wv(const std::string& name) { return m_weights.at(name).v(); }
    Matrix g(const std::string& name) { return m_gradients.at(name).m; }
    Vector gv(const std::string& name) { return m_gradients.at(name).v(); }
    static Matrix heads(Matrix x) { return x.reshaped(x.size() / kHead, kHead); }

    void forward(const Batch& batch) {
        EXPECT_OK(m_cpu.embeddingForward(batch.tokens, w("embedding"), x.m));
        EXPECT_OK(m_cpu.rmsNormForward(x.m, wv("attention_norm"), kEps, a.m, a_rms.v()));
        EXPECT_OK(m_cpu.linearForward(a.m, w("query"), q0.m, Store::Overwrite));
        EXPECT_OK(m_cpu.linearForward(a.m, w("key"), k0.m, Store::Overwrite));
        EXPECT_OK(m_cpu.linearForward(a.m, w("value"), v.m, Store::Overwrite));
        EXPECT_OK(m_cpu.rmsNormForward(heads(q0.m), wv("query_norm"), kEps, heads(q.m), q_rms.v()));
        EXPECT_OK(m_cpu.rmsNormForward(heads(k0.m), wv("key_norm"), kEps, heads(k.m), k_rms.v()));
        EXPECT_OK(m_cpu.rotaryForward(kQueryRotary, q.m));
        EXPECT_OK(m_cpu.rotaryForward(kKeyRotary, k.m));
        EXPECT_OK(m_cpu.attentionForward(kAttention, q.m, k.m, v.m, o.m, lse.v()));
        x1.data = x.data;
        EXPECT_OK(m_cpu.linearForward(o.m, w("output"), x1.m, Store::Accumulate));
        EXPECT_OK(m_cpu.rmsNormForward(x1.m, wv("moe_norm"), kEps, b.m, b_rms.v()));
        EXPECT_OK(m_cpu.linearForward(b.m, w("router"), logits.m, Store::Overwrite));
        EXPECT_OK(
            m_cpu.routerForward(kRouter, RouterMode::Choose, logits.m, scores.m, m_experts, mix.m));
        EXPECT_OK(makePermutation(m_experts, kExperts, m_slots, m_rows, m_offsets));
        EXPECT_OK(m_cpu.permuteForward(b.m, m_slots, kTopk, rows.m));
        EXPECT_OK(m_cpu.groupedLinearForward(rows.m, m_offsets, w("gate_up"), gate_up.m));
        EXPECT_OK(m_cpu.swigluForward(gate_up.m, act.m));
        EXPECT_OK(m_cpu.groupedLinearForward(act.m, m_offsets, w("down"), out.m));
        x2.data = x1.data;
        EXPECT_OK(m_cpu.combineForward(out.m, m_rows, mix.m, x2.m, Store::Accumulate));
        EXPECT_OK(m_cpu.rmsNormForward(x2.m, wv("final_norm"), kEps, f.m, f_rms.v()));
        EXPECT_OK(m_cpu.linearForward(f.m, w("head"), words.m, Store::Overwrite));
        EXPECT_OK(m_cpu.crossEntropyForward(words.m, batch.targets, words_lse.v(), m_loss));
    }

    void backward(const Batch& batch) {
        Owned df(kTokens, kHidden), dx(kTokens, kHidden);
        EXPECT_OK(
            m_cpu.crossEntropyInputGrad(words.m, batch.targets, words_lse.v(), 1.0F / kTokens));
        EXPECT_OK(m_cpu.linearWeightGrad(words.m, f.m, g("head")));
        EXPECT_OK(m_cpu.linearInputGrad(words.m, w("head"), df.m, Store::Overwrite));
        EXPECT_OK(m_cpu.rmsNormWeightGrad(df.m, x2.m, f_rms.v(), gv("final_norm")));
        EXPECT_OK(m_cpu.rmsNormInputGrad(df.m, x2.m, wv("final_norm"), f_rms.v(), dx.m,
                                         Store::Overwrite));
        moeBackward(dx.m);
        attentionBackward(dx.m);
        EXPECT_OK(m_cpu.embeddingWeightGrad(batch.tokens, dx.m, g("embedding")));
    }

    /// dx: gradient of x2 on entry, of x1 on return.
    void moeBackward(Matrix dx) {
        Owned dout(kTokens * kTopk, kHidden), dmix(kTokens, kTopk), dact(kTokens * kTopk, kFfn);
        Owned dgate(kTokens * kTopk, 2 * kFfn), drows(kTokens * kTopk, kHidden);
        Owned db(kTokens, kHidden), dlogits(kTokens, kExperts);
        EXPECT_OK(m_cpu.combineInputGrad(dx, out.m, m_rows, mix.m, dout.m, dmix.m));
        EXPECT_OK(m_cpu.groupedLinearWeightGrad(dout.m, act.m, m_offsets, g("down")));
        EXPECT_OK(m_cpu.groupedLinearInputGrad(dout.m, m_offsets, w("down"), dact.m));
        EXPECT_OK(m_cpu.swigluInputGrad(dact.m, gate_up.m, dgate.m));
        EXPECT_OK(m_cpu.groupedLinearWeightGrad(dgate.m, rows.m, m_offsets, g("gate_up")));
        EXPECT_OK(m_cpu.groupedLinearInputGrad(dgate.m, m_offsets, w("gate_up"), drows.m));
        EXPECT_OK(m_cpu.permuteInputGrad(drows.m, m_rows, kTopk, db.m, Store::Overwrite));
        EXPECT_OK(m_cpu.routerInputGrad(kRouter, scores.m, m_experts, dmix.m, {}, dlogits.m));
        EXPECT_OK(m_cpu.linearWeightGrad(dlogits.m, b.m, g("router")));
        EXPECT_OK(m_cpu.linearInputGrad(dlogits.m, w("router"), db.m, Store::Accumulate));
        EXPECT_OK(m_cpu.rmsNormWeightGrad(db.m, x1.m, b_rms.v(), gv("moe_norm")));
        EXPECT_OK(
            m_cpu.rmsNormInputGrad(db.m, x1.m, wv("moe_norm"), b_rms.v(), dx, Store::Accumulate));
    }

    /// dx: gradient of x1 on entry, of x on return.
    void attentionBackward(Matrix dx) {
        Owned d_o(kTokens, kHeads * kHead), dq(kTokens, kHeads * kHead);
        Owned dk(kTokens, kKvHeads * kHead), dv(kTokens, kKvHeads * kHead);
        Owned dq0(kTokens, kHeads * kHead), dk0(kTokens, kKvHeads * kHead), da(kTokens, kHidden);
        EXPECT_OK(m_cpu.linearWeightGrad(dx, o.m, g("output")));
        EXPECT_OK(m_cpu.linearInputGrad(dx, w("output"), d_o.m, Store::Overwrite));
        EXPECT_OK(m_cpu.attentionBackward(kAttention, q.m, k.m, v.m, o.m, lse.v(), d_o.m, dq.m,
                                          dk.m, dv.m));
        EXPECT_OK(m_cpu.rotaryInputGrad(kQueryRotary, dq.m));
        EXPECT_OK(m_cpu.rotaryInputGrad(kKeyRotary, dk.m));
        EXPECT_OK(m_cpu.rmsNormWeightGrad(heads(dq.m), heads(q0.m), q_rms.v(), gv("query_norm")));
        EXPECT_OK(m_cpu.rmsNormWeightGrad(heads(dk.m), heads(k0.m), k_rms.v(), gv("key_norm")));
        EXPECT_OK(m_cpu.rmsNormInputGrad(heads(dq.m), heads(q0.m), wv("query_norm"), q_rms.v(),
                                         heads(dq0.m), Store::Overwrite));
        EXPECT_OK(m_cpu.rmsNormInputGrad(heads(dk.m), heads(k0.m), wv("key_norm"), k_rms.v(),
                                         heads(dk0.m), Store::Overwrite));
        EXPECT_OK(m_cpu.linearWeightGrad(dq0.m, a.m, g("query")));
        EXPECT_OK(m_cpu.linearWeightGrad(dk0.m, a.m, g("key")));
        EXPECT_OK(m_cpu.linearWeightGrad(dv.m, a.m, g("value")));
        EXPECT_OK(m_cpu.linearInputGrad(dq0.m, w("query"), da.m, Store::Overwrite));
        EXPECT_OK(m_cpu.linearInputGrad(dk0.m, w("key"), da.m, Store::Accumulate));
        EXPECT_OK(m_cpu.linearInputGrad(dv.m, w("value"), da.m, Store::Accumulate));
        EXPECT_OK(m_cpu.rmsNormWeightGrad(da.m, x.m, a_rms.v(), gv("attention_norm")));
        EXPECT_OK(m_cpu.rmsNormInputGrad(da.m, x.m, wv("attention_norm"), a_rms.v(), dx,
                                         Store::Accumulate));
    }

    static constexpr auto kEps = static_cast<float>(kEpsilon);
    Backend& m_cpu;
    std::map<std::string, Owned> m_weights, m_gradients;
    double m_loss = 0.0;
    Ids m_experts = Ids(kTokens * kTopk), m_slots = Ids(kTokens * kTopk);
    Ids m_rows = Ids(kTokens * kTopk);
    reference::Offsets m_offsets = reference::Offsets(kExperts + 1);
    Owned x{kTokens, kHidden}, a{kTokens, kHidden}, x1{kTokens, kHidden}, b{kTokens, kHidden};
    Owned q0{kTokens, kHeads*kHead}, q{kTokens, kHeads*kHead}, o{kTokens, kHeads*kHead};
    Owned k0{kTokens, kKvHeads*kHead}, k{kTokens, kKvHeads*kHead}, v{kTokens, kKvHeads*kHead};
    Owned a_rms{1, kTokens}, b_rms{1, kTokens}, f_rms{1, kTokens}, lse{1, kTokens*kHeads};
    Owned q_rms{1, kTokens*kHeads}, k_rms{1, kTokens*kKvHeads};
    Owned logits{kTokens, kExperts}, scores{kTokens, kExperts}, mix{kTokens, kTopk};
    Owned rows{kTokens * kTopk, kHidden}, gate_up{kTokens * kTopk, 2 * kFfn};
    Owned act{kTokens * kTopk, kFfn}, out{kTokens * kTopk, kHidden}, x2{kTokens, kHidden};
    Owned f{kTokens, kHidden}, words{kTokens, kVocab}, words_lse{1, kTokens};
};

TEST_F(CpuTest, GradientsOfAWholeLayerAreTheSlopesOfItsLoss) {
    Weights weights;
    for (const auto& [name, shape] : weightShapes())
        weights.emplace(name, random(shape.first, shape.second, 0.5F).ref());
    Batch batch{randomIds(kTokens, kVocab), randomIds(kTokens, kVocab), {}};
    const double loss = referenceLoss(weights, batch);

    Model model(cpu(), weights);
    EXPECT_NEAR(model.run(batch), loss, 1e-5 * loss);
    ASSERT_EQ(model.experts(), batch.experts);

    constexpr double kStep = 1e-5;
    for (auto& [name, weight] : weights) {
        const Owned& got = model.gradient(name);
        Tensor slopes(weight.rows, weight.cols);
        for (std::size_t i = 0; i < weight.data.size(); ++i) {
            const double before = weight.data[i];
            weight.data[i] = before + kStep;
            const double up = referenceLoss(weights, batch);
            weight.data[i] = before - kStep;
            const double down = referenceLoss(weights, batch);
            weight.data[i] = before;
            slopes.data[i] = (up - down) / (2.0 * kStep);
        }
        SCOPED_TRACE(name);
        expectClose(ConstMatrix(got.m), slopes, 5e-5);
    }
}

}  // namespace
}  // namespace piper
