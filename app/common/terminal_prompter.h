// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sessions/ssh_prompter.h"

namespace piper::app {

/// Asks on the controlling terminal, whatever standard input is; without one, nothing is accepted
/// and nothing answered.
class TerminalPrompter final : public SshPrompter {
public:
    [[nodiscard]] bool acceptHostKey(const HostKeyQuestion& question) override;
    [[nodiscard]] std::optional<std::vector<std::string>> answer(
        const SshQuestions& questions) override;
};

}  // namespace piper::app
