// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/command_line/outline.h"
#include "core/base/result.h"

namespace piper::app {

/// The exit statuses that all programs share (docs/commands.md).
struct ExitStatusText {
    int status;
    std::string_view meaning;
};
[[nodiscard]] std::span<const ExitStatusText> exitStatusTexts();

/// A page of section 1 for man.
[[nodiscard]] std::string manualPage(const CommandOutline& program);
/// Scripts that complete commands, options, their values and files.
[[nodiscard]] std::string bashCompletion(const CommandOutline& program);
[[nodiscard]] std::string zshCompletion(const CommandOutline& program);
[[nodiscard]] std::string fishCompletion(const CommandOutline& program);

/// "man", "bash", "zsh", "fish"
[[nodiscard]] std::vector<std::string> documentationFormats();
/// Errors: InvalidInput for a format that is none of documentationFormats.
[[nodiscard]] Result<std::string> printDocumentation(const CommandOutline& program,
                                                     std::string_view format);

/// "_piper_worker": the name of a program's completion function in bash and zsh.
[[nodiscard]] std::string completionFunction(std::string_view path);
/// The first line of a completion script.
[[nodiscard]] std::string completionOrigin(const CommandOutline& program, std::string_view shell);
/// `'text'` with every quote of the text as `replacement` in it.
[[nodiscard]] std::string singleQuoted(std::string_view text, std::string_view replacement);

}  // namespace piper::app
