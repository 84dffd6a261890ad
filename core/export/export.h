// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/enum_text.h"
#include "core/base/result.h"
#include "core/plan/plan.h"

namespace piper {

enum class ExportTarget { Megatron, MegatronYaml, DeepSpeed, XMoe, Torchtitan, Slurm };

template <>
[[nodiscard]] std::span<const EnumName<ExportTarget>> enumNames<ExportTarget>();

struct ExportedFile {
    std::string name;  ///< relative, no directory parts
    std::string content;
    bool executable = false;
};

struct Export {
    std::vector<ExportedFile> files;
    std::vector<std::string> not_expressed;  ///< parts of the plan this framework has no option for
};

/// Files the framework itself accepts; every flag and key is one of its option list.
/// Errors: RuleBroken when the framework cannot launch the plan at all, with every reason.
[[nodiscard]] Result<Export> exportPlan(const Plan& plan, ExportTarget target);

/// Reads an exported file back into a plan: what the framework's options say is taken from the
/// file, what they cannot say (cluster, measured curves) from `base`.
/// Errors: InvalidInput names an option the framework does not know and the nearest it does.
[[nodiscard]] Result<Plan> importPlan(ExportTarget target, const std::vector<ExportedFile>& files,
                                      const Plan& base);

/// Every flag and key of exported files stands in its framework's own option list.
/// Errors: InvalidInput names the first that does not, its place and the nearest known one.
[[nodiscard]] Status checkOptions(const std::vector<ExportedFile>& files);

/// Where a target's option list comes from (core/export/options holds the lists).
struct OptionSource {
    std::string name, repository, commit, files;
    std::size_t options = 0;
};
[[nodiscard]] OptionSource optionSource(ExportTarget target);

}  // namespace piper
