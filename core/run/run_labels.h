// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/run/run.h"

namespace piper {

/// What a user wrote on a run; kept among its notes.
struct RunLabels {
    std::string note;               ///< any text
    std::vector<std::string> tags;  ///< sorted, each once
    bool operator==(const RunLabels&) const = default;
};

/// Names of the notes that hold them.
inline constexpr std::string_view kUserNote = "user.note";
inline constexpr std::string_view kUserTags = "user.tags";

/// Empty for a note that the run does not have.
[[nodiscard]] std::string noteOf(const Run& run, std::string_view name);
/// Of a run with its notes; tags that parseTags() would refuse are left out.
[[nodiscard]] RunLabels labelsOf(const Run& run);

/// "fp8, baseline" as tags, between which commas stand; sorted, each once.
/// Errors: InvalidInput for a tag of more than 60 bytes or with a control character or '#'.
[[nodiscard]] Result<std::vector<std::string>> parseTags(std::string_view text);
/// "baseline, fp8"
[[nodiscard]] std::string tagsText(const std::vector<std::string>& tags);

}  // namespace piper
