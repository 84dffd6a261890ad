// SPDX-License-Identifier: Apache-2.0
#include "app/common/sessions.h"

#include "sessions/local_connection.h"

namespace piper::app {

Result<std::unique_ptr<Connection>> openSession(const std::string& name) {
    if (name == "local") return openLocalConnection();
    Error error = fail(ErrorCode::NotFound, "no session named '{}'; known: local", name);
    error.hint = "the session 'local' is this machine";
    return error;
}

}  // namespace piper::app
