// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/command_line.h"

#include <algorithm>
#include <string_view>

#include "app/command_line/documentation.h"

namespace piper::app {
namespace {

/// Ends the parse with a text on standard output, as --version does.
[[noreturn]] void printAndEnd(const std::string& text) {
    throw CLI::CallForVersion(text, 0);
}

std::string exitStatusFooter() {
    std::string out = "Exit status: ";
    std::string_view separator;
    for (const ExitStatusText& row : exitStatusTexts()) {
        out += fmt::format("{}{} {}", separator, row.status, row.meaning);
        separator = "; ";
    }
    return out;
}

}  // namespace

std::string programVersion() {
    return PIPER_VERSION;
}

CLI::Validator oneOf(std::vector<std::string> words) {
    std::string description;
    for (const std::string& word : words) description += (description.empty() ? "{" : ",") + word;
    const auto check = [words = std::move(words)](const std::string& given) -> std::string {
        const std::vector<std::string_view> known(words.begin(), words.end());
        if (std::ranges::find(known, given) != known.end()) return {};
        return fmt::format("unknown '{}'; nearest known: '{}' (legal values: {})", given,
                           nearestWord(given, known), joinWords(known));
    };
    return CLI::Validator(check, description + "}");
}

namespace {

CLI::Validator numberThat(bool (*holds)(double), const char* rule, const char* description) {
    const auto check = [holds, rule](const std::string& given) -> std::string {
        double value = 0;
        if (CLI::detail::lexical_cast(given, value) && holds(value)) return {};
        return fmt::format("'{}' must be {}", given, rule);
    };
    return CLI::Validator(check, description);
}

}  // namespace

CLI::Validator aboveZero() {
    return numberThat([](double v) { return v > 0; }, "a number above 0", "POSITIVE");
}

CLI::Validator fromZero() {
    return numberThat([](double v) { return v >= 0; }, "a number, 0 or more", "NONNEGATIVE");
}

void completeCommandLine(CLI::App& root) {
    root.set_version_flag("--version", root.get_name() + " " + programVersion(),
                          "Print the version and exit");
    root.footer(exitStatusFooter());
    root.add_option_function<std::string>(
            "--print-documentation",
            [&root](const std::string& format) {
                printAndEnd(*printDocumentation(outlineOf(root), format));
            },
            "Print the manual page, or the completion of a shell")
        ->check(oneOf(documentationFormats()))
        ->group("");
}

std::optional<int> readCommandLine(CLI::App& root, int argc, const char* const* argv) {
    try {
        root.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        // --help ends with 0, anything else is unusable input.
        return root.exit(error) == 0 ? 0 : 2;
    }
    return std::nullopt;
}

}  // namespace piper::app
