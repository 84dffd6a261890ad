// SPDX-License-Identifier: Apache-2.0
#include <cctype>

#include "app/command_line/command_line.h"
#include "app/command_line/documentation.h"

namespace piper::app {
namespace {

constexpr const char* kPrograms[] = {"piper-workbench", "piperctl", "piper-worker",
                                     "piper-alltoall"};

/// Text in which troff finds no request and no escape of its own; hyphens can be copied.
std::string troff(std::string_view text) {
    std::string out;
    if (text.starts_with('.') || text.starts_with('\'')) out += "\\&";
    for (const char c : text) {
        if (c == '\\')
            out += "\\e";
        else if (c == '-')
            out += "\\-";
        else
            out += c;
    }
    return out;
}

std::string bold(std::string_view text) {
    return "\\fB" + troff(text) + "\\fR";
}

std::string upperCase(std::string text) {
    for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
}

std::string listItem(const OptionOutline& option) {
    std::string head;
    for (const std::string& name : option.names) head += (head.empty() ? "" : ", ") + bold(name);
    if (option.names.empty()) head = "\\fI" + troff(option.label) + "\\fR";
    if (!option.value.empty()) head += " " + troff(option.value);
    return ".TP\n" + head + "\n" +
           (option.description.empty() ? "\\&" : troff(option.description)) + "\n";
}

std::string listItems(const CommandOutline& command) {
    std::string out;
    for (const OptionOutline& argument : command.arguments) out += listItem(argument);
    for (const OptionOutline& option : command.options) out += listItem(option);
    return out;
}

std::string commandSections(const CommandOutline& program) {
    std::string out;
    for (const CommandOutline* command : allCommands(program)) {
        if (command == &program) continue;
        out += fmt::format(".SS {}\n{}\n", troff(usageOf(*command)), troff(command->description));
        out += listItems(*command);
    }
    return out.empty() ? out : ".SH COMMANDS\n" + out;
}

std::string lastSections(const CommandOutline& program) {
    std::string out = ".SH EXIT STATUS\n";
    for (const ExitStatusText& row : exitStatusTexts())
        out += fmt::format(".TP\n{}\n{}\n", bold(std::to_string(row.status)), troff(row.meaning));
    out += ".SH SEE ALSO\n";
    std::string separator;
    for (const char* name : kPrograms) {
        if (name == program.name) continue;
        out += separator + bold(name) + "(1)";
        separator = ",\n";
    }
    return out + "\n";
}

}  // namespace

std::string manualPage(const CommandOutline& program) {
    std::string summary = program.description;
    if (!summary.empty())
        summary[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(summary[0])));
    while (summary.ends_with('.')) summary.pop_back();
    return fmt::format(
               ".\\\" Made by {0} --print-documentation man\n"
               ".TH {1} 1 \"\" \"Piper Workbench {2}\" \"User Commands\"\n"
               ".SH NAME\n{3} \\- {4}\n.SH SYNOPSIS\n{5}\n.SH DESCRIPTION\n{6}\n.SH OPTIONS\n",
               program.name, troff(upperCase(program.name)), programVersion(), troff(program.name),
               troff(summary), bold(usageOf(program)), troff(program.description)) +
           listItems(program) + commandSections(program) + lastSections(program);
}

}  // namespace piper::app
