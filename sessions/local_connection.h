// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "sessions/connection.h"

namespace piper {

/// This machine behind the Connection interface: programs are started directly, without a shell.
[[nodiscard]] std::unique_ptr<Connection> openLocalConnection();

}  // namespace piper
