// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace piper {

/// Text of another host made safe to show: terminal escapes, control characters (newline and tab
/// aside) and marks that turn the direction of writing are taken out, bytes that are no UTF-8
/// become U+FFFD.
[[nodiscard]] std::string displayText(std::string_view text);

/// The same on one line and at most `limit` bytes, for messages.
[[nodiscard]] std::string displayLine(std::string_view text, std::size_t limit = 400);

}  // namespace piper
