// SPDX-License-Identifier: Apache-2.0
#include "core/search/capacity.h"

#include <algorithm>
#include <cmath>

#include "core/base/cast.h"
#include "core/search/cluster_change.h"
#include "core/search/shortfall.h"

namespace piper {
namespace {

/// Device counts worth asking for, ascending from `least`.
std::vector<std::int64_t> deviceCounts(const ClusterSpec& cluster, std::int64_t least,
                                       std::int64_t most) {
    std::vector<std::int64_t> out;
    for (std::int64_t n = 1; n < cluster.devices_per_node; n *= 2)
        if (n >= least && n <= most) out.push_back(n);
    for (std::int64_t n = cluster.devices_per_node; n <= most; n += cluster.devices_per_node)
        if (n >= least) out.push_back(n);
    return out;
}

// Concept: doubling finds a count that fits; then the smaller ones are asked in order, all of the
// frugal part of the space. The whole space then confirms the refusals next to the answer.
class DeviceSearch {
public:
    DeviceSearch(const SearchSpace& space, const SearchRun& run) : m_space(space), m_run(run) {
        m_out.least_possible = leastDevices(space.base);
    }

    /// `most`: of whose refusal it speaks when there are no counts.
    Result<FewestDevices> run(const std::vector<std::int64_t>& counts, std::int64_t most) {
        PIPER_ASSIGN(std::size_t good, firstOf(counts));
        for (; good > 0; --good) {
            PIPER_ASSIGN(BestPlan below, planOn(counts[good - 1]));
            if (!below.best) {
                m_out.stopped = std::move(below.shortfall);
                m_out.stopped_devices = counts[good - 1];
                break;
            }
            m_out.best = std::move(below.best);
        }
        if (counts.empty()) {
            const std::int64_t node = m_space.base.cluster.devices_per_node;
            m_out.stopped_devices = most > node ? most / node * node : most;
            PIPER_ASSIGN(const BestPlan none, planOn(m_out.stopped_devices));
            m_out.stopped = none.shortfall;
        }
        if (good == counts.size()) return std::move(m_out);
        m_out.devices = counts[good];
        m_out.nodes = onDevices(counts[good]).base.cluster.nodes;
        if (!m_out.best) {
            PIPER_ASSIGN(BestPlan best, planOn(counts[good]));
            m_out.best = std::move(best.best);
        }
        return std::move(m_out);
    }

private:
    [[nodiscard]] SearchSpace onDevices(std::int64_t devices) const {
        SearchSpace space = m_space;
        space.base.cluster = withDevices(std::move(space.base.cluster), devices);
        space.max_world = 0;
        return space;
    }
    Result<BestPlan> planOn(std::int64_t devices) {
        ++m_out.counts_tried;
        return bestPlan(onDevices(devices), m_run);
    }
    Result<bool> fits(std::int64_t devices) {
        ++m_out.counts_tried;
        PIPER_ASSIGN(const SearchResult found,
                     searchPlans(frugalSpace(onDevices(devices)), m_run.parallel_for, m_run.stop));
        return !found.plans.empty();
    }

    /// The first count on which the frugal part fits; their number when it fits on none asked for.
    Result<std::size_t> firstOf(const std::vector<std::int64_t>& counts) {
        std::vector<bool> refused(counts.size(), false);
        std::size_t good = 0;
        while (good < counts.size()) {
            PIPER_ASSIGN(const bool found, fits(counts[good]));
            if (found) break;
            refused[good] = true;
            const bool last = good + 1 == counts.size();
            good = last ? counts.size() : std::min(2 * good + 1, counts.size() - 1);
        }
        if (good == counts.size()) return good;
        for (std::size_t i = 0; i < good; ++i) {
            if (refused[i]) continue;
            PIPER_ASSIGN(const bool smaller, fits(counts[i]));
            if (smaller) return i;
        }
        return good;
    }

