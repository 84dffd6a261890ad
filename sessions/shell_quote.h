// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace piper {

/// One word for a POSIX shell: unchanged when it is made of harmless characters, else in single
/// quotes. The shell gives back exactly `word`.
[[nodiscard]] std::string shellQuote(std::string_view word);

/// The words quoted and joined by blanks.
[[nodiscard]] std::string shellCommand(const std::vector<std::string>& argv);

}  // namespace piper
