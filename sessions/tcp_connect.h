// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>
#include <string>

#include "core/base/result.h"

namespace piper {

/// A TCP connection to the first address of the host that takes one; the caller closes the socket,
/// which does not block. Each address is tried for at most `timeout_seconds`.
/// Errors: Cancelled when stopped meanwhile; External with the system's reason.
[[nodiscard]] Result<int> connectTcp(const std::string& host, int port, int timeout_seconds,
                                     const std::stop_token& stop);

}  // namespace piper
