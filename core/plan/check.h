// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/json_fwd.h"
#include "core/plan/plan.h"

namespace piper {

/// A layout to be checked without a whole plan: what is not given is not checked.
struct CheckRequest {
    std::optional<ModelSpec> model;
    Framework framework = Framework::Plain;
    std::string layout;      ///< "tp=8 pp=8 ep=8 etp=1"
    std::int64_t world = 0;  ///< 0: the smallest world of these degrees
    std::int64_t devices_per_node = 8;
    /// "KEY=VALUE" over model and defaults: num_layers, num_experts, router_topk, num_heads,
    /// num_kv_heads, mtp_num_layers, seq_len, micro_batch_size, global_batch_size, schedule,
    /// precision, dispatcher, capacity_factor, layout_string, stage_layers ("8/7/7/8"), rank_order,
    /// zero_stage, chunks, node_limit, num_distributed_optimizer_instances, group_rows, device.
    std::vector<std::string> settings;
};

/// The document of `piperctl check --json`: ok, violations[{rule, message, fix[]}], warnings[],
/// effective{key: value}, origins{key: where it came from}, grids{dense, expert}, minimum_world,
/// stages[] where the layers are known.
/// Errors: InvalidInput for a layout, key or value that cannot be read; a broken rule is no error.
[[nodiscard]] Result<Json> checkJson(const CheckRequest& request);
/// The same of a whole plan.
[[nodiscard]] Json checkJson(const Plan& plan);

/// Keys `settings` takes.
[[nodiscard]] std::vector<std::string_view> checkSettingKeys();

}  // namespace piper
