// SPDX-License-Identifier: Apache-2.0
#include "app/common/sessions.h"

#include "app/common/terminal_prompter.h"

namespace piper::app {

Result<std::shared_ptr<Session>> openSession(const std::string& name) {
    PIPER_ASSIGN(SessionConfig config, SessionStore(sessionsFile()).find(name));
    return Session::open(std::move(config), std::make_shared<TerminalPrompter>());
}

}  // namespace piper::app
