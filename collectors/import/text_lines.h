// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace piper {

/// Calls `line(number from 1, text)` for each line of a file (gzip or not) without its end, cut at
/// 64 KiB. Terminal colours and an output tag of mpirun ("[1,0]<stdout>:") are taken off.
/// The result is what stopped the reading early, empty when nothing did.
[[nodiscard]] Result<std::string> eachLine(
    const std::filesystem::path& path,
    const std::function<void(std::int64_t, std::string_view)>& line);

/// The words between blanks.
[[nodiscard]] std::vector<std::string_view> wordsOf(std::string_view line);
[[nodiscard]] std::string_view trimmed(std::string_view text);
/// The number behind `label` and any of " :=", such as 12.5 in "loss: 12.5 |"; false without one.
/// Commas between thousands are passed over.
[[nodiscard]] bool numberAfter(std::string_view line, std::string_view label, double& value);

}  // namespace piper
