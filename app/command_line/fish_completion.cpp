// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/command_line/documentation.h"

namespace piper::app {
namespace {

std::string fishQuoted(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '\\') escaped += '\\';
        escaped += c;
    }
    return singleQuoted(escaped, "\\'");
}

/// A function that says which command the words before the cursor lead to.
std::string pathFunction(const CommandOutline& program, const std::string& function) {
    std::vector<std::string> paths;
    for (const CommandOutline* command : allCommands(program))
        if (command != &program) paths.push_back(fishQuoted(command->path));
    if (paths.empty()) paths.emplace_back("''");
    return fmt::format(
        "function {0}\n"
        "    set -l path {1}\n"
        "    for word in (commandline -opc)[2..-1]\n"
        "        switch \"$path $word\"\n"
        "            case {2}\n"
        "                set path \"$path $word\"\n"
        "        end\n"
        "    end\n"
        "    test \"$path\" = \"$argv\"\n"
        "end\n",
        function, program.name, fmt::join(paths, " "));
}

std::string optionLine(const std::string& begin, const OptionOutline& option) {
    std::string out = begin;
    for (const std::string& name : option.names)
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (option.kind == ValueKind::File) out += " -r -F";
    if (option.kind == ValueKind::Number) out += " -x";
    if (option.kind == ValueKind::Choice)
        out +=
            fmt::format(" -x -a {}", fishQuoted(fmt::format("{}", fmt::join(option.choices, " "))));
    return out + " -d " + fishQuoted(option.description) + "\n";
}

std::string commandLines(const CommandOutline& program, const CommandOutline& command,
                         const std::string& function) {
    const std::string begin = fmt::format("complete -c {} -n {}", program.name,
                                          fishQuoted(function + " " + command.path));
    std::string out;
    bool files = false;
    for (const OptionOutline& argument : command.arguments) {
        files = files || argument.kind == ValueKind::File;
        if (!argument.choices.empty())
            out += fmt::format("{} -a {} -d {}\n", begin,
                               fishQuoted(fmt::format("{}", fmt::join(argument.choices, " "))),
                               fishQuoted(argument.label));
    }
    if (!files) out += begin + " -f\n";
    for (const CommandOutline& below : command.commands)
        out += fmt::format("{} -a {} -d {}\n", begin, below.name, fishQuoted(below.description));
    for (const OptionOutline& option : command.options) out += optionLine(begin, option);
    return out;
}

}  // namespace

std::string fishCompletion(const CommandOutline& program) {
    const std::string function = "_" + completionFunction(program.name) + "_at";
    std::string out = completionOrigin(program, "fish") + pathFunction(program, function);
    for (const CommandOutline* command : allCommands(program))
        out += commandLines(program, *command, function);
    return out;
}

}  // namespace piper::app
