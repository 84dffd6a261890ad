// SPDX-License-Identifier: Apache-2.0
#include "core/plan/rules.h"

#include <algorithm>

#include "core/plan/validated.h"

namespace piper {

std::vector<std::int64_t> legalNear(std::int64_t value, std::int64_t most,
                                    const std::function<bool(std::int64_t)>& legal,
                                    std::size_t count) {
    constexpr std::int64_t kFarthest = 1 << 16;
    std::vector<std::int64_t> found;
    const std::int64_t start = std::clamp<std::int64_t>(value, 1, std::max<std::int64_t>(1, most));
    if (start != value && start <= most && legal(start)) found.push_back(start);
    for (std::int64_t d = 1; d <= kFarthest && found.size() < count; ++d) {
        if (start - d < 1 && start + d > most) break;
        if (start - d >= 1 && legal(start - d)) found.push_back(start - d);
        if (found.size() < count && start + d <= most && start + d != value && legal(start + d))
            found.push_back(start + d);
    }
    std::sort(found.begin(), found.end());
    return found;
}

std::string listed(const std::vector<std::int64_t>& values) {
    return values.empty() ? "none" : fmt::format("{}", fmt::join(values, ", "));
}

std::vector<std::string> settings(std::string_view key, const std::vector<std::int64_t>& values) {
    std::vector<std::string> out;
    for (const std::int64_t value : values) out.push_back(fmt::format("{}={}", key, value));
    return out;
}

std::string slashed(const std::vector<std::int64_t>& values) {
    return fmt::format("{}", fmt::join(values, "/"));
}

bool degreeRules(const Plan& plan, Violations& out) {
    const Layout& l = plan.layout;
    bool sound = true;
    const auto positive = [&](std::string_view key, std::int64_t value) {
        if (value >= 1 && value <= (1 << 24)) return;
        sound = false;
        out.add("degree_at_least_1",
                fmt::format("{} {} must be between 1 and {}", key, value, 1 << 24),
                {fmt::format("{}=1", key)});
    };
    positive("tp", l.tp);
    positive("cp", l.cp);
    positive("pp", l.pp);
    positive("vpp", l.vpp);
    positive("ep", l.ep);
    positive("etp", l.etp);
    positive("dp", l.dp);
    positive("micro_batch_size", plan.micro_batch_size);
    positive("global_batch_size", plan.global_batch_size);
    if (plan.seq_len < 1) {
        sound = false;
        out.add("degree_at_least_1", fmt::format("seq_len {} must be at least 1", plan.seq_len));
    }
    return sound;
}

std::vector<Violation> brokenRules(const Plan& plan, const RuleScope& scope) {
    Violations out;
    if (!degreeRules(plan, out)) return out.take();
    gridRules(plan, scope, out);
    layerRules(plan, scope, out);
    expertRules(plan, scope, out);
    sizeRules(plan, scope, out);
    batchRules(plan, scope, out);
    scheduleRules(plan, scope, out);
    optionRules(plan, scope, out);
    dispatcherRules(plan, scope, out);
    compatibilityRules(plan, scope, out);
    ownWorkerRules(plan, scope, out);
    return out.take();
}

std::vector<Violation> validateModelAndCluster(const Plan& plan) {
    std::vector<Violation> violations;
    for (const Error& error : checkModel(plan.model))
        violations.push_back({"model", fmt::format("{}: {}", error.where, error.message), {}});
    for (const Error& error : checkCluster(plan.cluster))
        violations.push_back({"cluster", fmt::format("{}: {}", error.where, error.message), {}});
    return violations;
}

std::vector<Violation> validateChoices(const Plan& plan) {
    RuleScope scope;
    scope.world = plan.layout.world();
    scope.options.overlap_expert_comm = plan.overlap && plan.overlap->ep;
    if (plan.all_to_all.library == AllToAllLibrary::DeepEp) scope.options.dispatcher = "deepep";
    if (plan.all_to_all.library == AllToAllLibrary::HybridEp) scope.options.dispatcher = "hybridep";
    return brokenRules(plan, scope);
}

std::vector<Violation> validatePlan(const Plan& plan) {
    // The other rules count with the model's and the cluster's numbers.
    std::vector<Violation> faults = validateModelAndCluster(plan);
    return faults.empty() ? validateChoices(plan) : faults;
}

Status validated(const Plan& plan) {
    const std::vector<Violation> violations = validatePlan(plan);
    if (violations.empty()) return {};
    Error error;
    error.code = ErrorCode::RuleBroken;
    for (const Violation& violation : violations) {
        error.message += fmt::format("{}{}: {}", error.message.empty() ? "" : "; ", violation.rule,
                                     violation.message);
        for (const std::string& fix : violation.fix)
            error.hint += (error.hint.empty() ? "" : "; ") + fix;
    }
    error.context =
        fmt::format("{} rule{} broken", violations.size(), violations.size() == 1 ? "" : "s");
    return error;
}

}  // namespace piper
