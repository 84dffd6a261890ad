// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"
#include "core/search/enumerate.h"
#include "core/search/search.h"

namespace piper {
namespace {

Json planJson(std::size_t rank, const RankedPlan& ranked) {
    const Layout& l = ranked.plan.layout;
    Json out;
    out["rank"] = rank;
    out["name"] = layoutText(ranked.plan);
    out["layout"] = {{"tp", l.tp},   {"sp", l.sp}, {"cp", l.cp},   {"pp", l.pp},
                     {"vpp", l.vpp}, {"ep", l.ep}, {"etp", l.etp}, {"dp", l.dp}};
    out["schedule"] = toText(ranked.plan.schedule);
    out["micro_batch_size"] = ranked.plan.micro_batch_size;
    out["num_microbatches"] = ranked.plan.numMicroBatches();
    out["zero_stage"] = ranked.plan.zero_stage;
    out["offload_optimizer"] = ranked.plan.offload.optimizer;
    out["chunks"] = ranked.plan.all_to_all.chunks;
    out["rank_order"] = ranked.plan.rank_order;
    out["recompute"] = ranked.plan.recompute.granularity == RecomputeGranularity::None ? "none"
                       : ranked.plan.recompute.granularity == RecomputeGranularity::Full
                           ? "full"
                           : "selective";
    out["prediction"] = predictionJson(ranked.plan, ranked.prediction);
    return out;
}

}  // namespace

Json searchJson(const SearchResult& result) {
    Json out;
    out["format_version"] = 1;
    out["plans"] = Json::array();
    for (std::size_t i = 0; i < result.plans.size(); ++i)
        out["plans"].push_back(planJson(i + 1, result.plans[i]));
    out["pareto"] = Json::array();
    for (const ParetoPlan& p : result.pareto)
        out["pareto"].push_back({{"name", layoutText(p.plan)},
                                 {"devices", p.plan.layout.world()},
                                 {"step_seconds", p.step.value},
                                 {"memory_bytes", p.device_total.value}});
    out["evaluated"] = result.evaluated;
    out["feasible"] = result.feasible;
    out["seconds"] = result.seconds;
    out["rejections"] = Json::array();
    for (const Rejection& r : result.rejections)
        out["rejections"].push_back(
            {{"layout", r.layout}, {"rule", r.rule}, {"message", r.message}});
    return out;
}

}  // namespace piper
