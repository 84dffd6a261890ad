// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <thread>

namespace piper::test {

/// A link to a port of the loopback that may be slow and long: what comes from the server is passed
/// on at most at a rate, and everything is under way for a while. Counts what comes over it; breaks
/// where it is told to.
class SlowLink {
public:
    enum class Break {
        Cut,     ///< closed towards both ends
        Silence  ///< open, but nothing passes any more
    };

    SlowLink(int server_port, double bytes_per_second, std::chrono::milliseconds one_way);
    /// As quick as it goes.
    explicit SlowLink(int server_port);
    ~SlowLink();
    SlowLink(const SlowLink&) = delete;
    SlowLink& operator=(const SlowLink&) = delete;

    [[nodiscard]] int port() const { return m_port; }
    /// Bytes passed on from the server to clients.
    [[nodiscard]] std::int64_t received() const { return m_received; }
    /// Pieces they came in: while ends wait for each other's messages, a piece is a message.
    [[nodiscard]] std::int64_t pieces() const { return m_pieces; }
    /// Breaks the connection over which the server sends this piece (the first is 0), before it is
    /// passed on. Later connections are whole.
    void breakBefore(std::int64_t piece, Break how);

private:
    void accept(const std::stop_token& stop);
    void carry(int client, int server, const std::stop_token& stop);
    /// Holds a connection open that nothing passes, until the client closes it.
    static void holdSilent(int client, const std::stop_token& stop);

    int m_server_port;
    double m_rate;
    std::chrono::milliseconds m_one_way;
    int m_listener = -1;
    int m_port = 0;
    std::atomic<std::int64_t> m_received = 0, m_pieces = 0;
    std::atomic<std::int64_t> m_break_before = -1;
    std::atomic<Break> m_break = Break::Cut;
    std::list<std::jthread> m_connections;  ///< of the accepting thread
    std::jthread m_accepting;
};

}  // namespace piper::test
