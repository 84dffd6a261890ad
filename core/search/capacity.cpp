// SPDX-License-Identifier: Apache-2.0
#include "core/search/capacity.h"

#include <algorithm>
#include <cmath>

#include "core/resources/work.h"
#include "core/search/cluster_change.h"
#include "core/search/enumerate.h"

namespace piper {
namespace {

double asDouble(std::int64_t v) {
    return static_cast<double>(v);
}

/// The part of the space that needs least memory.
SearchSpace frugal(SearchSpace space) {
    space.top = 1;
    const auto decide = [&space](const char* key, const auto& set) {
        if (std::ranges::find(space.fixed, key) != space.fixed.end()) return;
        space.fixed.emplace_back(key);
        set();
    };
    decide("schedule", [&] { space.base.schedule = ScheduleKind::OneF1B; });
    decide("micro_batch_size", [&] { space.base.micro_batch_size = 1; });
    decide("recompute", [&] {
        space.base.recompute = {};
        space.base.recompute.granularity = RecomputeGranularity::Full;
    });
    // These take no memory: the base's stand for all of them.
    for (const char* key : {"rank_order", "algorithm"}) decide(key, [] {});
    decide("chunks", [&] { space.base.all_to_all.chunks = 1; });
    return space;
}

/// Devices that the cluster would need for any plan at all: the rest may be sharded or moved out.
std::int64_t leastDevices(const Plan& plan) {
    if (plan.offload.parameters) return 1;
    const StateBytes state = stateBytes(plan);
    const double bytes =
        asDouble(modelParameters(plan.model).total) * (state.weights + state.gradients);
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::ceil(bytes / plan.cluster.device.memory.value)));
}

/// The plan with least memory, were memory no limit.
Result<std::optional<RankedPlan>> leastMemoryPlan(const SearchSpace& space, const SearchRun& run) {
    constexpr double kPlenty = 1e3;
    SearchSpace roomy = frugal(space);
    const Bytes capacity = roomy.base.cluster.device.memory;
    roomy.base.cluster.device.memory *= kPlenty;
    roomy.objective = Objective::MemoryHeadroom;
    PIPER_ASSIGN(SearchResult found, searchPlans(roomy, run.parallel_for, run.stop));
    if (found.plans.empty()) return std::optional<RankedPlan>();
    RankedPlan nearest = std::move(found.plans.front());
    nearest.plan.cluster.device.memory = capacity;
    nearest.prediction.memory.capacity = capacity;
    nearest.prediction.memory.verdict = FitVerdict::DoesNotFit;
    return std::optional<RankedPlan>(std::move(nearest));
}

Result<Shortfall> shortfallOf(const SearchSpace& space, const SearchRun& run) {
    Shortfall out;
    PIPER_ASSIGN(out.nearest, leastMemoryPlan(space, run));
    if (out.nearest) {
        const MemoryPrediction& memory = out.nearest->prediction.memory;
        out.layout = layoutText(out.nearest->plan);
        out.rule = "memory";
        out.message =
            fmt::format("stage {} needs {} of the {} of a device", memory.peak_stage.value,
                        humanBytes(memory.device_total), humanBytes(memory.capacity));
        out.changes = smallestChanges(out.nearest->plan);
        return out;
    }
    PIPER_ASSIGN(const SearchResult found, searchPlans(space, run.parallel_for, run.stop));
    out.rule = "no_layout";
    out.message = "no layout of these devices divides the model and the batch";
    if (found.rejections.empty()) return out;
    const Rejection& nearest = found.rejections.front();
    out.layout = nearest.layout;
    out.rule = nearest.rule;
    out.message = nearest.message;
    return out;
}

class FamilySearch {
public:
    FamilySearch(const SearchSpace& space, GrowBy by, const SearchRun& run)
        : m_space(space), m_by(by), m_run(run) {
        m_out.by = by;
    }

