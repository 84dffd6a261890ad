// SPDX-License-Identifier: Apache-2.0
#include "sessions/agent_filter.h"

#include <openssl/evp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

namespace piper {
namespace {

// draft-miller-ssh-agent: a packet is its length, a type and a body.
constexpr char kFailure = 5, kRequestIdentities = 11, kIdentities = 12, kSignRequest = 13;
constexpr std::uint32_t kLongestPacket = 256 << 10;

std::string text32(std::size_t v) {
    return {static_cast<char>(v >> 24U), static_cast<char>(v >> 16U), static_cast<char>(v >> 8U),
            static_cast<char>(v)};
}

std::optional<std::uint32_t> takeNumber(std::string_view& from) {
    if (from.size() < 4) return std::nullopt;
    std::uint32_t v = 0;
    for (std::size_t i = 0; i < 4; ++i) v = v << 8U | static_cast<unsigned char>(from[i]);
    from.remove_prefix(4);
    return v;
}

std::optional<std::string_view> takeText(std::string_view& from) {
    const std::optional<std::uint32_t> length = takeNumber(from);
    if (!length || *length > from.size()) return std::nullopt;
    const std::string_view text = from.substr(0, *length);
    from.remove_prefix(*length);
    return text;
}

std::string base64(std::string_view bytes) {
    std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');
    const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                       reinterpret_cast<const unsigned char*>(bytes.data()),
                                       static_cast<int>(bytes.size()));
    out.resize(static_cast<std::size_t>(length));
    return out;
}

bool readExactly(int fd, char* to, std::size_t bytes, const std::stop_token& stop) {
    while (bytes > 0) {
        pollfd ready{fd, POLLIN, 0};
        if (stop.stop_requested()) return false;
        if (::poll(&ready, 1, 50) <= 0) continue;
        const ssize_t n = ::read(fd, to, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        to += n;
        bytes -= static_cast<std::size_t>(n);
    }
    return true;
}

/// Nothing at the end, or for what is no packet.
std::optional<std::string> readPacket(int fd, const std::stop_token& stop) {
    std::string length(4, '\0');
    if (!readExactly(fd, length.data(), length.size(), stop)) return std::nullopt;
    std::string_view rest = length;
    std::string body(*takeNumber(rest), '\0');
    if (body.empty() || body.size() > kLongestPacket) return std::nullopt;
    if (!readExactly(fd, body.data(), body.size(), stop)) return std::nullopt;
    return body;
}

bool writePacket(int fd, const std::string& body) {
    const std::string packet = text32(body.size()) + body;
    std::string_view left = packet;
    while (!left.empty()) {
        const ssize_t n = ::send(fd, left.data(), left.size(), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        left.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

std::optional<sockaddr_un> addressOf(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return std::nullopt;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    return address;
}

}  // namespace

Result<std::unique_ptr<AgentFilter>> AgentFilter::open(std::string agent_socket,
                                                       std::set<std::string> keys) {
    std::error_code none;
    std::string directory = (std::filesystem::temp_directory_path(none) / "piper-XXXXXX").string();
    const auto failed = [&](std::string_view what) {
        return fail(ErrorCode::Io, "cannot {}: {}", what, std::strerror(errno)).at(directory);
    };
    if (::mkdtemp(directory.data()) == nullptr) return failed("make a directory");
    Descriptor listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const std::optional<sockaddr_un> address = addressOf(directory + "/agent");
    if (!address || listening.get() < 0 ||
        ::bind(listening.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) !=
            0 ||
        ::listen(listening.get(), 4) != 0) {
        Error error = failed("make a socket");
        std::filesystem::remove_all(directory, none);
        return error;
    }
    return std::unique_ptr<AgentFilter>(new AgentFilter(
        std::move(agent_socket), std::move(keys), std::move(directory), std::move(listening)));
}

AgentFilter::AgentFilter(std::string agent_socket, std::set<std::string> keys,
                         std::string directory, Descriptor listening)
    : m_agent_socket(std::move(agent_socket)),
      m_keys(std::move(keys)),
      m_directory(std::move(directory)),
      m_listening(std::move(listening)),
      m_thread([this](const std::stop_token& stop) { serve(stop); }) {}

AgentFilter::~AgentFilter() {
    m_thread.request_stop();
    m_thread.join();
    std::error_code ignored;
    std::filesystem::remove_all(m_directory, ignored);
}

void AgentFilter::serve(const std::stop_token& stop) const {
    while (!stop.stop_requested()) {
        pollfd ready{m_listening.get(), POLLIN, 0};
        if (::poll(&ready, 1, 50) <= 0) continue;
        const Descriptor client(::accept4(m_listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (client.get() >= 0) talk(client.get(), stop);
    }
}

void AgentFilter::talk(int client, const std::stop_token& stop) const {
    const Descriptor agent(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const std::optional<sockaddr_un> address = addressOf(m_agent_socket);
    if (!address ||
        ::connect(agent.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
        return;
    while (const std::optional<std::string> request = readPacket(client, stop))
        if (!writePacket(client, answer(agent.get(), *request, stop))) return;
}

std::string AgentFilter::answer(int agent, const std::string& request,
                                const std::stop_token& stop) const {
    const std::string failure(1, kFailure);
    std::string_view rest = std::string_view(request).substr(1);
    if (request.front() == kSignRequest) {
        const std::optional<std::string_view> key = takeText(rest);
        if (!key || !m_keys.contains(base64(*key))) return failure;
    } else if (request.front() != kRequestIdentities) {
        return failure;
    }
    if (!writePacket(agent, request)) return failure;
    const std::optional<std::string> answer = readPacket(agent, stop);
    if (!answer) return failure;
    return answer->front() == kIdentities ? shown(*answer) : *answer;
}

std::string AgentFilter::shown(const std::string& identities) const {
    std::string_view rest = std::string_view(identities).substr(1);
    std::uint32_t count = takeNumber(rest).value_or(0), kept = 0;
    std::string keys;
    for (; count > 0; --count) {
        const std::optional<std::string_view> key = takeText(rest), comment = takeText(rest);
        if (!key || !comment) break;
        if (!m_keys.contains(base64(*key))) continue;
        ++kept;
        keys += text32(key->size()) + std::string(*key) + text32(comment->size()) +
                std::string(*comment);
    }
    return kIdentities + text32(kept) + keys;
}

}  // namespace piper
