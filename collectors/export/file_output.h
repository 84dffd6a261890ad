// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/result.h"

namespace piper {

/// Calls `write` with a stream to the file; removes the file (never a device) when it could
/// not be finished.
template <class Write>
Status writeFile(const std::filesystem::path& path, Write write) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    if (!out)
        return fail(ErrorCode::Io, "cannot create: {}", std::strerror(errno)).at(path.string());
    Status status = write(out);
    out.close();
    if (status.ok() && out) return {};
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) std::filesystem::remove(path, ignored);
    if (status.ok()) status = fail(ErrorCode::Io, "writing failed; is the disk full?");
    return std::move(status).error().at(path.string());
}

}  // namespace piper
