// SPDX-License-Identifier: Apache-2.0
#include "core/predict/fit_candidates.h"

#include <algorithm>
#include <array>

namespace piper {
namespace {

using Candidates = std::vector<FitCandidate>;

/// Modules to recompute, cheapest first: norms and activations are memory-bound, the projections of
/// MLA and the MLPs cost GEMMs again.
std::vector<std::vector<std::string>> moduleSets(const Plan& plan) {
    std::vector<std::string> steps;
    if (!plan.fused_attention) steps.emplace_back("core_attn");
    const auto in_turn = [](const std::vector<std::string>& names) {
        std::vector<std::vector<std::string>> sets;
        for (std::size_t n = 1; n <= names.size(); ++n)
            sets.emplace_back(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(n));
        return sets;
    };
    // DeepSpeed recomputes whole layers; torchtitan chooses by operation.
    if (plan.framework == Framework::DeepSpeed) return in_turn(steps);
    if (plan.framework == Framework::Torchtitan) {
        steps.emplace_back("op");
        return in_turn(steps);
    }
    steps.emplace_back("layernorm");
    if (plan.model.moe) steps.emplace_back("moe_act");
    if (plan.model.attention.kind == AttentionKind::Mla) steps.emplace_back("mla_up_proj");
    if (plan.model.moe && plan.model.moe->shared_ffn_hidden_size > 0)
        steps.emplace_back("shared_experts");
    if (plan.model.numMoeLayers() < plan.model.num_layers) steps.emplace_back("mlp");
    if (plan.model.moe) steps.emplace_back("moe");
    return in_turn(steps);
}

Candidates recomputeModules(const Plan& plan) {
    Candidates out;
    if (plan.recompute.granularity == RecomputeGranularity::Full) return out;
    for (const std::vector<std::string>& set : moduleSets(plan)) {
        FitCandidate c{"", {}, plan, static_cast<int>(out.size())};
        Recompute& r = c.plan.recompute;
        r.granularity = RecomputeGranularity::Selective;
        for (const std::string& module : set)
            if (std::ranges::find(r.modules, module) == r.modules.end())
                r.modules.push_back(module);
        if (r == plan.recompute) continue;
        c.change = fmt::format("recompute {}", fmt::join(r.modules, ", "));
        c.settings = {"recompute.granularity=selective",
                      fmt::format("recompute.modules={}", fmt::join(r.modules, ","))};
        out.push_back(std::move(c));
    }
    return out;
}

/// First some layers of a stage chunk, then all of them.
Candidates recomputeFull(const Plan& plan) {
    Candidates out;
    const std::vector<std::int64_t> layers = effectiveStageLayers(plan);
    const std::int64_t most = *std::ranges::max_element(layers);
    const bool by_layers =
        plan.framework == Framework::Megatron || plan.framework == Framework::Plain;
    for (int quarter = by_layers ? 1 : 4; quarter <= 4; ++quarter) {
        const std::int64_t n = (most * quarter + 3) / 4;
        FitCandidate c{"", {}, plan, quarter};
        Recompute& r = c.plan.recompute;
        r = {};
        r.granularity = RecomputeGranularity::Full;
        r.num_layers = quarter == 4 ? 0 : n;
        if (r == plan.recompute || (quarter < 4 && n >= most)) continue;
        c.change = quarter == 4 ? "recompute every layer"
                                : fmt::format("recompute {} of up to {} layers a stage", n, most);
        c.settings = {"recompute.granularity=full",
                      fmt::format("recompute.num_layers={}", r.num_layers)};
        out.push_back(std::move(c));
    }
    return out;
}

Candidates microBatch(const Plan& plan) {
    Candidates out;
    for (std::int64_t size = plan.micro_batch_size - 1; size >= 1; --size) {
        if (plan.micro_batch_size % size != 0) continue;
        FitCandidate c{
            fmt::format("micro_batch_size {} instead of {}", size, plan.micro_batch_size),
            {fmt::format("micro_batch_size={}", size)},
            plan,
            static_cast<int>(out.size())};
        c.plan.micro_batch_size = size;
        out.push_back(std::move(c));
    }
    return out;
}

Candidates zeroStage(const Plan& plan) {
    Candidates out;
    for (int stage = plan.zero_stage + 1; stage <= 3; ++stage) {
        FitCandidate c{fmt::format("ZeRO stage {} instead of {}", stage, plan.zero_stage),
                       {fmt::format("zero_stage={}", stage)},
                       plan,
                       stage};
        c.plan.zero_stage = stage;
        out.push_back(std::move(c));
    }
    return out;
}

Candidates offload(const Plan& plan) {
    Candidates out;
    const double now = plan.offload.optimizer ? plan.offload.fraction : 0.0;
    for (int quarter = 1; quarter <= 4; ++quarter) {
        const double fraction = 0.25 * quarter;
        if (fraction <= now) continue;
        FitCandidate c{
            fmt::format("{:.0f} % of the optimizer state in host memory", 100 * fraction),
            {"offload.optimizer=true", fmt::format("offload.fraction={}", fraction)},
            plan,
            quarter};
        c.plan.offload.optimizer = true;
        c.plan.offload.fraction = fraction;
        out.push_back(std::move(c));
    }
    if (plan.zero_stage != 3 || plan.offload.parameters || out.empty()) return out;
    FitCandidate all = out.back();
    all.change += " and the weights";
    all.settings.emplace_back("offload.parameters=true");
    all.plan.offload.parameters = true;
    all.size = 5;
    out.push_back(std::move(all));
    return out;
}

/// A factor on each degree; dp takes what is left of the world.
struct Growth {
    std::int64_t tp = 1, cp = 1, pp = 1, ep = 1, etp = 1;
};

constexpr std::array<std::pair<std::string_view, std::int64_t Growth::*>, 5> kDegrees = {
    {{"ep", &Growth::ep},
     {"pp", &Growth::pp},
     {"etp", &Growth::etp},
     {"tp", &Growth::tp},
     {"cp", &Growth::cp}}};

/// Stages of another number hold other layers, and the schedule must still allow them.
void restage(Plan& plan, const Plan& old) {
    const std::int64_t pp = plan.layout.pp;
    if (pp == old.layout.pp) return;
    plan.stage_layers.clear();
    const std::int64_t layers = plan.model.num_layers;
    if (layers % (pp * plan.layout.vpp) != 0 && plan.layout.vpp > 1) {
        plan.layout.vpp = 1;
        if (plan.schedule == ScheduleKind::InterleavedOneF1B) plan.schedule = ScheduleKind::OneF1B;
    }
    if (layers % (pp * plan.layout.vpp) != 0 && layers >= pp)
        plan.stage_layers = balancedStageLayers(layers, pp * plan.layout.vpp);
}

/// The plan with its degrees grown on `world` ranks; nothing when they do not divide it.
std::optional<Plan> grown(const Plan& old, const Growth& by, std::int64_t world) {
    Plan plan = old;
    Layout& l = plan.layout;
    l.tp *= by.tp;
    l.cp *= by.cp;
    l.pp *= by.pp;
    l.ep *= by.ep;
    l.etp *= by.etp;
    if (world % (l.tp * l.cp * l.pp) != 0 || world % (l.etp * l.ep * l.pp) != 0)
        return std::nullopt;
    l.dp = world / (l.tp * l.cp * l.pp);
    if (by.tp > 1 && plan.framework == Framework::Megatron) l.sp = true;
    if (plan.global_batch_size % (plan.micro_batch_size * l.dp) != 0) return std::nullopt;
    plan.expert_placement.clear();
    restage(plan, old);
    return plan;
}

FitCandidate layoutCandidate(Plan plan, const Plan& old, int size) {
    FitCandidate c{"", {}, std::move(plan), size};
    const Layout &now = c.plan.layout, &was = old.layout;
    const auto named = [&](std::string_view key, std::int64_t value, std::int64_t before) {
        if (value == before) return;
        c.change +=
            fmt::format("{}{} {} instead of {}", c.change.empty() ? "" : ", ", key, value, before);
        c.settings.push_back(fmt::format("layout.{}={}", key, value));
    };
    named("ep", now.ep, was.ep);
    named("pp", now.pp, was.pp);
    named("etp", now.etp, was.etp);
    named("tp", now.tp, was.tp);
    named("cp", now.cp, was.cp);
    named("vpp", now.vpp, was.vpp);
    if (now.dp != was.dp) c.settings.push_back(fmt::format("layout.dp={}", now.dp));
    if (!c.plan.stage_layers.empty() && c.plan.stage_layers != old.stage_layers)
        c.settings.push_back(fmt::format("stage_layers=[{}]", fmt::join(c.plan.stage_layers, ",")));
    return c;
}

/// Sizes: how often a degree is doubled, in all.
std::vector<std::pair<int, Growth>> growths() {
    std::vector<std::pair<int, Growth>> out;
    constexpr std::array<std::pair<int, std::int64_t>, 6> kFactors = {
        {{1, 2}, {2, 3}, {2, 4}, {3, 8}, {4, 16}, {5, 32}}};
    for (const auto& [key, degree] : kDegrees)
        for (const auto& [size, factor] : kFactors) {
            Growth g;
            g.*degree = factor;
            out.emplace_back(size, g);
        }
    for (std::size_t a = 0; a < kDegrees.size(); ++a)
        for (std::size_t b = a + 1; b < kDegrees.size(); ++b)
            for (const auto& [size_a, factor_a] : kFactors)
                for (const auto& [size_b, factor_b] : kFactors) {
                    const auto most = [](std::size_t degree) {
                        return kDegrees[degree].first == "pp" ? 16 : 8;
                    };
                    if (factor_a > most(a) || factor_b > most(b)) continue;
                    if (factor_a == 3 || factor_b == 3) continue;
                    Growth g;
                    g.*kDegrees[a].second = factor_a;
                    g.*kDegrees[b].second = factor_b;
                    out.emplace_back(size_a + size_b, g);
                }
    std::ranges::stable_sort(out, {}, &std::pair<int, Growth>::first);
    return out;
}

Candidates otherLayout(const Plan& plan) {
    Candidates out;
    for (const auto& [size, growth] : growths())
        if (std::optional<Plan> changed = grown(plan, growth, plan.layout.world()))
            out.push_back(layoutCandidate(std::move(*changed), plan, size));
    return out;
}

/// More replicas (sharded state shrinks), or one degree grown by as much.
Candidates moreDevices(const Plan& plan) {
    Candidates out;
    const std::int64_t world = plan.layout.world();
    int size = 0;
    for (const std::int64_t factor : {2, 3, 4, 6, 8, 16, 32, 64}) {
        ++size;
        const std::int64_t ranks = world * factor;
        std::vector<Growth> ways(1);
        for (const auto& [key, degree] : kDegrees) {
            Growth g;
            g.*degree = factor;
            ways.push_back(g);
        }
        for (const Growth& way : ways) {
            std::optional<Plan> changed = grown(plan, way, ranks);
            if (!changed) continue;
            ClusterSpec& cluster = changed->cluster;
            cluster.nodes = std::max(
                cluster.nodes, (ranks + cluster.devices_per_node - 1) / cluster.devices_per_node);
            if (!cluster.levels.empty())
                cluster.levels.back().domain_devices =
                    std::max(cluster.levels.back().domain_devices, cluster.numDevices());
            FitCandidate c = layoutCandidate(std::move(*changed), plan, size);
            c.change = fmt::format("{} devices instead of {}{}{}", ranks, world,
                                   c.change.empty() ? "" : " with ", c.change);
            c.settings.insert(c.settings.begin(),
                              fmt::format("cluster.nodes={}", c.plan.cluster.nodes));
            out.push_back(std::move(c));
        }
    }
    return out;
}

}  // namespace

std::vector<FitCandidate> fitCandidates(const Plan& plan, FitChangeKind kind) {
    switch (kind) {
        case FitChangeKind::RecomputeModules:
            return recomputeModules(plan);
        case FitChangeKind::RecomputeFull:
            return recomputeFull(plan);
        case FitChangeKind::MicroBatch:
            return microBatch(plan);
        case FitChangeKind::ZeroStage:
            return zeroStage(plan);
        case FitChangeKind::Offload:
            return offload(plan);
        case FitChangeKind::Layout:
            return otherLayout(plan);
        case FitChangeKind::MoreDevices:
            return moreDevices(plan);
    }
    return {};
}

}  // namespace piper
