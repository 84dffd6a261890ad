// SPDX-License-Identifier: Apache-2.0
#include "collectors/import/json_cursor.h"

#include <array>
#include <charconv>
#include <limits>

#ifdef __SSE2__
#include <emmintrin.h>

#include <bit>
#endif

namespace piper {
namespace {

bool isControl(char c) {
    return static_cast<unsigned char>(c) < 0x20;
}

/// The first quote, backslash or control character in [at, end). Reads up to 15 bytes behind the
/// end (ByteWindow::kSlack).
const char* endOfPlainText(const char* at, const char* end) {
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
    const __m128i last_control = _mm_set1_epi8(0x1f);
    for (; at < end; at += 16) {
        const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
        const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(text, last_control), text);
        const __m128i found = _mm_or_si128(
            control, _mm_or_si128(_mm_cmpeq_epi8(text, quote), _mm_cmpeq_epi8(text, slash)));
        const auto mask = static_cast<unsigned>(_mm_movemask_epi8(found));
        if (mask != 0) {
            at += std::countr_zero(mask);
            return at < end ? at : end;
        }
    }
    return end;
#else
    while (at < end && *at != '"' && *at != '\\' && !isControl(*at)) ++at;
    return at;
#endif
}

/// What stops the search for the end of an array or object.
constexpr std::array<bool, 256> makeStructural() {
    std::array<bool, 256> table{};
    for (const char c : {'"', '{', '}', '[', ']'}) table[static_cast<unsigned char>(c)] = true;
    return table;
}
constexpr std::array<bool, 256> kStructural = makeStructural();

/// What a number or another word without quotes ends at.
constexpr std::array<bool, 256> makeEndsWord() {
    std::array<bool, 256> table{};
    for (const char c : {' ', '\n', '\r', '\t', ',', '}', ']', ':', '"', '{', '['})
        table[static_cast<unsigned char>(c)] = true;
    return table;
}
constexpr std::array<bool, 256> kEndsWord = makeEndsWord();

void appendUtf8(std::string& out, std::uint32_t code) {
    const auto byte = [&](std::uint32_t b) { out.push_back(static_cast<char>(b)); };
    if (code < 0x80) {
        byte(code);
    } else if (code < 0x800) {
        byte(0xC0 | code >> 6);
        byte(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        byte(0xE0 | code >> 12);
        byte(0x80 | (code >> 6 & 0x3F));
        byte(0x80 | (code & 0x3F));
    } else {
        byte(0xF0 | code >> 18);
        byte(0x80 | (code >> 12 & 0x3F));
        byte(0x80 | (code >> 6 & 0x3F));
        byte(0x80 | (code & 0x3F));
    }
}

constexpr std::uint32_t kReplacement = 0xFFFD;

/// Four hexadecimal digits at `at`; the replacement character when they are not there.
std::uint32_t hexUnit(std::string_view raw, std::size_t at) {
    std::uint32_t code = 0;
    if (at + 4 > raw.size()) return kReplacement;
    const auto [end, fault] = std::from_chars(raw.data() + at, raw.data() + at + 4, code, 16);
    return fault == std::errc() && end == raw.data() + at + 4 ? code : kReplacement;
}

/// Decodes a \u escape of four hexadecimal digits (and the second half of a pair) at `at`, which
/// stands behind the u.
std::size_t decodeUnicode(std::string_view raw, std::size_t at, std::string& out) {
    std::uint32_t code = hexUnit(raw, at);
    std::size_t next = std::min(raw.size(), at + 4);
    if (code >= 0xD800 && code < 0xDC00 && raw.substr(next, 2) == "\\u") {
        const std::uint32_t low = hexUnit(raw, next + 2);
        if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            next = std::min(raw.size(), next + 6);
        }
    }
    appendUtf8(out, code >= 0xD800 && code < 0xE000 ? kReplacement : code);
    return next;
}

}  // namespace

bool JsonCursor::rawString(std::string_view& out) {
    if (!take('"')) return false;
    const char* begin = m_at;
    for (const char* at = m_at;;) {
        at = endOfPlainText(at, m_end);
        if (at >= m_end) return unfinished();
        if (*at == '"') {
            out = {begin, static_cast<std::size_t>(at - begin)};
            m_at = at + 1;
            return true;
        }
        if (isControl(*at)) {
            ++m_control_characters;
            ++at;
        } else {
            at += 2;
        }
    }
}

bool JsonCursor::bareWord(std::string_view& out) {
    const char* begin = m_at;
    const char* at = m_at;
    while (at < m_end && !kEndsWord[static_cast<unsigned char>(*at)]) ++at;
    if (at == m_end && !m_is_last) return unfinished();
    out = {begin, static_cast<std::size_t>(at - begin)};
    m_at = at;
    return !out.empty();
}

bool JsonCursor::scalar(std::string_view& out, bool& is_string) {
    const char first = peek();
    if (first == 0) return false;
    is_string = first == '"';
    return is_string ? rawString(out) : bareWord(out);
}

bool JsonCursor::skip() {
    const char first = peek();
    if (first == 0) return false;
    std::string_view text;
    if (first == '"') return rawString(text);
    if (first != '{' && first != '[') return bareWord(text);
    std::int64_t depth = 0;
    while (true) {
        while (m_at < m_end && !kStructural[static_cast<unsigned char>(*m_at)]) ++m_at;
        if (m_at >= m_end) return unfinished();
        if (*m_at == '"') {
            if (!rawString(text)) return false;
            continue;
        }
        depth += *m_at == '{' || *m_at == '[' ? 1 : -1;
        ++m_at;
        if (depth == 0) return true;
    }
}

bool JsonCursor::raw(std::string_view& out) {
    if (peek() == 0) return false;
    const char* begin = m_at;
    if (!skip()) return false;
    out = {begin, static_cast<std::size_t>(m_at - begin)};
    return true;
}

std::string_view decodeJsonText(std::string_view raw, std::string& scratch) {
    std::size_t slash = raw.find('\\');
    if (slash == std::string_view::npos) return raw;
    scratch.clear();
    std::size_t at = 0;
    while (slash != std::string_view::npos && slash + 1 < raw.size()) {
        scratch.append(raw, at, slash - at);
        const char c = raw[slash + 1];
        at = slash + 2;
        static constexpr std::string_view kFrom = "bfnrt\"\\/", kTo = "\b\f\n\r\t\"\\/";
        if (c == 'u')
            at = decodeUnicode(raw, at, scratch);
        else if (const std::size_t i = kFrom.find(c); i != std::string_view::npos)
            scratch.push_back(kTo[i]);
        else
            appendUtf8(scratch, kReplacement);
        slash = raw.find('\\', at);
    }
    scratch.append(raw, at, std::string_view::npos);
    return scratch;
}

bool parseWholeNumber(std::string_view text, std::int64_t& value) {
    int base = 10;
    if (text.starts_with("0x") || text.starts_with("0X")) {
        text.remove_prefix(2);
        base = 16;
    }
    const char* end = text.data() + text.size();
    const auto [stop, fault] = std::from_chars(text.data(), end, value, base);
    if (fault != std::errc()) return false;
    if (stop == end) return true;
    const std::string_view rest(stop, static_cast<std::size_t>(end - stop));
    return base == 10 && rest.front() == '.' &&
           rest.find_first_not_of('0', 1) == std::string_view::npos;
}

}  // namespace piper
