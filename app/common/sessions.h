// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/base/result.h"
#include "sessions/connection.h"

namespace piper::app {

/// The connection of a session's name. Errors: NotFound names the sessions there are.
[[nodiscard]] Result<std::unique_ptr<Connection>> openSession(const std::string& name);

}  // namespace piper::app
