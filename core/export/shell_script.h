// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/export/launch.h"
#include "core/export/settings_io.h"

// The bash scripts of the export: variables, option arrays, one launch line; not for other folders.
namespace piper {

struct ShellScript {
    std::string title;
    OptionSet options = OptionSet::MegatronArguments;
    Json residual;  ///< what no option says; left out when empty
    LaunchShape shape;
    std::vector<std::pair<std::string, std::string>> environment;
    Settings plan;        ///< from the plan
    Settings run;         ///< the user's own: data, learning rate, checkpoints
    std::string program;  ///< "pretrain_gpt.py"
};

[[nodiscard]] std::string writeShellScript(const ShellScript& script);

/// What a script says, as its own shell would see it.
struct ParsedScript {
    std::map<std::string, std::string> variables;
    Settings settings;  ///< of every *_ARGUMENTS array
    Json residual;      ///< null when the script has no piper-plan line
};

/// Errors: InvalidInput with the line for an unknown option (and the nearest), a value of the wrong
/// kind, an open quote or array, an unknown variable.
[[nodiscard]] Result<ParsedScript> parseShellScript(std::string_view text,
                                                    const OptionList& options,
                                                    std::string_view where);

/// "# piper-plan: {...}" with its newline; empty for an empty object.
[[nodiscard]] std::string residualLine(const Json& residual);
/// The object of that line; null without one.
[[nodiscard]] Result<Json> readResidualLine(std::string_view text, std::string_view where);
/// Nodes and ranks a node of NNODES and GPUS_PER_NODE.
[[nodiscard]] Result<LaunchShape> scriptShape(const ParsedScript& script, std::string_view where);

}  // namespace piper
