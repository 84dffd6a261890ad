// SPDX-License-Identifier: Apache-2.0
#include "tests/sessions/slow_link.h"
#include "tests/sessions/loopback.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <string>

namespace piper::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kUnderWay = 1U << 20;  ///< bytes of one direction, then the sender waits
constexpr int kLookMs = 50;

/// One direction of a connection.
class Direction {
public:
    Direction(int from, int to, double rate, std::chrono::milliseconds one_way)
        : m_from(from), m_to(to), m_rate(rate), m_one_way(one_way) {}

    [[nodiscard]] bool open() const { return m_open || !m_queue.empty(); }
    [[nodiscard]] bool reads() const { return m_open && m_bytes < kUnderWay; }
    [[nodiscard]] int from() const { return m_from; }
    [[nodiscard]] int waitMs(Clock::time_point now) const {
        if (m_queue.empty()) return kLookMs;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(m_queue.front().due - now);
        return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, kLookMs));
    }

    /// Whether anything had come.
    bool read(Clock::time_point now) {
        std::array<char, 16384> buffer;
        const ssize_t n = ::recv(m_from, buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (n < 0) return false;
        if (n == 0) {
            m_open = false;
            return false;
        }
        // A piece takes its time on the link after the one before it.
        m_free = std::max(m_free, now) +
                 std::chrono::duration_cast<Clock::duration>(
                     std::chrono::duration<double>(static_cast<double>(n) / m_rate));
        m_queue.push_back({m_free + m_one_way, {buffer.data(), static_cast<std::size_t>(n)}});
        m_bytes += static_cast<std::size_t>(n);
        return true;
    }

    /// Passes on what is due; how many bytes. Ends when nobody takes them.
    std::int64_t write(Clock::time_point now) {
        std::int64_t passed = 0;
        while (!m_queue.empty() && m_queue.front().due <= now) {
            std::string& piece = m_queue.front().bytes;
            const ssize_t n = ::send(m_to, piece.data(), piece.size(), MSG_NOSIGNAL);
            if (n <= 0) {
                m_open = false;
                m_queue.clear();
                return passed;
            }
            passed += n;
            m_bytes -= static_cast<std::size_t>(n);
            piece.erase(0, static_cast<std::size_t>(n));
            if (piece.empty()) m_queue.pop_front();
        }
        return passed;
    }

private:
    struct Piece {
        Clock::time_point due;
        std::string bytes;
    };
    int m_from, m_to;
    double m_rate;
    std::chrono::milliseconds m_one_way;
    std::deque<Piece> m_queue;
    std::size_t m_bytes = 0;
    Clock::time_point m_free;
    bool m_open = true;
};

}  // namespace

SlowLink::SlowLink(int server_port, double bytes_per_second, std::chrono::milliseconds one_way)
    : m_server_port(server_port), m_rate(bytes_per_second), m_one_way(one_way) {
    m_listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(m_listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(m_listener, 16), 0);
    EXPECT_EQ(::getsockname(m_listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    m_port = ntohs(address.sin_port);
    m_accepting = std::jthread([this](const std::stop_token& stop) { accept(stop); });
}

SlowLink::SlowLink(int server_port)
    : SlowLink(server_port, std::numeric_limits<double>::infinity(), {}) {}

void SlowLink::breakBefore(std::int64_t piece, Break how) {
    m_break = how;
    m_break_before = piece;
}

SlowLink::~SlowLink() {
    m_accepting.request_stop();
    m_accepting.join();
    ::close(m_listener);
}

void SlowLink::accept(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
        pollfd waiting{m_listener, POLLIN, 0};
        if (::poll(&waiting, 1, kLookMs) != 1) continue;
        const int client = ::accept4(m_listener, nullptr, nullptr, SOCK_CLOEXEC);
        const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const sockaddr_in address = loopback(m_server_port);
        if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
            ::close(client);
            ::close(server);
            continue;
        }
        m_connections.emplace_back(
            [this, client, server](const std::stop_token& end) { carry(client, server, end); });
    }
    m_connections.clear();
}

void SlowLink::holdSilent(int client, const std::stop_token& stop) {
    pollfd closed{client, POLLRDHUP, 0};
    while (!stop.stop_requested() && ::poll(&closed, 1, kLookMs) == 0) {
    }
}

void SlowLink::carry(int client, int server, const std::stop_token& stop) {
    Direction up(client, server, m_rate, m_one_way), down(server, client, m_rate, m_one_way);
    while (!stop.stop_requested() && up.open() && down.open()) {
        const Clock::time_point now = Clock::now();
        std::array<pollfd, 2> waiting{};
        nfds_t count = 0;
        for (const Direction* direction : {&up, &down})
            if (direction->reads()) waiting[count++] = {direction->from(), POLLIN, 0};
        ::poll(waiting.data(), count, std::min(up.waitMs(now), down.waitMs(now)));
        const Clock::time_point then = Clock::now();
        if (up.reads()) up.read(then);
        if (down.reads() && down.read(then) && m_pieces++ == m_break_before) {
            if (m_break == Break::Silence) holdSilent(client, stop);
            break;
        }
        up.write(then);
        m_received += down.write(then);
    }
    ::close(client);
    ::close(server);
}

}  // namespace piper::test
