// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/documentation.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace piper::app {
namespace {

struct Format {
    const char* name;
    std::string (*print)(const CommandOutline&);
};
constexpr Format kFormats[] = {{"man", manualPage},
                               {"bash", bashCompletion},
                               {"zsh", zshCompletion},
                               {"fish", fishCompletion}};

}  // namespace

std::span<const ExitStatusText> exitStatusTexts() {
    static constexpr std::array<ExitStatusText, 5> kTexts{{
        {0, "done"},
        {1, "a negative answer (a broken rule, a plan that does not fit, a damaged file)"},
        {2, "unusable input"},
        {3, "an outside failure (host, device, disk, a dead worker, a NaN)"},
        {130, "stopped by Ctrl-C"},
    }};
    return kTexts;
}

std::vector<std::string> documentationFormats() {
    std::vector<std::string> out;
    for (const Format& format : kFormats) out.emplace_back(format.name);
    return out;
}

Result<std::string> printDocumentation(const CommandOutline& program, std::string_view format) {
    for (const Format& row : kFormats)
        if (row.name == format) return row.print(program);
    return fail(ErrorCode::InvalidInput, "no documentation in the format '{}'", format);
}

std::string completionFunction(std::string_view path) {
    std::string out = "_" + std::string(path);
    std::ranges::replace_if(
        out, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return out;
}

std::string completionOrigin(const CommandOutline& program, std::string_view shell) {
    return fmt::format("# {} completion of {}, made by {} --print-documentation {}\n", shell,
                       program.name, program.name, shell);
}

std::string singleQuoted(std::string_view text, std::string_view replacement) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'')
            out += replacement;
        else
            out += c;
    }
    return out + "'";
}

}  // namespace piper::app
