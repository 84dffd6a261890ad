// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace piper {

/// A POSIX script wrapped for a login shell we know nothing of (sh, csh, fish): it goes over as
/// octal escapes in quotes that all of them read alike, /bin/sh takes the login shell's place, and
/// a marker in both streams tells its output from what start-up files print.
struct RemoteScript {
    std::string command;  ///< for the exec request
    std::string marker;   ///< what the streams show before the script's own output
};
[[nodiscard]] RemoteScript wrapScript(std::string_view script);

/// Passes on what follows the marker.
class MarkerFilter {
public:
    explicit MarkerFilter(std::string marker) : m_marker(std::move(marker)) {}

    /// Appends to `out` what of `bytes` is the script's. Errors: External when more than a
    /// start-up file can sensibly print came without the marker.
    Status feed(std::string_view bytes, std::string& out);
    [[nodiscard]] bool started() const { return m_started; }
    /// Process id of the script's shell, once started.
    [[nodiscard]] std::int64_t pid() const { return m_pid; }
    /// What came before the marker.
    [[nodiscard]] const std::string& preamble() const { return m_before; }

private:
    std::string m_marker;
    std::string m_before;
    bool m_started = false;
    std::int64_t m_pid = 0;
};

}  // namespace piper
