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

/// Options of a framework that the plan has no field for; what is not given is not judged.
struct FrameworkOptions {
    std::string dispatcher;      ///< "" when not given
    std::string load_balancing;  ///< moe_router_load_balancing_type
    bool pad_to_capacity = false;
    bool shared_expert_overlap = false;
    bool overlap_expert_comm = false;  ///< Megatron-LM overlap_moe_expert_parallel_comm
    bool mtp_is_zero = false;          ///< mtp_num_layers handed over as 0 instead of none
    std::optional<std::int64_t> device_max_connections;  ///< CUDA_DEVICE_MAX_CONNECTIONS
    std::optional<std::int64_t> distributed_optimizer_instances;
    std::optional<std::int64_t> group_rows;
    std::optional<std::int64_t> experts_per_rank, ranks_per_domain;  ///< HybridEP's own numbers
    std::optional<std::int64_t> ep_size;                             ///< DeepSpeed MoE(ep_size=)
    std::optional<std::int64_t> validation_global_batch_size, validation_micro_batch_size;
    std::vector<std::int64_t> micro_batch_sizes;  ///< elastic: those the user allows
};

/// What is known besides the plan: a bare layout has no model, batch or cluster to hold it against.
struct RuleScope {
    std::int64_t world = 0;  ///< ranks given; layout.dp may be the floor of a division
    std::string etp_origin;  ///< shown when etp takes part in a broken rule
    bool num_layers = true;
    bool split_judged = false;  ///< how layers are split was found wrong already
    bool moe = true;            ///< num_experts is known, or the model is known to be dense
    /// Sizes of the model that are known, each by itself.
    bool heads = true, kv_heads = true, dense_width = true, expert_width = true,
         shared_width = true, vocab = true, hidden = true, top_k = true, groups = true;
    bool micro_batch = true;
    bool global_batch = true;
    bool seq_len = true;
    bool cluster = true;
    FrameworkOptions options;
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

/// What a token dispatcher can do; null when there is none of that name.
struct DispatcherRow {
    std::string_view name;
    std::int64_t most_ranks;  ///< of its group, 0 without limit
    bool capacity;            ///< works with a capacity factor
    bool overlap;             ///< its exchange can run beside other micro-batches' compute
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
void dispatcherRules(const Plan& plan, const RuleScope& scope, Violations& out);
/// Options that exclude each other under one framework.
void compatibilityRules(const Plan& plan, const RuleScope& scope, Violations& out);
/// What our own worker does not run, on a cluster of CPUs.
void ownWorkerRules(const Plan& plan, const RuleScope& scope, Violations& out);
/// What the framework does without a word and no rule forbids.
void silentChoices(const Plan& plan, const RuleScope& scope, Violations& out);

[[nodiscard]] std::vector<Violation> brokenRules(const Plan& plan, const RuleScope& scope);

}  // namespace piper
