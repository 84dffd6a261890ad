// SPDX-License-Identifier: Apache-2.0
#include "sessions/remote_shell.h"

#include <algorithm>
#include <cstdlib>
#include <random>

#include <fmt/format.h>

#include "sessions/display_text.h"

namespace piper {
namespace {

constexpr std::size_t kLongestWord = 900;  ///< the Berkeley csh refuses words of 1024 characters
constexpr std::size_t kMostPreamble = 1U << 20;

std::string octal(std::string_view text) {
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,=+@-";
    std::string out;
    for (const char c : text) {
        if (plain.find(c) != std::string_view::npos)
            out += c;
        else
            out += fmt::format("\\0{:03o}", static_cast<unsigned char>(c));
    }
    return out;
}

std::string randomWord() {
    std::random_device device;
    return fmt::format("{:08x}{:08x}", device(), device());
}

}  // namespace

RemoteScript wrapScript(std::string_view script) {
    // The marker stands in two halves, so that a shell that echoes its command does not show it.
    const std::string first = randomWord(), second = randomWord();
    RemoteScript wrapped;
    wrapped.marker = first + second;
    const std::string text = octal(fmt::format(
        "printf '%s%s:%s\\n' {0} {1} $$; printf '%s%s:%s\\n' {0} {1} $$ >&2; set --\n{2}", first,
        second, script));
    wrapped.command = "exec /bin/sh -c 'eval \"$(IFS=;printf %b \"$*\")\"' piper";
    for (std::size_t at = 0; at < text.size();) {
        std::size_t length = std::min(kLongestWord, text.size() - at);
        while (text[at + length - 1] == '\\') --length;  // fish takes \' for a quote
        wrapped.command += " '" + text.substr(at, length) + "'";
        at += length;
    }
    return wrapped;
}

Status MarkerFilter::feed(std::string_view bytes, std::string& out) {
    if (m_started) {
        out += bytes;
        return {};
    }
    m_before += bytes;
    const std::size_t at = m_before.find(m_marker);
    if (at == std::string::npos) {
        if (m_before.size() > kMostPreamble)
            return fail(ErrorCode::External,
                        "the login shell printed more than {} bytes before the command began: '{}'",
                        kMostPreamble, displayLine(m_before, 120));
        return {};
    }
    const std::size_t end = m_before.find('\n', at);
    if (end == std::string::npos) return {};
    m_started = true;
    m_pid = std::atoll(m_before.c_str() + at + m_marker.size() + 1);
    out += std::string_view(m_before).substr(end + 1);
    m_before.resize(at);
    return {};
}

}  // namespace piper
