// SPDX-License-Identifier: Apache-2.0
#include "core/validate/frontier.h"

#include <algorithm>
#include <optional>

#include "core/base/json.h"

namespace piper {
namespace {

/// Dims, devices and rates as the sources print them. devices 0: not printed; the fewest that fit.
struct Published {
    const char* name;
    std::int64_t layers, hidden, ffn, heads, kv_heads, experts, topk, shared_ffn, vocab;
    MlpKind mlp;
    std::int64_t seq_len, devices;
    bool recompute;
    double tflops;
};

constexpr const char* kPiper = "arXiv 2605.05049";
constexpr const char* kXmoe = "arXiv 2508.13337";
constexpr std::int64_t kBatch = 1024;  ///< X-MoE's default; Piper's was not printed

/// Figures 12 to 14 of arXiv 2605.05049. Sizes match with two-matrix experts in the X-MoE and
/// weak-scaling models.
constexpr Published kRows[] = {
    {"X-MoE Small 10.1B", 28, 2048, 1408, 16, 16, 64, 6, 0, 51200, MlpKind::TwoMatrix, 2048, 8,
     false, 90.44},
    {"X-MoE Large 201B", 28, 7168, 2048, 56, 56, 256, 8, 0, 51200, MlpKind::TwoMatrix, 4096, 80,
     false, 46.89},
    {"weak scaling 110B", 32, 5120, 20480, 40, 40, 16, 2, 0, 51200, MlpKind::TwoMatrix, 4096, 64,
     false, 45.15},
    {"weak scaling 862B", 32, 5120, 20480, 40, 40, 128, 2, 0, 51200, MlpKind::TwoMatrix, 4096, 512,
     false, 39.38},
    {"Mixtral 8x7B", 32, 4096, 14336, 32, 8, 8, 2, 0, 32000, MlpKind::SwiGlu, 4096, 0, false,
     102.8},
    {"Mixtral 8x22B", 56, 6144, 16384, 48, 8, 8, 2, 0, 32000, MlpKind::SwiGlu, 4096, 0, true, 55.4},
    {"Llama 4 Scout", 48, 5120, 8192, 40, 8, 16, 1, 8192, 202048, MlpKind::SwiGlu, 4096, 0, false,
     74.2},
};

ModelSpec modelOf(const Published& row) {
    ModelSpec m;
    m.name = row.name;
    m.model_type = "piper";
    m.hidden_size = row.hidden;
    m.num_layers = row.layers;
    m.vocab_size = row.vocab;
    m.attention.num_heads = row.heads;
    m.attention.num_kv_heads = row.kv_heads;
    m.attention.head_dim = row.hidden / row.heads;
    m.moe.emplace();
    m.moe->num_experts = row.experts;
    m.moe->router_topk = row.topk;
    m.moe->moe_ffn_hidden_size = row.ffn;
    m.moe->shared_ffn_hidden_size = row.shared_ffn;
    m.moe->mlp = row.mlp;
    m.layers.assign(static_cast<std::size_t>(row.layers), LayerKind::Moe);
    return m;
}

Result<Plan> basePlan(const Published& row, std::int64_t devices) {
    Plan plan;
    plan.model = modelOf(row);
    PIPER_ASSIGN(plan.cluster, defaultCluster("MI250X GCD", (devices + 7) / 8));
    plan.seq_len = row.seq_len;
    plan.precision = Precision::Fp16;
    plan.optimizer.gradients = StateFormat::Fp16;  // 16 bytes a parameter
    if (row.recompute) plan.recompute.granularity = RecomputeGranularity::Full;
    return plan;
}

/// Sequences of a step: near kBatch, whole micro-batches on every replica.
std::int64_t batchFor(std::int64_t round) {
    return round * std::max<std::int64_t>(1, (kBatch + round - 1) / round);
}

struct Best {
    Plan plan;
    Prediction prediction;
};

/// The fastest plan of Piper's space on so many devices; none when nothing fits.
Result<std::optional<Best>> bestOf(const Published& row, std::int64_t devices) {
    std::optional<Best> best;
    PIPER_ASSIGN(Plan plan, basePlan(row, devices));
    for (std::int64_t ep = 1; ep <= std::min<std::int64_t>(32, row.experts); ++ep) {
        const std::int64_t pp = devices / ep;
        if (devices % ep != 0 || row.experts % ep != 0 || pp > row.layers) continue;
        for (std::int64_t mbs : {1, 2, 4, 8}) {
            plan.layout = {};
            plan.layout.pp = pp;
            plan.layout.ep = plan.layout.dp = ep;
            plan.micro_batch_size = mbs;
            plan.global_batch_size = batchFor(mbs * ep);
            if (predictMemory(plan).verdict == FitVerdict::DoesNotFit) continue;
            PIPER_ASSIGN(Prediction p,
                         predictUnchecked(plan, PredictMode::Simulated, PredictDetail::StepOnly));
            if (!best || p.flops_per_device > best->prediction.flops_per_device)
                best = Best{plan, std::move(p)};
        }
    }
    return best;
}

/// Layers are recomputed where nothing fits without: the paper does so without naming where.
Result<FrontierRow> piperRow(Published row) {
    std::optional<Best> best;
    for (bool again : {row.recompute, true}) {
        row.recompute = again;
        const std::int64_t first = row.devices > 0 ? row.devices : 8;
        const std::int64_t last = row.devices > 0 ? row.devices : 256;
        for (std::int64_t devices = first; devices <= last && !best; devices *= 2) {
            PIPER_ASSIGN(best, bestOf(row, devices));
        }
    }
    if (!best)
        return fail(ErrorCode::RuleBroken, "no layout of {} fits {} devices of 64 GiB", row.name,
                    row.devices);
    return FrontierRow{row.name, kPiper, row.tflops, std::move(best->plan),
                       std::move(best->prediction)};
}

/// X-MoE's own run of a model on 256 devices: the largest micro-batch, a power of two, that fits.
Result<FrontierRow> xmoeRow(const Published& row, std::int64_t ep, double tflops) {
    PIPER_ASSIGN(Plan plan, basePlan(row, 256));
    plan.framework = Framework::DeepSpeed;
    plan.overlap = Overlap{false, false, false, false, false, false};
    plan.zero_stage = 1;
    plan.layout.ep = ep;
    plan.layout.dp = 256;
    for (std::int64_t mbs = 8; mbs >= 1; mbs /= 2) {
        plan.micro_batch_size = mbs;
        plan.global_batch_size = batchFor(mbs * plan.layout.dp);
        if (mbs == 1 || predictMemory(plan).verdict != FitVerdict::DoesNotFit) break;
    }
    PIPER_ASSIGN(Prediction p,
                 predictUnchecked(plan, PredictMode::Simulated, PredictDetail::StepOnly));
    return FrontierRow{row.name, kXmoe, tflops, std::move(plan), std::move(p)};
}

}  // namespace

Result<FrontierComparison> compareFrontier() {
    FrontierComparison out;
    for (const Published& row : kRows) {
        PIPER_ASSIGN(FrontierRow piper, piperRow(row));
        out.rows.push_back(std::move(piper));
    }
    // Figure 9 of arXiv 2508.13337: Small with ep 8, Large with ep 64, 256 devices.
    PIPER_ASSIGN(FrontierRow small, xmoeRow(kRows[0], 8, 44.0));
    PIPER_ASSIGN(FrontierRow large, xmoeRow(kRows[1], 64, 24.1));
    const auto rate = [](const FrontierRow& r) { return r.prediction.flops_per_device; };
    out.small_ratio = rate(out.rows[0]) / rate(small);
    out.large_ratio = rate(out.rows[1]) / rate(large);
    out.rows.push_back(std::move(small));
    out.rows.push_back(std::move(large));
    return out;
}

Json frontierJson(const FrontierComparison& c) {
    Json out = {{"format_version", 1},
                {"ratio_small", c.small_ratio},
                {"ratio_small_measured", kSmallRatio},
                {"ratio_large", c.large_ratio},
                {"ratio_large_measured", kLargeRatio},
                {"rows", Json::array()}};
    for (const FrontierRow& row : c.rows)
        out["rows"].push_back({{"name", row.name},
                               {"source", row.source},
                               {"devices", row.plan.layout.world()},
                               {"pp", row.plan.layout.pp},
                               {"ep", row.plan.layout.ep},
                               {"dp", row.plan.layout.dp},
                               {"micro_batch_size", row.plan.micro_batch_size},
                               {"global_batch_size", row.plan.global_batch_size},
                               {"measured_tflops_per_device", row.measured_tflops},
                               {"tflops_per_device", inTflops(row.prediction.flops_per_device)},
                               {"mfu", row.prediction.mfu},
                               {"error", row.error()}});
    return out;
}

}  // namespace piper
