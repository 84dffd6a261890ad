// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"
#include "core/search/expert_placement.h"

namespace piper {
namespace {

Json layoutJson(const ExpertPlacement& p, std::size_t i) {
    Json out;
    if (p.layouts.size() > 1) out["layer"] = p.moe_layers[i].value;
    out["expert_ranks"] = Json::array();
    for (const std::vector<std::int64_t>& holders : p.layouts[i].ranks)
        out["expert_ranks"].push_back(holders);
    out["transfers"] = Json::array();
    for (const ExpertTransfer& t : p.transfers[i])
        out["transfers"].push_back({{"expert", t.expert}, {"from", t.from}, {"to", t.to}});
    return out;
}

}  // namespace

Json placementJson(const ExpertPlacement& p) {
    Json out;
    out["format_version"] = 1;
    out["imbalance"] = {{"before", p.imbalance_before}, {"after", p.imbalance_after}};
    out["step_seconds"] = {{"before", p.before.step.value},
                           {"after", (p.after.step + p.replicas.sync.time).value},
                           {"gain", p.gain().value}};
    out["mfu"] = {{"before", p.before.mfu}, {"after", p.after.mfu}};
    out["swaps"] = p.swaps;
    out["migration"] = {{"expert_bytes", p.migration.expert.value},
                        {"transfers", p.migration.transfers},
                        {"busiest_rank_bytes", p.migration.busiest.value},
                        {"total_bytes", p.migration.total.value},
                        {"seconds", p.migration.time.time.value},
                        {"evidence", toText(p.migration.time.evidence.kind)}};
    out["replicas"] = {{"memory_bytes", p.replicas.memory.value},
                       {"sync_bytes", p.replicas.sync_payload.value},
                       {"sync_seconds", p.replicas.sync.time.value}};
    const std::optional<double> steps = p.stepsToPay();
    out["pays_after_steps"] = steps ? Json(*steps) : Json();
    out["fits"] = p.fits;
    out["launchable"] = p.launchable;
    out["layouts"] = Json::array();
    for (std::size_t i = 0; i < p.layouts.size(); ++i) out["layouts"].push_back(layoutJson(p, i));
    return out;
}

}  // namespace piper
