// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace piper::app {

/// What follows an option, as a shell completes it.
enum class ValueKind { None, Number, Choice, File };

/// An option, or an argument that stands for itself (no names).
struct OptionOutline {
    std::vector<std::string> names;  ///< "-o", "--output"
    std::string label;               ///< "plan" of an argument
    std::string value;               ///< as --help prints it: "TEXT=cpu", "{a,b} REQUIRED"
    ValueKind kind = ValueKind::None;
    std::vector<std::string> choices;
    std::string description;
    bool required = false;
    bool repeated = false;
};

/// A program or one of its commands.
struct CommandOutline {
    std::string name, path;  ///< "predict", "piperctl predict"
    std::string description;
    std::vector<OptionOutline> arguments, options;
    std::vector<CommandOutline> commands;
};

/// All that --help shows of the program and of its commands.
[[nodiscard]] CommandOutline outlineOf(const CLI::App& root);

/// The program, then its commands, depth first.
[[nodiscard]] std::vector<const CommandOutline*> allCommands(const CommandOutline& root);

/// "piperctl predict [OPTIONS] [plan]"
[[nodiscard]] std::string usageOf(const CommandOutline& command);

}  // namespace piper::app
