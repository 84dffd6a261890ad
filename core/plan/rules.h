// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/plan/row_alignment.h"

// The rules behind validatePlan and checkJson; not for other folders.
namespace piper {

/// What is known besides the plan: a bare layout has no model, batch or cluster to hold it against.
struct RuleScope {
    std::int64_t world = 0;  ///< ranks given; layout.dp may be the floor of a division
    std::string etp_origin;  ///< shown when etp takes part in a broken rule
    bool num_layers = true;
    bool moe = true;    ///< num_experts is known, or the model is known to be dense
    bool sizes = true;  ///< heads and widths are known
    bool micro_batch = true;
    bool global_batch = true;
    bool seq_len = true;
    bool cluster = true;
    std::string dispatcher;  ///< "" when not given
    std::optional<std::int64_t> distributed_optimizer_instances;
    std::optional<std::int64_t> group_rows;
};

class Violations {
public:
    void add(std::string rule, std::string message, std::vector<std::string> fix = {}) {
        m_list.push_back({std::move(rule), std::move(message), std::move(fix)});
    }
    [[nodiscard]] std::vector<Violation> take() { return std::move(m_list); }

private:
    std::vector<Violation> m_list;
};

/// Up to `count` values of [1, most] nearest to `value` (without it) that `legal` accepts, sorted.
[[nodiscard]] std::vector<std::int64_t> legalNear(std::int64_t value, std::int64_t most,
                                                  const std::function<bool(std::int64_t)>& legal,
                                                  std::size_t count = 3);
/// "12, 15, 20"; "none" when empty.
[[nodiscard]] std::string listed(const std::vector<std::int64_t>& values);
/// "key=12" for each.
[[nodiscard]] std::vector<std::string> settings(std::string_view key,
                                                const std::vector<std::int64_t>& values);
/// "8/7/7/8".
[[nodiscard]] std::string slashed(const std::vector<std::int64_t>& values);

/// What a Megatron-LM token dispatcher can do; null when there is none of that name.
struct DispatcherRow {
    std::string_view name;
    std::int64_t most_ranks;  ///< of its group, 0 without limit
    bool capacity;            ///< works with a capacity factor
    std::string_view source;
};
[[nodiscard]] const DispatcherRow* findDispatcher(std::string_view name);
[[nodiscard]] std::vector<std::string_view> dispatcherNames();

/// False when a degree is below 1, so that nothing else can be computed.
[[nodiscard]] bool degreeRules(const Plan& plan, Violations& out);
void gridRules(const Plan& plan, const RuleScope& scope, Violations& out);
void layerRules(const Plan& plan, const RuleScope& scope, Violations& out);
void expertRules(const Plan& plan, const RuleScope& scope, Violations& out);
void sizeRules(const Plan& plan, const RuleScope& scope, Violations& out);
void batchRules(const Plan& plan, const RuleScope& scope, Violations& out);
void scheduleRules(const Plan& plan, const RuleScope& scope, Violations& out);
void optionRules(const Plan& plan, const RuleScope& scope, Violations& out);

[[nodiscard]] std::vector<Violation> brokenRules(const Plan& plan, const RuleScope& scope);

}  // namespace piper
