// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"
#include "core/search/capacity.h"
#include "core/search/enumerate.h"

namespace piper {
namespace {

Json modelJson(const ModelSpec& model) {
    const ModelParameters parameters = modelParameters(model);
    return {{"name", model.name},
            {"num_layers", model.num_layers},
            {"hidden_size", model.hidden_size},
            {"num_experts", model.moe ? model.moe->num_experts : 0},
            {"parameters", parameters.total},
            {"active_parameters", parameters.active}};
}

Json planOrNull(const std::optional<RankedPlan>& plan) {
    return plan ? planSummaryJson(*plan) : Json();
}

}  // namespace

Json planSummaryJson(const RankedPlan& ranked) {
    const Layout& l = ranked.plan.layout;
    const Prediction& p = ranked.prediction;
    Json out = {
        {"name", layoutText(ranked.plan)},
        {"layout",
         {{"tp", l.tp},
          {"cp", l.cp},
          {"pp", l.pp},
          {"vpp", l.vpp},
          {"ep", l.ep},
          {"etp", l.etp},
          {"dp", l.dp}}},
        {"devices", l.world()},
        {"schedule", toText(ranked.plan.schedule)},
        {"micro_batch_size", ranked.plan.micro_batch_size},
        {"step_seconds", p.step.value},
        {"mfu", p.mfu},
        {"tokens_per_second", p.tokens_per_second_per_device * static_cast<double>(l.world())},
        {"device_bytes", p.memory.device_total.value},
        {"verdict", toText(p.memory.verdict)}};
    if (!p.bottleneck_sentence.empty()) out["bottleneck"] = p.bottleneck_sentence;
    return out;
}

Json shortfallJson(const Shortfall& s) {
    Json out = {{"layout", s.layout}, {"rule", s.rule}, {"message", s.message}};
    out["fix"] = Json::array();
    for (const FitChange& change : s.changes)
        out["fix"].push_back({{"kind", toText(change.kind)},
                              {"change", change.change},
                              {"settings", change.settings},
                              {"device_bytes", change.device_total.value},
                              {"devices", change.devices},
                              {"step_seconds", change.step.value}});
    return out;
}

Json largestModelJson(const LargestModel& answer) {
    return {{"family", toText(answer.by)},
            {"size", answer.size},
            {"next_size", answer.next_size},
            {"sizes_tried", answer.sizes_tried},
            {"model", modelJson(answer.model)},
            {"plan", planOrNull(answer.best)},
            {"stopped_by", shortfallJson(answer.stopped)}};
}

Json fewestDevicesJson(const FewestDevices& answer) {
    return {{"devices", answer.devices},
            {"nodes", answer.nodes},
            {"least_possible", answer.least_possible},
            {"counts_tried", answer.counts_tried},
            {"plan", planOrNull(answer.best)},
            {"stopped_devices", answer.stopped_devices > 0 ? Json(answer.stopped_devices) : Json()},
            {"stopped_by", shortfallJson(answer.stopped)}};
}

Json billJson(const TrainingBill& bill) {
    return {{"steps", bill.steps},
            {"days", bill.time.value / 86400.0},
            {"device_hours", bill.device_hours},
            {"price", bill.price > 0.0 ? Json(bill.price) : Json()}};
}

Json purchasesJson(const Purchases& answer) {
    Json out;
    out["now"] = planOrNull(answer.now.best);
    if (!answer.now.best) out["stopped_by"] = shortfallJson(answer.now.shortfall);
    out["parts"] = Json::array();
    for (const Purchase& part : answer.parts) {
        out["parts"].push_back({{"part", part.part},
                                {"factor", part.factor},
                                {"tokens_per_second", part.tokens_per_second},
                                {"gain", part.gain ? Json(*part.gain) : Json()},
                                {"plan", planOrNull(part.best)}});
        if (part.nodes > 0) out["parts"].back()["nodes"] = part.nodes;
    }
    return out;
}

}  // namespace piper
