// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace piper {

/// A host key nobody has seen yet.
struct HostKeyQuestion {
    std::string hop;          ///< "user@host:port"
    std::string name;         ///< as known_hosts will spell it
    std::string key_type;     ///< "ssh-ed25519"
    std::string fingerprint;  ///< "SHA256:..."
};

/// What a hop asks of its user: a passphrase, a password, or the questions of its
/// keyboard-interactive (several at once; 2FA on a jump host). All text is safe to show.
struct SshQuestions {
    struct Question {
        std::string text;
        bool echo = false;  ///< false: do not show what is typed
    };
    std::string hop;
    std::string title, instruction;
    std::vector<Question> questions;
};

/// Asks the user. Called on the thread that opens the connection; answers are used once and never
/// stored.
class SshPrompter {
public:
    virtual ~SshPrompter() = default;
    /// True: the key is taken and written to known_hosts.
    [[nodiscard]] virtual bool acceptHostKey(const HostKeyQuestion& question) = 0;
    /// One answer a question; empty: the user gave up.
    [[nodiscard]] virtual std::optional<std::vector<std::string>> answer(
        const SshQuestions& questions) = 0;
};

}  // namespace piper
