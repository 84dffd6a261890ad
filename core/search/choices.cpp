// SPDX-License-Identifier: Apache-2.0
#include "core/search/choices.h"

#include <algorithm>

#include "core/search/enumerate.h"

namespace piper {
namespace {

constexpr std::int64_t kLargestMicroBatch = 16, kLargestTensor = 64, kMostChunks = 12;
constexpr std::int64_t kLeastTokens = 2048;

std::vector<std::int64_t> divisors(std::int64_t n, std::int64_t most) {
    std::vector<std::int64_t> out;
    for (std::int64_t d = 1; d <= std::min(n, most); ++d)
        if (n % d == 0) out.push_back(d);
    return out;
}

}  // namespace

Recompute selectiveRecompute(const Plan& plan) {
    Recompute out;
    out.granularity = RecomputeGranularity::Selective;
    if (plan.framework == Framework::Torchtitan) {
        out.modules = {"op"};
        return out;
    }
    if (!plan.fused_attention) out.modules.push_back("core_attn");
    if (plan.model.moe) out.modules.push_back("moe_act");
    if (plan.model.attention.kind == AttentionKind::Mla) out.modules.push_back("mla_up_proj");
    out.modules.push_back("layernorm");
    return out;
}

SearchChoices::SearchChoices(const SearchSpace& space) : m_space(space) {
    const std::int64_t devices = space.base.cluster.numDevices();
    m_world = space.max_world > 0 ? std::min(space.max_world, devices) : devices;
    m_orders = {base().rank_order};
    const std::string data_first = "tp-cp-dp-ep-pp";
    if (!fixed("rank_order") && ownWorker() && base().model.moe && base().rank_order != data_first)
        m_orders.push_back(data_first);
    setSavings();
    addCores();
}

bool SearchChoices::fixed(std::string_view key) const {
    return std::ranges::find(m_space.fixed, key) != m_space.fixed.end();
}

std::vector<std::int64_t> SearchChoices::tensorDegrees() const {
    if (fixed("tp")) return {base().layout.tp};
    std::vector<std::int64_t> out;
    const std::int64_t most = std::min({base().cluster.devices_per_node, m_world, kLargestTensor});
    for (std::int64_t tp = 1; tp <= most; tp *= 2)
        if (base().model.attention.num_heads % tp == 0 && m_world % tp == 0) out.push_back(tp);
    return out;
}

std::vector<std::int64_t> SearchChoices::contextDegrees(std::int64_t tp) const {
    if (fixed("cp")) return {base().layout.cp};
    std::vector<std::int64_t> out = {1};
    for (std::int64_t cp = 2; base().seq_len / cp >= kLeastTokens && m_world % (tp * cp) == 0;
         cp *= 2)
        out.push_back(cp);
    return out;
}

std::vector<std::int64_t> SearchChoices::pipelineDegrees(std::int64_t ranks) const {
    if (fixed("pp")) return {base().layout.pp};
    return divisors(ranks, base().model.num_layers);
}

std::vector<std::int64_t> SearchChoices::expertDegrees() const {
    if (fixed("ep")) return {base().layout.ep};
    if (!base().model.moe) return {1};
    return divisors(base().model.moe->num_experts, m_world);
}

std::vector<std::int64_t> SearchChoices::microBatches(std::int64_t dp) const {
    if (fixed("micro_batch_size")) return {base().micro_batch_size};
    if (base().global_batch_size % dp != 0) return {};
    return divisors(base().global_batch_size / dp, kLargestMicroBatch);
}

void SearchChoices::addCores() {
    for (std::int64_t tp : tensorDegrees())
        for (std::int64_t cp : contextDegrees(tp))
            for (std::int64_t pp : pipelineDegrees(m_world / (tp * cp))) {
                Layout dense = base().layout;
                dense.tp = tp;
                dense.cp = cp;
                dense.pp = pp;
                dense.vpp = 1;
                if (!fixed("sp")) dense.sp = tp > 1;
                if (!fixed("dp")) dense.dp = m_world / (tp * cp * pp);
                if (dense.dp >= 1) addExpertGrids(dense);
            }
}

void SearchChoices::addExpertGrids(Layout dense) {
    const std::int64_t ranks = dense.tp * dense.cp * dense.dp;
    std::vector<std::int64_t> splits = {dense.tp};
    if (fixed("etp") || !base().model.moe)
        splits = {base().layout.etp};
    else if (dense.tp > 1)
        splits.push_back(1);
    for (std::int64_t ep : expertDegrees())
        for (std::int64_t etp : splits) {
            if (ranks % (ep * etp) != 0) continue;
            dense.ep = ep;
            dense.etp = etp;
            for (std::int64_t size : microBatches(dense.dp))
                for (std::uint32_t order = 0; order < m_orders.size(); ++order)
                    if (order == 0 || (ep > 1 && dense.edp() > 1))
                        m_cores.push_back({dense, size, order});
        }
}

void SearchChoices::setSavings() {
    if (fixed("recompute")) {
        m_recomputes = {base().recompute};
    } else {
        m_recomputes = {Recompute{}, selectiveRecompute(base())};
        Recompute full;
        full.granularity = RecomputeGranularity::Full;
        m_recomputes.push_back(full);
    }
    // What the worker runs on CPU ranks (core/plan/own_worker.h).
    const bool cpu_ranks = ownWorker() && base().cluster.device.kind == DeviceKind::Cpu;
    m_zero_stages = cpu_ranks ? std::vector<int>{1, 0} : std::vector<int>{1, 0, 2, 3};
    if (fixed("zero_stage")) m_zero_stages = {base().zero_stage};
    m_offloads = {false, true};
    if (cpu_ranks) m_offloads = {false};
    if (fixed("offload") || base().offload.optimizer) m_offloads = {base().offload.optimizer};
}

std::vector<PipelineChoice> SearchChoices::pipelines(const SearchCore& core) const {
    std::vector<PipelineChoice> out;
    const std::int64_t layers = base().model.num_layers / core.layout.pp;
    const bool even = base().model.num_layers % core.layout.pp == 0;
    const auto add = [&](ScheduleKind kind) {
        if (fixed("vpp")) {
            out.push_back({kind, base().layout.vpp});
        } else if (placementOf(kind) == ChunkPlacement::V) {
            out.push_back({kind, 2});
        } else if (kind != ScheduleKind::InterleavedOneF1B) {
            out.push_back({kind, 1});
        } else if (even) {
            for (std::int64_t vpp : divisors(layers, kMostChunks))
                if (vpp > 1) out.push_back({kind, vpp});
        }
    };
    if (fixed("schedule")) {
        add(base().schedule);
        return out;
    }
    if (core.layout.pp == 1) return {{ScheduleKind::OneF1B, 1}};
    for (ScheduleKind kind : generatedSchedules()) add(kind);
    return out;
}

bool SearchChoices::hidesExchanges() const {
    if (effectiveOverlap(base()).ep || base().all_to_all.chunks > 1 || ownWorker()) return true;
    return fixed("schedule") && pairsSlots(base().schedule);
}

/// Only curves measured on this cluster tell algorithms apart.
bool SearchChoices::searchesAlgorithms() const {
    return ownWorker() && !fixed("algorithm") &&
           base().all_to_all.algorithm == AllToAllAlgorithm::Auto &&
           std::ranges::any_of(base().cluster.curves.collective, [](const CollectivePoint& p) {
               return p.kind == CollectiveKind::AllToAll;
           });
}

std::vector<AllToAllChoice> SearchChoices::exchanges(const SearchCore& core,
                                                     const PipelineChoice& pipeline) const {
    std::vector<AllToAllChoice> out = {base().all_to_all};
    if (core.layout.ep == 1 || !ownWorker()) return out;
    if (!fixed("chunks") && !pairsSlots(pipeline.schedule))
        for (std::int64_t chunks : {2, 4}) {
            out.push_back(base().all_to_all);
            out.back().chunks = chunks;
        }
    if (!searchesAlgorithms()) return out;
    for (std::size_t i = 0, n = out.size(); i < n; ++i) {
        out.push_back(out[i]);
        out.back().algorithm = AllToAllAlgorithm::Node;
    }
    return out;
}

std::vector<std::int64_t> SearchChoices::recomputedLayers(const SearchPoint& point) const {
    std::vector<std::int64_t> out = {0};
    const Recompute& r = m_recomputes[point.saving.recompute];
    if (fixed("recompute") || r.granularity != RecomputeGranularity::Full) return out;
    const std::int64_t chunks = point.core.layout.pp * point.pipeline.vpp;
    const std::int64_t most = (base().model.num_layers + chunks - 1) / chunks;
    for (std::int64_t layers = most - 1; layers >= 1; --layers) out.push_back(layers);
    return out;
}

void SearchChoices::apply(const SearchPoint& point, Plan& plan) const {
    plan.layout = point.core.layout;
    plan.layout.vpp = point.pipeline.vpp;
    plan.micro_batch_size = point.core.micro_batch_size;
    if (plan.rank_order != m_orders[point.core.rank_order])
        plan.rank_order = m_orders[point.core.rank_order];
    plan.schedule = point.pipeline.schedule;
    plan.all_to_all = point.exchange;
    const Recompute& recompute = m_recomputes[point.saving.recompute];
    plan.recompute.granularity = recompute.granularity;
    plan.recompute.method = recompute.method;
    plan.recompute.num_layers =
        point.saving.recomputed_layers > 0 ? point.saving.recomputed_layers : recompute.num_layers;
    if (plan.recompute.modules != recompute.modules) plan.recompute.modules = recompute.modules;
    plan.zero_stage = point.saving.zero_stage;
    plan.offload.optimizer = point.saving.offload;
    if (!fixed("stage_layers"))
        plan.stage_layers = balancedStages(plan.model.num_layers, plan.layout.pp * plan.layout.vpp);
}

Plan SearchChoices::plan(const SearchPoint& point) const {
    Plan out = base();
    apply(point, out);
    return out;
}

}  // namespace piper
