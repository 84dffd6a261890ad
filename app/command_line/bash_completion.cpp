// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/command_line/documentation.h"

namespace piper::app {
namespace {

/// `"piperctl check" | "piperctl predict"` as patterns of a case statement.
std::string patterns(const std::vector<std::string>& words) {
    return fmt::format("\"{}\"", fmt::join(words, "\" | \""));
}

std::string reply(const std::vector<std::string>& words) {
    return fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$current\"))", fmt::join(words, " "));
}

/// Follows the words before the cursor down to a command.
std::string findCommand(const CommandOutline& program) {
    std::vector<std::string> paths;
    for (const CommandOutline* command : allCommands(program))
        if (command != &program) paths.push_back(command->path);
    if (paths.empty()) return {};
    return fmt::format(
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        case \"$path ${{COMP_WORDS[i]}}\" in\n"
        "            {}) path+=\" ${{COMP_WORDS[i]}}\" ;;\n"
        "        esac\n"
        "    done\n",
        patterns(paths));
}

/// What follows an option that wants a value: its words, nothing for a number, else a file.
std::string values(const CommandOutline& program) {
    std::string out = "    case \"$path $previous\" in\n";
    for (const CommandOutline* command : allCommands(program)) {
        std::vector<std::string> numbers, files;
        for (const OptionOutline& option : command->options) {
            std::vector<std::string> after;
            for (const std::string& name : option.names)
                after.push_back(command->path + " " + name);
            if (option.kind == ValueKind::Choice)
                out += fmt::format("        {}) {}; return ;;\n", patterns(after),
                                   reply(option.choices));
            auto& list = option.kind == ValueKind::Number ? numbers : files;
            if (option.kind == ValueKind::Number || option.kind == ValueKind::File)
                list.insert(list.end(), after.begin(), after.end());
        }
        if (!numbers.empty())
            out += fmt::format("        {}) compopt +o default; return ;;\n", patterns(numbers));
        if (!files.empty()) out += fmt::format("        {}) return ;;\n", patterns(files));
    }
    return out + "    esac\n";
}

/// Options after a hyphen, else commands and the words an argument may be.
std::string words(const CommandOutline& program) {
    std::string out = "    case \"$path\" in\n";
    for (const CommandOutline* command : allCommands(program)) {
        std::vector<std::string> options, plain;
        for (const OptionOutline& option : command->options)
            options.insert(options.end(), option.names.begin(), option.names.end());
        for (const CommandOutline& below : command->commands) plain.push_back(below.name);
        for (const OptionOutline& argument : command->arguments)
            plain.insert(plain.end(), argument.choices.begin(), argument.choices.end());
        out += fmt::format(
            "        \"{}\")\n            options=\"{}\"\n            words=\"{}\" ;;\n",
            command->path, fmt::join(options, " "), fmt::join(plain, " "));
    }
    return out + "    esac\n";
}

}  // namespace

std::string bashCompletion(const CommandOutline& program) {
    const std::string function = completionFunction(program.name);
    return completionOrigin(program, "bash") + function +
           "() {\n"
           "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
           "    local path=" +
           program.name +
           " options= words= i\n"
           "    COMPREPLY=()\n"
           "    if [[ $current == = ]]; then  # --option=VALUE comes as three words\n"
           "        current=\n"
           "    elif [[ $previous == = ]]; then\n"
           "        previous=${COMP_WORDS[COMP_CWORD - 2]}\n"
           "    fi\n" +
           findCommand(program) + values(program) + words(program) +
           "    [[ $current != -* ]] || words=$options\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
           "}\n" +
           fmt::format("complete -o default -F {} {}\n", function, program.name);
}

}  // namespace piper::app
