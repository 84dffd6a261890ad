// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "core/base/enum_text.h"

namespace piper::app {

/// "0.1.0"
[[nodiscard]] std::string programVersion();

/// Accepts these words only; --help and the completions list them. The message names the nearest.
[[nodiscard]] CLI::Validator oneOf(std::vector<std::string> words);

/// A number above 0, and one from 0 on. The message names what was given.
[[nodiscard]] CLI::Validator aboveZero();
[[nodiscard]] CLI::Validator fromZero();

/// "{a,b,c}" of an enumeration's names, as type name of an option whose value the program checks.
template <class E>
[[nodiscard]] std::string choices() {
    std::string out = "{";
    for (const EnumName<E>& row : enumNames<E>()) {
        if (out.size() > 1) out += ',';
        out += row.name;
    }
    return out + "}";
}

/// Gives a program, once its options are complete, what all of ours have: --version, the exit
/// statuses below --help, and the hidden --print-documentation man|bash|zsh|fish, which the build
/// calls for manual page and shell completions. The root must have a name.
void completeCommandLine(CLI::App& root);

/// Reads the command line: the exit status of a program that has printed help, version or what is
/// wrong (2), nothing when it is to go on.
[[nodiscard]] std::optional<int> readCommandLine(CLI::App& root, int argc, const char* const* argv);

}  // namespace piper::app
