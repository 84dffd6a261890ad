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
    /// "KEY=VALUE" over model and defaults; the keys are checkSettingKeys(), and the frameworks'
    /// own names of them are understood (num_query_groups, moe_token_dispatcher_type, ...). A
    /// degree may stand here too.
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
