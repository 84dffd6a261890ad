// SPDX-License-Identifier: Apache-2.0
#include "core/model/flop_conventions.h"

#include <algorithm>

#include "core/base/cast.h"

namespace piper {
namespace {

/// The model as the convention sees it.
ModelSpec seenBy(const ModelSpec& model, const FlopConvention& convention) {
    ModelSpec seen = model;
    if (!convention.sliding_window) {
        seen.attention.sliding_window = 0;
        seen.attention.full_attention_layers.clear();
    }
    if (!convention.gated_experts && seen.moe) seen.moe->mlp = MlpKind::TwoMatrix;
    if (!convention.mtp) seen.mtp_num_layers = 0;
    return seen;
}

class TableWriter {
public:
    explicit TableWriter(const FlopConvention& convention) : m_convention(convention) {}

    void layer(std::string_view name, Flops forward, std::string formula) {
        add(name, forward, std::move(formula), m_convention.layer_passes);
    }
    void head(std::string_view name, Flops forward, std::string formula) {
        add(name, forward, std::move(formula), m_convention.head_passes);
    }
    [[nodiscard]] FlopTable take() { return std::move(m_table); }

private:
    void add(std::string_view name, Flops forward, std::string formula, double passes) {
        if (forward.value <= 0.0) return;
        m_table.terms.push_back({name, std::move(formula), forward, passes});
    }

