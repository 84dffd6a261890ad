// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>
#include <string>
#include <thread>

#include "core/base/result.h"
#include "sessions/descriptor.h"

namespace piper {

/// An SSH agent that shows some keys of another agent only, and signs with no other: what
/// IdentitiesOnly asks for, which libssh cannot be told. It listens on a socket in a private
/// directory until it is destroyed.
class AgentFilter {
public:
    /// `keys`: public keys as the second word of a .pub file.
    /// Errors: Io when the socket cannot be made.
    [[nodiscard]] static Result<std::unique_ptr<AgentFilter>> open(std::string agent_socket,
                                                                   std::set<std::string> keys);
    ~AgentFilter();
    AgentFilter(const AgentFilter&) = delete;
    AgentFilter& operator=(const AgentFilter&) = delete;

    [[nodiscard]] std::string socket() const { return m_directory + "/agent"; }

private:
    AgentFilter(std::string agent_socket, std::set<std::string> keys, std::string directory,
                Descriptor listening);
    void serve(const std::stop_token& stop) const;
    void talk(int client, const std::stop_token& stop) const;
    [[nodiscard]] std::string answer(int agent, const std::string& request,
                                     const std::stop_token& stop) const;
    [[nodiscard]] std::string shown(const std::string& identities) const;

    std::string m_agent_socket;
    std::set<std::string> m_keys;
    std::string m_directory;
    Descriptor m_listening;
    std::jthread m_thread;  ///< last: it ends first
};

}  // namespace piper
