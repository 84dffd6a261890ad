// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/plan_choices.h"

#include <algorithm>
#include <array>

#include "core/plan/pipeline_shape.h"
#include "core/schedule/schedule.h"
#include "core/search/choices.h"

namespace piper::ui {
namespace {

constexpr std::array<ChoiceInfo, kNumChoices> kChoices = {{
    {Choice::Schedule, "schedule", "Schedule",
     "Order of forward and backward passes on a stage; it brings the chunks a stage it needs."},
    {Choice::Recompute, "recompute", "Recompute",
     "What the backward pass computes again instead of keeping: nothing, what costs little "
     "(activations, norms), or whole layers."},
    {Choice::ZeroStage, "zero_stage", "ZeRO",
     "What replicas share out among themselves: nothing (0), optimizer state (1), gradients too "
     "(2), weights too (3)."},
    {Choice::RoutingSkew, "routing_load", "Routing",
     "How unevenly tokens choose experts: the share of the r-th expert falls as 1 / r^s."},
}};

constexpr std::array<double, 7> kSkews = {0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5};

void setSchedule(Plan& plan, ScheduleKind kind) {
    plan.schedule = kind;
    plan.stage_layers.clear();
    Layout& l = plan.layout;
    if (placementOf(kind) == ChunkPlacement::V) {
        l.vpp = 2;
    } else if (kind != ScheduleKind::InterleavedOneF1B) {
        l.vpp = 1;
    } else if (l.vpp < 2) {
        const std::int64_t layers = plan.model.num_layers / l.pp;
        l.vpp = 2;
        while (l.vpp < layers && layers % l.vpp != 0) ++l.vpp;
    }
}

Recompute recomputeOf(const Plan& plan, std::size_t option) {
    if (option == 0) return {};
    if (option == 1) return selectiveRecompute(plan);
    Recompute full;
    full.granularity = RecomputeGranularity::Full;
    return full;
}

RoutingLoad loadOf(std::size_t option) {
    RoutingLoad out;
    if (kSkews[option] > 0.0) {
        out.kind = RoutingLoadKind::Zipf;
        out.zipf_exponent = kSkews[option];
    }
    return out;
}

std::size_t numListed(Choice choice) {
    switch (choice) {
        case Choice::Schedule:
            return generatedSchedules().size();
        case Choice::Recompute:
            return 3;
        case Choice::ZeroStage:
            return 4;
        case Choice::RoutingSkew:
            return kSkews.size();
    }
    return 0;
}

std::string labelOf(Choice choice, std::size_t option) {
    constexpr std::array<const char*, 3> kRecompute = {"none", "selective", "full"};
    switch (choice) {
        case Choice::Schedule:
            return std::string(toText(generatedSchedules()[option]));
        case Choice::Recompute:
            return kRecompute[option];
        case Choice::ZeroStage:
            return fmt::format("stage {}", option);
        case Choice::RoutingSkew:
            return option == 0 ? "uniform" : fmt::format("Zipf {}", kSkews[option]);
    }
    return {};
}

bool isCurrent(const Plan& plan, Choice choice, std::size_t option) {
    switch (choice) {
        case Choice::Schedule:
            return plan.schedule == generatedSchedules()[option];
        case Choice::Recompute:
            return plan.recompute == recomputeOf(plan, option);
        case Choice::ZeroStage:
            return plan.zero_stage == static_cast<int>(option);
        case Choice::RoutingSkew:
            return plan.routing_load == loadOf(option);
    }
    return false;
}

std::string ownLabel(const Plan& plan, Choice choice) {
    if (choice == Choice::Recompute)
        return fmt::format("{}, own", toText(plan.recompute.granularity));
    return plan.routing_load.kind == RoutingLoadKind::Histogram
               ? "recorded"
               : fmt::format("Zipf {}", plan.routing_load.zipf_exponent);
}

}  // namespace

std::span<const ChoiceInfo> choiceTable() {
    return kChoices;
}

Plan withChoice(const Plan& plan, Choice choice, std::size_t option) {
    Plan out = plan;
    if (option >= numListed(choice)) return out;
    switch (choice) {
        case Choice::Schedule:
            setSchedule(out, generatedSchedules()[option]);
            break;
        case Choice::Recompute:
            out.recompute = recomputeOf(plan, option);
            break;
        case Choice::ZeroStage:
            out.zero_stage = static_cast<int>(option);
            break;
        case Choice::RoutingSkew:
            out.routing_load = loadOf(option);
            break;
    }
    return out;
}

std::vector<ChoiceOption> choiceOptions(const Plan& plan, Choice choice) {
    std::vector<ChoiceOption> out;
    Plan base = plan;
    base.cluster.curves = {};  // rules do not look at them
    for (std::size_t i = 0; i < numListed(choice); ++i) {
        ChoiceOption option{labelOf(choice, i), {}, isCurrent(plan, choice, i)};
        const std::vector<Violation> broken = validatePlan(withChoice(base, choice, i));
        if (!broken.empty()) option.reason = broken.front().message;
        out.push_back(std::move(option));
    }
    if (std::ranges::none_of(out, &ChoiceOption::current))
        out.push_back({ownLabel(plan, choice), {}, true});
    return out;
}

}  // namespace piper::ui
