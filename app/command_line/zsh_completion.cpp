// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/command_line/documentation.h"

namespace piper::app {
namespace {

std::string zshQuoted(std::string_view text) {
    return singleQuoted(text, "'\\''");
}

/// Brackets and colons end a part of a specification of _arguments unless escaped.
std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
        out += c;
    }
    return out;
}

/// ":value:ACTION" of what follows an option or stands for itself.
std::string action(const OptionOutline& option) {
    switch (option.kind) {
        case ValueKind::None:
            return {};
        case ValueKind::Number:
            return ": ";
        case ValueKind::Choice:
            return fmt::format(":({})", fmt::join(option.choices, " "));
        case ValueKind::File:
            return ":_files";
    }
    return {};
}

std::string optionSpec(const OptionOutline& option) {
    const std::string text =
        zshQuoted("[" + escaped(option.description) + "]" +
                  (option.kind == ValueKind::None ? "" : ":value" + action(option)));
    const bool valued = option.kind != ValueKind::None;
    std::vector<std::string> names;
    for (const std::string& name : option.names) {
        const bool is_long = name.starts_with("--");
        names.push_back((option.repeated ? "\\*" : "") + name +
                        (!valued   ? ""
                         : is_long ? "="
                                   : "+"));
    }
    if (names.size() == 1) return names.front() + text;
    const std::string once =
        option.repeated ? "" : zshQuoted(fmt::format("({})", fmt::join(option.names, " ")));
    return fmt::format("{}{{{}}}{}", once, fmt::join(names, ","), text);
}

std::string argumentSpec(const OptionOutline& argument) {
    const char* prefix = argument.repeated ? "*:" : argument.required ? ":" : "::";
    return zshQuoted(prefix + escaped(argument.label) + action(argument));
}

std::string commandFunction(const CommandOutline& command) {
    std::vector<std::string> specs;
    for (const OptionOutline& option : command.options) specs.push_back(optionSpec(option));
    for (const OptionOutline& argument : command.arguments) specs.push_back(argumentSpec(argument));
    std::string head, tail;
    if (!command.commands.empty()) {
        head =
            "    local curcontext=\"$curcontext\" state\n    local -a line commands\n    "
            "commands=(\n";
        tail = "    [[ $state == argument ]] || return 0\n    case $line[1] in\n";
        for (const CommandOutline& below : command.commands) {
            head += fmt::format("        {}\n", zshQuoted(below.name + ":" + below.description));
            tail += fmt::format("        {}) {} ;;\n", below.name, completionFunction(below.path));
        }
        head += "    )\n";
        tail += "    esac\n";
        specs.emplace_back("'1: :{_describe command commands}'");
        specs.emplace_back("'*:: :->argument'");
    }
    return fmt::format("{}() {{\n{}    _arguments -C \\\n        {}\n{}}}\n\n",
                       completionFunction(command.path), head, fmt::join(specs, " \\\n        "),
                       tail);
}

}  // namespace

std::string zshCompletion(const CommandOutline& program) {
    const std::string function = completionFunction(program.name);
    std::string out = fmt::format("#compdef {}\n", program.name) + completionOrigin(program, "zsh");
    for (const CommandOutline* command : allCommands(program)) out += commandFunction(*command);
    return out + fmt::format(
                     "if [[ $funcstack[1] == _{0} ]]; then\n    {1} \"$@\"\nelse\n    compdef {1} "
                     "{0}\nfi\n",
                     program.name, function);
}

}  // namespace piper::app
