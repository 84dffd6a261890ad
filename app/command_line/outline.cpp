// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/outline.h"

#include <CLI/CLI.hpp>

#include <string_view>

namespace piper::app {
namespace {

/// "a", "b" of "TEXT:{a,b}".
std::vector<std::string> choicesOf(std::string_view type) {
    const std::size_t open = type.find('{'), close = type.rfind('}');
    if (open == std::string_view::npos || close == std::string_view::npos) return {};
    return CLI::detail::split(std::string(type.substr(open + 1, close - open - 1)), ',');
}

ValueKind kindOf(const CLI::Option& option) {
    const std::string type = option.get_type_name();
    if (option.get_items_expected_max() == 0) return ValueKind::None;  // a flag
    if (!choicesOf(type).empty()) return ValueKind::Choice;
    for (const char* number : {"INT", "UINT", "FLOAT"})
        if (type.starts_with(number)) return ValueKind::Number;
    return ValueKind::File;
}

OptionOutline outlineOf(const CLI::Option& option) {
    OptionOutline out;
    for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
    if (out.names.empty()) out.label = option.get_name(true);
    out.value = CLI::detail::trim_copy(CLI::Formatter().make_option_opts(&option));
    out.kind = kindOf(option);
    out.choices = choicesOf(option.get_type_name());
    out.description = option.get_description();
    out.required = option.get_required();
    out.repeated = option.get_items_expected_max() > 1;
    return out;
}

CommandOutline outlineOf(const CLI::App& app, const std::string& parent) {
    CommandOutline out;
    out.name = app.get_name();
    out.path = parent.empty() ? out.name : parent + " " + out.name;
    out.description = app.get_description();
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_group().empty()) continue;  // hidden
        auto& list = option->nonpositional() ? out.options : out.arguments;
        list.push_back(outlineOf(*option));
    }
    const auto shown = [](const CLI::App* one) { return !one->get_group().empty(); };
    for (const CLI::App* command : app.get_subcommands(shown))
        out.commands.push_back(outlineOf(*command, out.path));
    return out;
}

}  // namespace

CommandOutline outlineOf(const CLI::App& root) {
    return outlineOf(root, {});
}

std::vector<const CommandOutline*> allCommands(const CommandOutline& root) {
    std::vector<const CommandOutline*> out{&root};
    for (const CommandOutline& command : root.commands) {
        const std::vector<const CommandOutline*> below = allCommands(command);
        out.insert(out.end(), below.begin(), below.end());
    }
    return out;
}

std::string usageOf(const CommandOutline& command) {
    std::string out = command.path + " [OPTIONS]";
    for (const OptionOutline& argument : command.arguments) {
        const std::string shown = argument.label + (argument.repeated ? "..." : "");
        out += argument.required ? " " + shown : " [" + shown + "]";
    }
    return command.commands.empty() ? out : out + " COMMAND ...";
}

}  // namespace piper::app
