// SPDX-License-Identifier: Apache-2.0
#include "core/search/enumerate.h"

#include <algorithm>

namespace piper {
namespace {

constexpr std::int64_t kLargestMicroBatch = 16;

std::vector<std::int64_t> divisors(std::int64_t n) {
    std::vector<std::int64_t> out;
    for (std::int64_t d = 1; d <= n; ++d)
        if (n % d == 0) out.push_back(d);
    return out;
}

/// Builds the plans loop by loop; a fixed key has one value, the base's.
class Enumeration {
public:
    explicit Enumeration(const SearchSpace& space) : m_space(space) {
        const std::int64_t devices = space.base.cluster.numDevices();
        m_world = space.max_world > 0 ? std::min(space.max_world, devices) : devices;
    }

    std::vector<Plan> run() {
        for (ScheduleKind schedule : schedules())
            for (const Recompute& recompute : recomputes())
                for (std::int64_t tp : tensorDegrees())
                    for (std::int64_t pp : pipelineDegrees(tp))
                        addLayouts(schedule, recompute, tp, pp);
        return std::move(m_plans);
    }

private:
    bool fixed(std::string_view key) const {
        return std::ranges::find(m_space.fixed, key) != m_space.fixed.end();
    }
    const Plan& base() const { return m_space.base; }

    std::vector<ScheduleKind> schedules() const {
        if (fixed("schedule")) return {base().schedule};
        return {ScheduleKind::OneF1B, ScheduleKind::GPipe};
    }
    std::vector<Recompute> recomputes() const {
        if (fixed("recompute")) return {base().recompute};
        Recompute full;
        full.granularity = RecomputeGranularity::Full;
        return {Recompute{}, full};
    }
    std::vector<std::int64_t> tensorDegrees() const {
        if (fixed("tp")) return {base().layout.tp};
        std::vector<std::int64_t> out;
        const std::int64_t most = std::min(base().cluster.devices_per_node, m_world);
        for (std::int64_t tp = 1; tp <= most; tp *= 2)
            if (base().model.attention.num_heads % tp == 0) out.push_back(tp);
        return out;
    }
    std::vector<std::int64_t> pipelineDegrees(std::int64_t tp) const {
        if (fixed("pp")) return {base().layout.pp};
        const std::int64_t ranks = m_world / (tp * base().layout.cp);
        std::vector<std::int64_t> out;
        for (std::int64_t pp : divisors(ranks))
            if (pp <= base().model.num_layers) out.push_back(pp);
        return out;
    }
    std::int64_t dataDegree(std::int64_t tp, std::int64_t pp) const {
        if (fixed("dp")) return base().layout.dp;
        return m_world / (tp * pp * base().layout.cp);
    }
    std::vector<std::int64_t> expertDegrees(std::int64_t ranks) const {
        if (fixed("ep")) return {base().layout.ep};
        if (!base().model.moe) return {1};
        std::vector<std::int64_t> out;
        for (std::int64_t ep : divisors(base().model.moe->num_experts))
            if (ranks % (ep * base().layout.etp) == 0) out.push_back(ep);
        return out;
    }
    std::vector<std::int64_t> microBatches(std::int64_t dp) const {
        if (fixed("micro_batch_size")) return {base().micro_batch_size};
        std::vector<std::int64_t> out;
        for (std::int64_t size : divisors(std::max<std::int64_t>(1, base().global_batch_size / dp)))
            if (size <= kLargestMicroBatch) out.push_back(size);
        return out;
    }

    void addLayouts(ScheduleKind schedule, const Recompute& recompute, std::int64_t tp,
                    std::int64_t pp) {
        const std::int64_t dp = dataDegree(tp, pp);
        if (dp < 1) return;
        // Without stages both schedules are the same plan; GPipe only keeps more.
        if (pp == 1 && schedule == ScheduleKind::GPipe && !fixed("schedule")) return;
        for (std::int64_t ep : expertDegrees(tp * base().layout.cp * dp))
            for (std::int64_t size : microBatches(dp)) {
                Plan plan = base();
                plan.schedule = schedule;
                plan.recompute = recompute;
                plan.layout.tp = tp;
                plan.layout.pp = pp;
                plan.layout.ep = ep;
                plan.layout.dp = dp;
                if (!fixed("sp")) plan.layout.sp = tp > 1;
                plan.micro_batch_size = size;
                if (!fixed("stage_layers"))
                    plan.stage_layers = balancedStages(plan.model.num_layers, pp * plan.layout.vpp);
                m_plans.push_back(std::move(plan));
            }
    }

    const SearchSpace& m_space;
    std::int64_t m_world = 1;
    std::vector<Plan> m_plans;
};

}  // namespace

const std::vector<std::string_view>& searchKeys() {
    static const std::vector<std::string_view> keys = {
        "tp",       "sp",          "cp",
        "pp",       "vpp",         "ep",
        "etp",      "dp",          "micro_batch_size",
        "schedule", "recompute",   "zero_stage",
        "chunks",   "stage_layers"};
    return keys;
}

Status checkFixed(const SearchSpace& space) {
    for (const std::string& key : space.fixed) {
        if (std::ranges::find(searchKeys(), key) != searchKeys().end()) continue;
        Error error = fail(ErrorCode::InvalidInput, "unknown key '{}' to fix; nearest known: '{}'",
                           key, nearestWord(key, searchKeys()));
        error.hint = fmt::format("known: {}", joinWords(searchKeys()));
        return error;
    }
    return {};
}

std::vector<Plan> enumeratePlans(const SearchSpace& space) {
    return Enumeration(space).run();
}

std::string layoutText(const Plan& plan) {
    const Layout& l = plan.layout;
    std::string text = fmt::format("tp={} pp={} ep={} dp={} mbs={}", l.tp, l.pp, l.ep, l.dp,
                                   plan.micro_batch_size);
    if (l.cp > 1) text += fmt::format(" cp={}", l.cp);
    if (l.vpp > 1) text += fmt::format(" vpp={}", l.vpp);
    if (l.etp > 1) text += fmt::format(" etp={}", l.etp);
    text += fmt::format(" {}", toText(plan.schedule));
    if (plan.recompute.granularity == RecomputeGranularity::Full) text += " recompute=full";
    if (plan.recompute.granularity == RecomputeGranularity::Selective)
        text += " recompute=selective";
    return text;
}

std::vector<std::int64_t> balancedStages(std::int64_t layers, std::int64_t pp) {
    if (pp < 1 || layers % pp == 0) return {};
    std::vector<std::int64_t> stages(static_cast<std::size_t>(pp), layers / pp);
    std::int64_t left = layers % pp;
    const std::int64_t first = std::max<std::int64_t>(0, (pp - left) / 2);
    for (std::int64_t s = first; left > 0; ++s, --left) ++stages[static_cast<std::size_t>(s)];
    return stages;
}

}  // namespace piper