    Result<LargestModel> run() {
        const ModelSpec& member = m_space.base.model;
        const std::int64_t step = familyStep(member, m_by);
        std::int64_t low = 0, high = familySize(member, m_by);
        PIPER_ASSIGN(bool fits_here, fits(high));
        while (fits_here) {  // memory ends it
            low = high;
            high *= 2;
            PIPER_ASSIGN(fits_here, fits(high));
        }
        const std::int64_t least = (familyLeast(member, m_by) + step - 1) / step * step;
        if (low == 0) {
            PIPER_ASSIGN(const bool smallest, fits(least));
            if (!smallest) return nothing(least);
            low = least;
        }
        while (high - low > step) {
            const std::int64_t middle = low + std::max(step, (high - low) / 2 / step * step);
            PIPER_ASSIGN(const bool fits_middle, fits(middle));
            (fits_middle ? low : high) = middle;
        }
        return answer(low, low + step);
    }

private:
    [[nodiscard]] Result<SearchSpace> spaceOf(std::int64_t size) const {
        SearchSpace space = m_space;
        PIPER_ASSIGN(space.base.model, familyMember(m_space.base.model, m_by, size));
        return space;
    }
    Result<bool> fits(std::int64_t size) {
        ++m_out.sizes_tried;
        PIPER_ASSIGN(const SearchSpace space, spaceOf(size));
        if (leastDevices(space.base) > space.base.cluster.numDevices()) return false;
        return anyPlanFits(space, m_run);
    }
    Result<LargestModel> nothing(std::int64_t least) {
        m_out.next_size = least;
        PIPER_ASSIGN(const SearchSpace space, spaceOf(least));
        m_out.model = space.base.model;
        PIPER_ASSIGN(m_out.stopped, shortfallOf(space, m_run));
        return std::move(m_out);
    }
    Result<LargestModel> answer(std::int64_t size, std::int64_t next) {
        m_out.size = size;
        m_out.next_size = next;
        PIPER_ASSIGN(const SearchSpace space, spaceOf(size));
        m_out.model = space.base.model;
        PIPER_ASSIGN(BestPlan best, bestPlan(space, m_run));
        m_out.best = std::move(best.best);
        PIPER_ASSIGN(const SearchSpace larger, spaceOf(next));
        PIPER_ASSIGN(m_out.stopped, shortfallOf(larger, m_run));
        return std::move(m_out);
    }

    const SearchSpace& m_space;
    GrowBy m_by;
    const SearchRun& m_run;
    LargestModel m_out;
};

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

SearchSpace onDevices(SearchSpace space, std::int64_t devices) {
    space.base.cluster = withDevices(std::move(space.base.cluster), devices);
    space.max_world = 0;
    return space;
}

}  // namespace

Result<bool> anyPlanFits(const SearchSpace& space, const SearchRun& run) {
    PIPER_ASSIGN(const SearchResult found, searchPlans(frugal(space), run.parallel_for, run.stop));
    return !found.plans.empty();
}

Result<BestPlan> bestPlan(const SearchSpace& space, const SearchRun& run) {
    SearchSpace one = space;
    one.top = 1;
    PIPER_ASSIGN(SearchResult found, searchPlans(one, run.parallel_for, run.stop));
    BestPlan out;
    if (found.plans.empty()) {
        PIPER_ASSIGN(out.shortfall, shortfallOf(space, run));
    } else {
        out.best = std::move(found.plans.front());
    }
    return out;
}

Result<LargestModel> largestModel(const SearchSpace& space, GrowBy by, const SearchRun& run) {
    if (by == GrowBy::Experts && !space.base.model.moe)
        return fail(ErrorCode::InvalidInput, "{} is dense: it has no experts to grow",
                    space.base.model.name);
    return FamilySearch(space, by, run).run();
}

