// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/base/result.h"
#include "sessions/session.h"

namespace piper::app {

/// Opens a session by its name; questions go to the terminal, when there is one.
/// Errors: NotFound names the sessions there are; those of the connection.
[[nodiscard]] Result<std::shared_ptr<Session>> openSession(const std::string& name);

}  // namespace piper::app
