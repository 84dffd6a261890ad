// SPDX-License-Identifier: Apache-2.0
// GFLOP per token that sources print (TFLOP/s per device over tokens/s per device, the medians of
// their tables) under each source's own way of counting.
#include "core/model/flop_conventions.h"

#include "tests/core/model/models.h"

namespace piper {
namespace {

using test::config;

struct Dense {
    std::int64_t layers, hidden, ffn, heads, kv_heads, vocab;
    MlpKind mlp = MlpKind::SwiGlu;
};

ModelSpec dense(const Dense& d) {
    ModelSpec m;
    m.num_layers = d.layers;
    m.hidden_size = d.hidden;
    m.ffn_hidden_size = d.ffn;
    m.vocab_size = d.vocab;
    m.dense_mlp = d.mlp;
    m.attention.num_heads = d.heads;
    m.attention.num_kv_heads = d.kv_heads;
    m.attention.head_dim = d.hidden / d.heads;
    m.layers.assign(static_cast<std::size_t>(d.layers), LayerKind::Dense);
    return m;
}

/// MPT: tied embeddings, learned positions, no biases.
ModelSpec mpt(const Dense& d) {
    ModelSpec m = dense(d);
    m.tie_word_embeddings = true;
    m.position = PositionKind::Learned;
    return m;
}

ModelSpec gptOss() {
    ModelSpec m = dense({36, 2880, 0, 64, 8, 201088});
    m.attention.head_dim = 64;
    m.attention.sliding_window = 128;
    for (std::int64_t i = 1; i < 36; i += 2) m.attention.full_attention_layers.push_back(i);
    MoeSpec moe;
    moe.num_experts = 128;
    moe.router_topk = 4;
    moe.moe_ffn_hidden_size = 2880;
    m.moe = moe;
    m.layers.assign(36, LayerKind::Moe);
    return m;
}

double gflop(const ModelSpec& model, std::int64_t seq_len, const char* convention) {
    return flopTable(model, seq_len, *findFlopConvention(convention)).total().value / 1e9;
}

struct Published {
    const char* convention;
    ModelSpec model;
    std::int64_t seq_len;
    double gflop_per_token;
    double tolerance = 0.005;
};

std::vector<Published> table() {
    const Dense llama3_70b{80, 8192, 28672, 64, 8, 128256},
        llama3_8b{32, 4096, 14336, 32, 8, 128256};
    const Dense mpt1{24, 2048, 8192, 16, 16, 50368, MlpKind::TwoMatrix};
    const Dense mpt7{32, 4096, 16384, 32, 32, 50368, MlpKind::TwoMatrix};
    return {
        {"model_flops", config("Qwen3-30B-A3B"), 4096, 23.01},
        {"model_flops", test::qwen3Large(), 4096, 147.96},
        {"model_flops", config("DeepSeek-V3"), 4096, 260.02},
        {"model_flops", dense(llama3_70b), 8192, 449.19},
        {"model_flops", dense(llama3_8b), 8192, 51.47},
        // Eight key-value heads, as the released model has.
        {"model_flops", dense({126, 16384, 53248, 128, 8, 128256}), 8192, 2524.13},
        {"model_flops", gptOss(), 4096, 32.61},
        {"bridge_two_matrix_experts", gptOss(), 4096, 27.20},
        {"bridge_two_matrix_experts", gptOss(), 8192, 30.77},
        {"full_attention", dense(llama3_70b), 8192, 481.60},
        {"full_attention", dense({80, 8192, 28672, 64, 8, 32000}), 4096, 444.44},
        {"full_attention", dense({44, 6144, 24576, 48, 48, 51200, MlpKind::TwoMatrix}), 2048,
         128.18},
        {"full_attention", dense({40, 6144, 24576, 48, 48, 256000, MlpKind::TwoMatrix}), 4096,
         130.33},
        {"llm_foundry", mpt(mpt1), 2048, 9.09},
        {"llm_foundry", mpt(mpt1), 32768, 27.58},
        {"llm_foundry", mpt(mpt7), 65536, 144.13},
        {"intern_evo_recompute", dense({32, 4096, 11008, 32, 32, 103168}), 2048, 58.45},
    };
}

TEST(FlopConventions, GiveWhatTheirSourcesPrint) {
    for (const Published& row : table())
        EXPECT_NEAR(gflop(row.model, row.seq_len, row.convention) / row.gflop_per_token, 1.0,
                    row.tolerance)
            << row.convention << " " << row.gflop_per_token;
}

/// 96 B s l h^2 (1 + s / 6h + V / 16 l h) for 145.6e9 parameters; 72 with the model's share.
TEST(FlopConventions, AdaptersCountTwoPassesWithoutScores) {
    const ModelSpec model = config("Mixtral-8x7B-v0.1");
    const FlopTable all = flopTable(model, 4096, *findFlopConvention("model_flops"));
    double left = 0.0;
    for (const FlopTerm& term : all.terms)
        if (term.name != "attention core") left += term.forward.value * 2.0;
    EXPECT_NEAR(gflop(model, 4096, "adapters"), left / 1e9, 1e-6);
    EXPECT_EQ(gflop(model, 4096, "adapters"), gflop(model, 32768, "adapters"));
}

TEST(FlopConventions, Sc21IsItsEquation) {
    const double l = 80, h = 12288, s = 2048, v = 51200;
    const ModelSpec m = dense({80, 12288, 49152, 96, 96, 51200, MlpKind::TwoMatrix});
    const double with = 96 * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
    EXPECT_NEAR(gflop(m, 2048, "sc21") * 1e9 / with, 1.0, 1e-12);
    const double model = 72 * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
    EXPECT_NEAR(gflop(m, 2048, "sc21_model") * 1e9 / model, 1.0, 1e-12);
}

TEST(FlopConventions, TheTableAddsUpToTheModelsCount) {
    for (const char* name : {"DeepSeek-V3", "Mixtral-8x7B-v0.1", "DeepSeek-V2-Lite"}) {
        const ModelSpec m = config(name);
        const FlopTable t = flopTable(m, 4096, *findFlopConvention("model_flops"));
        EXPECT_NEAR(t.total() / modelFlopsPerToken(m, 4096).total(), 1.0, 1e-12);
        for (const FlopTerm& term : t.terms) {
            EXPECT_GT(term.forward.value, 0.0);
            EXPECT_FALSE(term.formula.empty());
        }
    }
    const FlopTable t = flopTable(config("DeepSeek-V3"), 4096, *findFlopConvention("model_flops"));
    EXPECT_EQ(t.terms.size(), 8u);
}

TEST(FlopConventions, RecomputeAddsAForwardOfItsLayers) {
    const ModelSpec m = config("Mixtral-8x7B-v0.1");
    const double model = modelFlopsPerToken(m, 4096).total().value;
    EXPECT_DOUBLE_EQ(hardwareFlopsPerToken(m, 4096, 0).value, model);
    const double head = headForwardFlops(m).value;
    EXPECT_NEAR(hardwareFlopsPerToken(m, 4096, 99).value, (model - 3 * head) * 4 / 3 + 3 * head,
                1e-3 * model);
}

TEST(FlopConventions, UnknownNamesTheNearest) {
    const Result<FlopConvention> bad = findFlopConvention("model_flop");
    ASSERT_FALSE(bad.ok());
    EXPECT_NE(bad.error().text().find("'model_flops'"), std::string::npos);
}

}  // namespace
}  // namespace piper
