// SPDX-License-Identifier: Apache-2.0
#include "core/validate/tables.h"

#include <algorithm>

#include "core/validate/free_text.h"

namespace piper {
namespace {

Result<CsvTable> tableOf(const std::string& text, std::string_view name,
                         const std::vector<std::string_view>& columns) {
    PIPER_ASSIGN(CsvTable table, CsvTable::parse(text.empty() ? bundledTable(name) : text, name));
    PIPER_TRY(table.require(columns));
    return table;
}

std::size_t findRow(const CsvTable& table, std::string_view column, std::string_view value) {
    std::size_t row = 0;
    while (row < table.size() && table.at(row, column) != value) ++row;
    return row;
}

Error unknown(const CsvTable& table, std::string_view column, std::string_view what,
              std::string_view value) {
    std::vector<std::string_view> names;
    for (std::size_t r = 0; r < table.size(); ++r) names.push_back(table.at(r, column));
    return fail(ErrorCode::NotFound, "unknown {} '{}'; nearest known: '{}'", what, value,
                nearestWord(value, names));
}

/// Numbers of one row of the model table; the first bad one is kept.
class ModelRow {
public:
    ModelRow(const CsvTable& table, std::size_t row) : m_table(table), m_row(row) {}

    [[nodiscard]] bool has(std::string_view column) const {
        return !m_table.at(m_row, column).empty();
    }
    std::int64_t number(std::string_view column, std::int64_t fallback = 0) {
        if (!has(column)) return fallback;
        const Result<std::int64_t> value = parseWhole(m_table.at(m_row, column));
        if (value.ok()) return *value;
        if (m_status.ok())
            m_status = Error(value.error())
                           .at(fmt::format("models: line {}: {}", m_table.line(m_row), column));
        return fallback;
    }
    std::string_view text(std::string_view column) const { return m_table.at(m_row, column); }
    [[nodiscard]] const Status& status() const { return m_status; }

private:
    const CsvTable& m_table;
    std::size_t m_row;
    Status m_status;
};

AttentionSpec attentionOf(ModelRow& row, std::int64_t hidden) {
    AttentionSpec a;
    // Heads that a source does not give: of 128, the usual size.
    a.num_heads = row.number("heads", std::max<std::int64_t>(1, hidden / 128));
    a.num_kv_heads = row.number("kv_heads", a.num_heads);
    a.head_dim = row.number("head_dim", hidden / std::max<std::int64_t>(1, a.num_heads));
    if (row.number("kv_lora") == 0) return a;
    a.kind = AttentionKind::Mla;
    a.head_dim = 0;
    a.num_kv_heads = a.num_heads;
    a.q_lora_rank = row.number("q_lora");
    a.kv_lora_rank = row.number("kv_lora");
    a.qk_nope_head_dim = row.number("qk_nope");
    a.qk_rope_head_dim = row.number("qk_rope");
    a.v_head_dim = row.number("v_head");
    return a;
}

/// Layers that are dense: the first ones, or with as many dense as MoE layers every other one.
std::vector<LayerKind> layerKinds(std::int64_t layers, std::int64_t dense, bool moe) {
    std::vector<LayerKind> kinds(static_cast<std::size_t>(layers),
                                 moe ? LayerKind::Moe : LayerKind::Dense);
    const bool alternating = moe && dense * 2 == layers;
    for (std::int64_t l = 0; l < layers && moe; ++l)
        if (alternating ? l % 2 == 0 : l < dense)
            kinds[static_cast<std::size_t>(l)] = LayerKind::Dense;
    return kinds;
}

}  // namespace

Result<ReferenceTables> ReferenceTables::read(const ReferenceTexts& texts) {
    ReferenceTables out;
    PIPER_ASSIGN(out.m_models, tableOf(texts.models, "models",
                                       {"model", "layers", "hidden", "ffn", "moe_ffn", "heads",
                                        "experts", "topk", "vocab", "mlp"}));
    PIPER_ASSIGN(out.m_model_alias, tableOf(texts.model_alias, "model_alias",
                                            {"name", "model", "num_layers", "in_scope", "note"}));
    PIPER_ASSIGN(out.m_gpus, tableOf(texts.gpus, "gpus", {"gpu", "bf16_dense_tflops"}));
    PIPER_ASSIGN(out.m_gpu_alias, tableOf(texts.gpu_alias, "gpu_alias", {"name", "gpu"}));
    return out;
}

Result<ReferenceTables::NamedModel> ReferenceTables::model(std::string_view name) const {
    const std::size_t alias = findRow(m_model_alias, "name", name);
    if (alias == m_model_alias.size()) return unknown(m_model_alias, "name", "model", name);
    if (m_model_alias.at(alias, "in_scope") == "no")
        return fail(ErrorCode::Unsupported, "model '{}' is out of scope: {}", name,
                    m_model_alias.at(alias, "note"));
    const std::string_view entry = m_model_alias.at(alias, "model");
    const std::size_t at = findRow(m_models, "model", entry);
    if (at == m_models.size()) return unknown(m_models, "model", "entry of the model table", entry);
    ModelRow row(m_models, at);
    NamedModel out;
    ModelSpec& m = out.model;
    m.name = std::string(name);
    m.model_type = "piper";
    m.hidden_size = row.number("hidden");
    m.num_layers = row.number("layers");
    out.names_vocabulary = row.has("vocab");
    m.vocab_size = row.number("vocab", 51200);
    m.ffn_hidden_size = row.number("ffn");
    m.attention = attentionOf(row, m.hidden_size);
    m.tie_word_embeddings = row.text("notes").find("tied embeddings") != std::string_view::npos;
    const MlpKind mlp = row.text("mlp") == "swiglu" ? MlpKind::SwiGlu : MlpKind::TwoMatrix;
    m.dense_mlp = mlp;
    const std::int64_t experts = row.number("experts");
    if (experts > 0) {
        m.moe.emplace();
        m.moe->num_experts = experts;
        m.moe->router_topk = row.number("topk", 1);
        m.moe->moe_ffn_hidden_size = row.number("moe_ffn");
        m.moe->shared_ffn_hidden_size = row.number("shared_ffn");
        m.moe->mlp = mlp;
    }
    const std::int64_t dense = row.number("dense_layers");
    PIPER_TRY(row.status());
    if (const std::string_view layers = m_model_alias.at(alias, "num_layers"); !layers.empty()) {
        PIPER_ASSIGN(m.num_layers, parseWhole(layers));
    }
    m.layers = layerKinds(m.num_layers, std::min(dense, m.num_layers), experts > 0);
    if (const std::optional<double> window = numberAfter(row.text("notes"), "sliding window")) {
        m.attention.sliding_window = static_cast<std::int64_t>(*window);
        for (std::int64_t l = 1; mentions(row.text("notes"), "alternating") && l < m.num_layers;
             l += 2)
            m.attention.full_attention_layers.push_back(l);
    }
    const bool whole = m_model_alias.at(alias, "num_layers").empty();
    out.other_gate = row.text("model").starts_with("GPT-OSS");
    out.trains_mtp = whole && row.text("notes").find("MTP") != std::string_view::npos;
    const std::vector<Error> errors = checkModel(m);
    if (!errors.empty()) return Error(errors.front()).withContext(fmt::format("model '{}'", name));
    return out;
}

Result<std::string> ReferenceTables::deviceName(std::string_view name) const {
    const std::size_t alias = findRow(m_gpu_alias, "name", name);
    if (alias == m_gpu_alias.size()) {
        const std::size_t at = findRow(m_gpus, "gpu", name);
        if (at < m_gpus.size()) return std::string(name);
        return unknown(m_gpu_alias, "name", "device", name);
    }
    if (m_gpu_alias.at(alias, "gpu").empty())
        return fail(ErrorCode::Unsupported, "device '{}': {}", name,
                    m_gpu_alias.at(alias, "note").empty() ? "no catalogue entry"
                                                          : m_gpu_alias.at(alias, "note"));
    return std::string(m_gpu_alias.at(alias, "gpu"));
}

namespace {

/// A device of the table that the catalogue does not have, with its two links.
Result<ClusterSpec> clusterOfRow(const CsvTable& table, std::size_t row) {
    ModelRow in(table, row);
    const auto number = [&](std::string_view column, double fallback) {
        const Result<double> value = parseNumber(in.text(column));
        return value.ok() ? *value : fallback;
    };
    ClusterSpec c;
    c.device.name = std::string(in.text("gpu"));
    const double bf16 = number("bf16_dense_tflops", 0.0), fp8 = number("fp8_dense_tflops", 0.0);
    if (bf16 <= 0.0)
        return fail(ErrorCode::InvalidInput, "'{}' is no rate", in.text("bf16_dense_tflops"))
            .at(fmt::format("gpus: line {}: bf16_dense_tflops", table.line(row)));
    c.device.peak[Precision::Bf16] = c.device.peak[Precision::Fp16] = tflops(bf16);
    if (fp8 > 0.0) c.device.peak[Precision::Fp8] = c.device.peak[Precision::Fp8Block] = tflops(fp8);
    c.device.memory = gib(number("hbm_gb", 80.0));
    c.device.memory_bandwidth = gbps(number("hbm_gb_s", 2000.0));
    c.device.source = std::string(in.text("source"));
    c.devices_per_node = in.number("gpus_per_node", 8);
    PIPER_TRY(in.status());
    LinkLevel inner, outer;
    inner.name = "nvlink";
    inner.domain_devices = c.devices_per_node;
    inner.bandwidth = inner.port_bandwidth = gbps(number("nvlink_gb_s_per_dir", 64.0));
    outer.name = "ib";
    outer.domain_devices = 1 << 24;
    outer.bandwidth = outer.port_bandwidth = gbitps(number("nic_gbit_s_per_gpu", 200.0));
    c.levels = {inner, outer};
    return c;
}

}  // namespace

Result<ClusterSpec> ReferenceTables::cluster(std::string_view device, std::int64_t world,
                                             std::int64_t devices_per_node) const {
    PIPER_ASSIGN(const std::string entry, deviceName(device));
    ClusterSpec out;
    Result<ClusterSpec> usual = defaultCluster(entry, 1);
    if (usual.ok()) {
        out = std::move(usual).value();
    } else {
        const std::size_t row = findRow(m_gpus, "gpu", entry);
        if (row == m_gpus.size()) return usual.error();
        PIPER_ASSIGN(out, clusterOfRow(m_gpus, row));
    }
    if (devices_per_node > 0) out.devices_per_node = devices_per_node;
    out.devices_per_node = std::min(out.devices_per_node, world);
    out.nodes = (world + out.devices_per_node - 1) / out.devices_per_node;
    out.name = fmt::format("{}x{} {}", out.nodes, out.devices_per_node, out.device.name);
    if (usual.ok()) {
        PIPER_ASSIGN(out.levels, defaultLevels(entry, out.devices_per_node, out.nodes));
    }
    return out;
}

}  // namespace piper
