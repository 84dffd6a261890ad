// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <thread>

namespace piper::test {

/// A link to a port of the loopback that is slow and long: what comes from the server is passed on
/// at most at a rate, and everything is under way for a while. Counts what comes over it.
class SlowLink {
public:
    SlowLink(int server_port, double bytes_per_second, std::chrono::milliseconds one_way);
    ~SlowLink();
    SlowLink(const SlowLink&) = delete;
    SlowLink& operator=(const SlowLink&) = delete;

    [[nodiscard]] int port() const { return m_port; }
    /// Bytes passed on from the server to clients.
    [[nodiscard]] std::int64_t received() const { return m_received; }

private:
    void accept(const std::stop_token& stop);
    void carry(int client, int server, const std::stop_token& stop);

    int m_server_port;
    double m_rate;
    std::chrono::milliseconds m_one_way;
    int m_listener = -1;
    int m_port = 0;
    std::atomic<std::int64_t> m_received = 0;
    std::list<std::jthread> m_connections;  ///< of the accepting thread
    std::jthread m_accepting;
};

}  // namespace piper::test
