// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace piper {

/// SHA-256 of bytes that come piece by piece.
class Sha256 {
public:
    Sha256();
    ~Sha256();
    Sha256(Sha256&&) noexcept;
    Sha256& operator=(Sha256&&) noexcept;
    void add(std::string_view bytes);
    /// In hexadecimal; the object is spent.
    [[nodiscard]] std::string take();

private:
    struct State;
    std::unique_ptr<State> m_state;
};

/// Of the first `bytes` of a file (all of it when negative). Errors: Io.
[[nodiscard]] Result<std::string> sha256OfFile(const std::filesystem::path& path,
                                               std::int64_t bytes = -1);

}  // namespace piper
