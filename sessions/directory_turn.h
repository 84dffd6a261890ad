// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <stop_token>

#include "core/base/result.h"
#include "sessions/descriptor.h"

namespace piper {

/// What is done in a local directory by one at a time, among the threads of all programs that ask:
/// two fetches of one job, or two runs that are stored in files beside each other. Ends with the
/// object or its program and leaves nothing behind.
class DirectoryTurn {
public:
    /// Waits for its turn; makes the directory when it is missing or was removed meanwhile. Where
    /// the file system knows no locks nobody waits.
    /// Errors: Io when the directory cannot be made; Cancelled when stopped.
    [[nodiscard]] static Result<DirectoryTurn> take(const std::filesystem::path& directory,
                                                    const std::stop_token& stop);

private:
    explicit DirectoryTurn(int descriptor) : m_held(descriptor) {}

    Descriptor m_held;
};

}  // namespace piper
