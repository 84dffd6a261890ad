// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <istream>
#include <optional>
#include <string>

namespace piper {

/// What is left of a stream; nothing where reading breaks off (a directory, a failing disk, a
/// process that ended). Iterators of the stream's buffer would throw there, `<< rdbuf()` would
/// pass the part off as the whole.
[[nodiscard]] std::optional<std::string> readAll(std::istream& in);

}  // namespace piper
