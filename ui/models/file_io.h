// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace piper::ui {

/// The whole text of a file; InvalidInput or Io otherwise. For use on the executor.
[[nodiscard]] Result<std::string> readFileText(const QString& path);

/// Writes a file through a temporary name and a rename, so that it is there whole or not at all.
/// Errors: Io names the file. For use on the executor.
[[nodiscard]] Status writeFile(const QString& path, std::string_view content,
                               bool executable = false);

}  // namespace piper::ui
