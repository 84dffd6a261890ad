// SPDX-License-Identifier: Apache-2.0
#include "sessions/display_text.h"

#include <algorithm>
#include <cstdint>

namespace piper {
namespace {

/// Length of the escape sequence that starts at `at`: CSI, OSC and its kin up to their end, else
/// two characters.
std::size_t escapeLength(std::string_view text, std::size_t at) {
    if (at + 1 >= text.size()) return 1;
    const char kind = text[at + 1];
    std::size_t end = at + 2;
    if (kind == '[') {
        while (end < text.size() && text[end] >= 0x20 && text[end] < 0x40) ++end;
        return std::min(end + 1, text.size()) - at;
    }
    if (std::string_view("]PX^_").find(kind) == std::string_view::npos) return 2;
    for (; end < text.size() && text[end] != '\n'; ++end) {
        if (text[end] == '\a') return end + 1 - at;
        if (text[end] == '\033') return std::min(end + 2, text.size()) - at;
    }
    return end - at;
}

struct CodePoint {
    std::uint32_t value = 0;
    std::size_t length = 0;  ///< 0: no UTF-8
};

CodePoint decode(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return {first, 1};
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
    if (length == 0 || first > 0xF4 || text.size() < length) return {};
    std::uint32_t value = first & (0x7FU >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xC0U) != 0x80U) return {};
        value = value << 6U | (byte(i) & 0x3FU);
    }
    constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < least[length] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return {};
    return {value, length};
}

bool isShown(std::uint32_t c) {
    if (c == '\n' || c == '\t') return true;
    const bool control = c < 0x20 || (c >= 0x7F && c < 0xA0);
    const bool turns = (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) ||
                       c == 0x200E || c == 0x200F || c == 0x061C;
    return !control && !turns;
}

}  // namespace

std::string displayText(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size();) {
        if (text[i] == '\033') {
            i += escapeLength(text, i);
            continue;
        }
        const CodePoint c = decode(text.substr(i));
        if (c.length == 0) {
            out += "\xEF\xBF\xBD";
            ++i;
            continue;
        }
        if (isShown(c.value)) out += text.substr(i, c.length);
        i += c.length;
    }
    return out;
}

std::string displayLine(std::string_view text, std::size_t limit) {
    std::string out;
    for (const char c : displayText(text.substr(0, 16 * limit))) {
        const bool blank = c == '\n' || c == '\t' || c == ' ';
        if (blank && (out.empty() || out.back() == ' ')) continue;
        out += blank ? ' ' : c;
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    if (out.size() <= limit) return out;
    std::size_t cut = limit;
    while (cut > 0 && (static_cast<unsigned char>(out[cut]) & 0xC0U) == 0x80U) --cut;
    return out.substr(0, cut) + "...";
}

}  // namespace piper