Result<FewestDevices> fewestDevices(const SearchSpace& space, std::int64_t max_devices,
                                    const SearchRun& run) {
    const ClusterSpec& cluster = space.base.cluster;
    const std::int64_t most = max_devices > 0 ? max_devices : cluster.numDevices();
    if (most > cluster.devices_per_node &&
        (cluster.levels.empty() ||
         cluster.levels.back().domain_devices <= cluster.devices_per_node))
        return fail(ErrorCode::InvalidInput,
                    "{} has no link that joins nodes: {} devices are more than its node of {}",
                    cluster.name, most, cluster.devices_per_node);
    FewestDevices out;
    out.least_possible = leastDevices(space.base);
    const std::vector<std::int64_t> counts = deviceCounts(cluster, out.least_possible, most);
    const auto fits = [&](std::size_t i) {
        ++out.counts_tried;
        return anyPlanFits(onDevices(space, counts[i]), run);
    };
    // Doubling finds a count that fits; then the smaller ones are asked in order.
    std::vector<bool> refused(counts.size(), false);
    std::size_t good = 0;
    bool found = false;
    for (std::size_t i = 0; i < counts.size() && !found; i = std::max(i + 1, good)) {
        PIPER_ASSIGN(found, fits(i));
        if (found) {
            good = i;
            break;
        }
        refused[i] = true;
        good = std::min(2 * i + 1, counts.size() - 1);
    }
    if (!found) {
        const std::int64_t last = counts.empty() ? most : counts.back();
        PIPER_ASSIGN(out.stopped, shortfallOf(onDevices(space, last), run));
        return out;
    }
    for (std::size_t i = 0; i < good; ++i) {
        if (refused[i]) continue;
        PIPER_ASSIGN(const bool smaller, fits(i));
        if (smaller) good = i;
    }
    out.devices = counts[good];
    const SearchSpace answer = onDevices(space, out.devices);
    out.nodes = answer.base.cluster.nodes;
    PIPER_ASSIGN(BestPlan best, bestPlan(answer, run));
    out.best = std::move(best.best);
    if (good > 0) {
        PIPER_ASSIGN(out.stopped, shortfallOf(onDevices(space, counts[good - 1]), run));
    }
    return out;
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

/// The cluster with each part enlarged.
std::vector<std::pair<std::string, ClusterSpec>> enlarged(const ClusterSpec& cluster,
                                                          double factor) {
    std::vector<std::pair<std::string, ClusterSpec>> out;
    out.emplace_back("memory", withMemory(cluster, factor));
    const auto joins = [&](bool network) {
        return std::ranges::any_of(cluster.levels, [&](const LinkLevel& level) {
            return (level.domain_devices > cluster.devices_per_node) == network;
        });
    };
    if (joins(true)) {
        out.emplace_back("network", withLinks(cluster, true, factor));
        const auto nodes = static_cast<std::int64_t>(std::ceil(asDouble(cluster.nodes) * factor));
        out.emplace_back("nodes", withNodes(cluster, nodes));
    }
    if (joins(false) && cluster.devices_per_node > 1)
        out.emplace_back("node_links", withLinks(cluster, false, factor));
    return out;
}

}  // namespace

Result<Purchases> nextPurchases(const SearchSpace& space, double factor, const SearchRun& run) {
    if (!(factor > 1.0) || !std::isfinite(factor))
        return fail(ErrorCode::InvalidInput, "factor {} must be above 1", factor);
    Purchases out;
    PIPER_ASSIGN(out.now, bestPlan(space, run));
    const double now = out.now.best ? tokensPerSecond(*out.now.best) : 0.0;
    for (auto& [part, cluster] : enlarged(space.base.cluster, factor)) {
        Purchase purchase{part, factor, {}, 0.0, {}};
        SearchSpace changed = space;
        changed.top = 1;
        changed.base.cluster = std::move(cluster);
        if (part == "nodes") changed.max_world = 0;
        PIPER_ASSIGN(SearchResult found, searchPlans(changed, run.parallel_for, run.stop));
        if (!found.plans.empty()) {
            purchase.best = std::move(found.plans.front());
            purchase.tokens_per_second = tokensPerSecond(*purchase.best);
            if (now > 0.0) purchase.gain = purchase.tokens_per_second / now - 1.0;
        }
        out.parts.push_back(std::move(purchase));
    }
    std::ranges::stable_sort(out.parts, std::greater<>(), &Purchase::tokens_per_second);
    return out;
}

}  // namespace piper