    const SearchSpace& m_space;
    const SearchRun& m_run;
    FewestDevices m_out;
};

}  // namespace

Result<BestPlan> bestPlan(const SearchSpace& space, const SearchRun& run) {
    SearchSpace one = space;
    one.top = 1;
    PIPER_ASSIGN(SearchResult found, searchPlans(one, run.parallel_for, run.stop));
    BestPlan out;
    if (found.plans.empty()) {
        PIPER_ASSIGN(out.shortfall, shortfallOf(space, found, run));
    } else {
        out.best = std::move(found.plans.front());
    }
    return out;
}

Result<FewestDevices> fewestDevices(const SearchSpace& space, std::int64_t max_devices,
                                    const SearchRun& run) {
    const ClusterSpec& cluster = space.base.cluster;
    const std::int64_t most = max_devices > 0 ? max_devices : cluster.numDevices();
    if (most > cluster.devices_per_node && !joinsNodes(cluster))
        return fail(ErrorCode::InvalidInput,
                    "{} has no link that joins nodes: {} devices are more than its node of {}",
                    cluster.name, most, cluster.devices_per_node);
    return DeviceSearch(space, run)
        .run(deviceCounts(cluster, leastDevices(space.base), most), most);
}

TrainingBill trainingBill(const RankedPlan& plan, double tokens, double availability) {
    TrainingBill out;
    const double devices = asDouble(plan.plan.layout.world());
    out.steps = std::ceil(tokens / asDouble(plan.plan.global_batch_size * plan.plan.seq_len));
    out.time = plan.prediction.step * (out.steps / availability);
    out.device_hours = devices * out.time.value / 3600.0;
    out.price = out.device_hours * plan.plan.cluster.price_per_device_hour;
    return out;
}

namespace {

double tokensPerSecond(const RankedPlan& plan) {
    return plan.prediction.tokens_per_second_per_device * asDouble(plan.plan.layout.world());
}

/// The cluster with one part enlarged.
struct Enlarged {
    Purchase purchase;
    ClusterSpec cluster;
    ClusterSpec now;  ///< as it is, without the measured curves that the enlarged one loses
};

std::vector<Enlarged> enlarged(const ClusterSpec& cluster, double factor) {
    std::vector<Enlarged> out;
    const auto add = [&](const char* part, double times, ClusterSpec changed) {
        Enlarged& e = out.emplace_back();
        e.purchase.part = part;
        e.purchase.factor = times;
        e.now = cluster;
        e.now.curves.collective = changed.curves.collective;
        e.cluster = std::move(changed);
    };
    add("memory", factor, withMemory(cluster, factor));
    if (joinsNodes(cluster)) {
        add("network", factor, withLinks(cluster, true, factor));
        const auto nodes = static_cast<std::int64_t>(std::ceil(asDouble(cluster.nodes) * factor));
        add("nodes", asDouble(nodes) / asDouble(cluster.nodes), withNodes(cluster, nodes));
        out.back().purchase.nodes = nodes;
    }
    const bool inside = std::ranges::any_of(cluster.levels, [&](const LinkLevel& level) {
        return level.domain_devices <= cluster.devices_per_node;
    });
    if (inside && cluster.devices_per_node > 1)
        add("node_links", factor, withLinks(cluster, false, factor));
    return out;
}

Result<double> tokensPerSecondOn(const SearchSpace& space, const ClusterSpec& cluster,
                                 const SearchRun& run) {
    SearchSpace there = space;
    there.base.cluster = cluster;
    PIPER_ASSIGN(const SearchResult found, searchPlans(there, run.parallel_for, run.stop));
    return found.plans.empty() ? 0.0 : tokensPerSecond(found.plans.front());
}

}  // namespace

Result<Purchases> nextPurchases(const SearchSpace& space, const BestPlan& now, double factor,
                                const SearchRun& run) {
    if (!(factor > 1.0) || !std::isfinite(factor))
        return fail(ErrorCode::InvalidInput, "factor {} must be above 1", factor);
    Purchases out;
    out.now = now;
    SearchSpace base = space;
    base.top = 1;
    const double today = now.best ? tokensPerSecond(*now.best) : 0.0;
    const std::size_t measured = base.base.cluster.curves.collective.size();
    for (Enlarged& part : enlarged(space.base.cluster, factor)) {
        double before = today;
        if (part.now.curves.collective.size() != measured) {
            PIPER_ASSIGN(before, tokensPerSecondOn(base, part.now, run));
        }
        SearchSpace changed = base;
        changed.base.cluster = std::move(part.cluster);
        if (part.purchase.part == "nodes") changed.max_world = 0;
        PIPER_ASSIGN(SearchResult found, searchPlans(changed, run.parallel_for, run.stop));
        Purchase purchase = std::move(part.purchase);
        if (!found.plans.empty()) {
            purchase.best = std::move(found.plans.front());
            purchase.tokens_per_second = tokensPerSecond(*purchase.best);
            if (before > 0.0) purchase.gain = purchase.tokens_per_second / before - 1.0;
        }
        out.parts.push_back(std::move(purchase));
    }
    std::ranges::stable_sort(out.parts, std::greater<>(), &Purchase::tokens_per_second);
    return out;
}

}  // namespace piper