    const FlopConvention& m_convention;
    FlopTable m_table;
};

std::string coreFormula(const ModelSpec& m, std::int64_t seq_len, AttentionCount count) {
    const AttentionSpec& a = m.attention;
    const double share = m.windowShare();
    return fmt::format(
        "2 x {} heads x ({} + {}) x mean context {}{} x {} layers", a.num_heads, a.qkHeadDim(),
        a.vHeadDim(),
        count == AttentionCount::Full ? fmt::format("{}", seq_len) : fmt::format("{} / 2", seq_len),
        share > 0.0 ? fmt::format(" ({:.0f} % of layers see {})", 100.0 * share, a.sliding_window)
                    : "",
        m.num_layers + m.mtp_num_layers);
}

void addExperts(TableWriter& table, const ModelSpec& m, const TokenFlops& f) {
    if (!m.moe) return;
    const MoeSpec& moe = *m.moe;
    const std::int64_t layers =
        m.numMoeLayers() + (m.layers.back() == LayerKind::Moe ? m.mtp_num_layers : 0);
    table.layer(
        "router", f.router,
        fmt::format("2 x {} x {} experts x {} layers", m.hidden_size, moe.num_experts, layers));
    table.layer("routed experts", f.routed_experts,
                fmt::format("2 x top {} x {} matrices x {} x {} x {} layers", moe.router_topk,
                            mlpMatrices(moe.mlp), m.hidden_size, moe.moe_ffn_hidden_size, layers));
    table.layer("shared experts", f.shared_experts,
                fmt::format("2 x {} matrices x {} x {} x {} layers", mlpMatrices(moe.mlp),
                            m.hidden_size, moe.shared_ffn_hidden_size, layers));
}

/// 6 N with everything in N that the source counts: tied or not, the head's matrix is used once.
FlopTable sixN(const ModelSpec& model, std::int64_t seq_len, const FlopConvention& convention) {
    TableWriter table(convention);
    ModelSpec counted = model;
    if (counted.position == PositionKind::Learned) counted.max_position_embeddings = seq_len;
    const double active = asDouble(modelParameters(counted).active);
    table.head("parameters", Flops(2.0 * active), fmt::format("2 x {:.0f} parameters", active));
    const double layers = asDouble(model.num_layers);
    const Flops core =
        layerForwardFlops(model, model.layers.back(), seq_len, convention.attention).attention_core;
    table.layer("attention core", core * layers, coreFormula(model, seq_len, convention.attention));
    return table.take();
}

}  // namespace

const std::vector<FlopConvention>& flopConventions() {
    constexpr AttentionCount kFull = AttentionCount::Full;
    static const std::vector<FlopConvention> conventions = {
        {.name = "model_flops",
         .source = "Megatron-LM num_floating_point_operations; Megatron-Bridge performance summary "
                   "(067f987); causal half, head, multi-token prediction"},
        {.name = "full_attention",
         .source = "NVIDIA/NeMo performance summaries: attention not halved for causality",
         .attention = kFull},
        {.name = "bridge_two_matrix_experts",
         .source = "Megatron-Bridge before release 26.06, GPT-OSS: gated experts that are not "
                   "SwiGLU count two matrices, windows are passed over",
         .sliding_window = false,
         .gated_experts = false},
        {.name = "parallel_folding",
         .source = "arXiv 2504.14960: 3 x forward, attention not halved",
         .attention = kFull},
        {.name = "sc21",
         .source =
             "arXiv 2104.04473, equation 3: 96 B s l h^2 (1 + s / 6h + V / 16 l h), recompute "
             "counted",
         .attention = kFull,
         .layer_passes = 4.0},
        {.name = "sc21_model",
         .source = "arXiv 2205.05198, equation 7: 72 B L s h^2 (1 + s / 6h + v / 12 h L)",
         .attention = kFull},
        {.name = "intern_evo",
         .source = "InternLM/InternEvo without checkpointing: attention not halved",
         .attention = kFull},
        {.name = "intern_evo_recompute",
         .source = "InternLM/InternEvo with checkpointing: layers four passes, head three",
         .attention = kFull,
         .layer_passes = 4.0},
        {.name = "llm_foundry",
         .source = "mosaicml/llm-foundry: 6 N + 12 L h s, all parameters in N",
         .attention = kFull,
         .six_n = true},
        {.name = "palm",
         .source = "arXiv 2204.02311, appendix B: 6 N + 12 L H Q T",
         .attention = kFull,
         .six_n = true},
        {.name = "adapters",
         .source =
             "Megatron-Bridge performance summary, LoRA: frozen weights have no gradients, so "
             "forward and input gradients count; packed sequences without attention core",
         .layer_passes = 2.0,
         .head_passes = 2.0,
         .attention_core = false},
    };
    return conventions;
}

Result<FlopConvention> findFlopConvention(std::string_view name) {
    std::vector<std::string_view> names;
    for (const FlopConvention& c : flopConventions()) {
        if (c.name == name) return c;
        names.push_back(c.name);
    }
    Error error = fail(ErrorCode::NotFound, "unknown FLOP convention '{}'; nearest known: '{}'",
                       name, nearestWord(name, names));
    error.hint = fmt::format("known conventions: {}", joinWords(names));
    return error;
}

Flops FlopTable::total() const {
    Flops sum;
    for (const FlopTerm& term : terms) sum += term.training();
    return sum;
}

FlopTable flopTable(const ModelSpec& model, std::int64_t seq_len,
                    const FlopConvention& convention) {
    const ModelSpec m = seenBy(model, convention);
    if (convention.six_n) return sixN(m, seq_len, convention);
    constexpr double kForwardShare = 1.0 / 3.0;  // of modelFlopsPerToken
    TokenFlops f = modelFlopsPerToken(m, seq_len, convention.attention);
    for (Flops* term : {&f.attention_projections, &f.attention_core, &f.dense_mlp, &f.router,
                        &f.routed_experts, &f.shared_experts, &f.mtp_projection, &f.head})
        *term = *term * kForwardShare;
    TableWriter table(convention);
    table.layer("attention projections", f.attention_projections,
                fmt::format("2 x projection weights x {} layers", m.num_layers + m.mtp_num_layers));
    if (convention.attention_core)
        table.layer("attention core", f.attention_core,
                    coreFormula(m, seq_len, convention.attention));
    table.layer("dense MLP", f.dense_mlp,
                fmt::format("2 x {} matrices x {} x {} x {} layers", mlpMatrices(m.dense_mlp),
                            m.hidden_size, m.ffn_hidden_size, m.num_layers - m.numMoeLayers()));
    addExperts(table, m, f);
    table.layer("multi-token prediction projection", f.mtp_projection,
                fmt::format("2 x 2 x {}^2 x {}", m.hidden_size, m.mtp_num_layers));
    table.head("head", f.head,
               fmt::format("2 x {} x {} x {}", m.hidden_size, m.vocab_size, 1 + m.mtp_num_layers));
    return table.take();
}

Flops hardwareFlopsPerToken(const ModelSpec& model, std::int64_t seq_len,
                            std::int64_t recomputed_layers, AttentionCount count) {
    Flops again;
    const std::int64_t layers = std::min(recomputed_layers, model.num_layers);
    for (std::int64_t i = 0; i < layers; ++i)
        again += layerForwardFlops(model, model.layers[static_cast<std::size_t>(i)], seq_len, count)
                     .total();
    return modelFlopsPerToken(model, seq_len, count).total() + again;
}

}  // namespace piper
