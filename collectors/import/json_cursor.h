// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace piper {

/// Steps through JSON text that may be incomplete or broken.
///
/// A profile is one document of up to many gigabytes, written by programs that leave raw control
/// characters in strings, numbers in quotes or half a file. So nothing is indexed ahead and nothing
/// is validated that does not matter: each call reads one token, and false means either that the
/// text ends inside it (incomplete(): try again with more) or that it is no JSON (broken).
class JsonCursor {
public:
    JsonCursor(const char* begin, const char* end, bool is_last)
        : m_at(begin), m_end(end), m_is_last(is_last) {}

    [[nodiscard]] const char* place() const { return m_at; }
    [[nodiscard]] bool incomplete() const { return m_incomplete; }
    [[nodiscard]] std::int64_t controlCharacters() const { return m_control_characters; }

    /// The next character that is not blank, 0 at the end of the text (incomplete() then).
    char peek() {
        while (m_at < m_end && isBlank(*m_at)) ++m_at;
        if (m_at < m_end) return *m_at;
        m_incomplete = true;
        return 0;
    }
    /// Steps over `c`; false when something else follows.
    bool take(char c) {
        if (peek() != c) return false;
        ++m_at;
        return true;
    }
    /// A string between its quotes, escapes as they stand.
    bool rawString(std::string_view& out);
    /// A key and its colon.
    bool key(std::string_view& out) { return rawString(out) && take(':'); }
    /// A number, true, false or null as it stands, or the inside of a string.
    bool scalar(std::string_view& out, bool& is_string);
    /// Any value.
    bool skip();
    /// Any value as it stands.
    bool raw(std::string_view& out);

private:
    static bool isBlank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
    bool unfinished() {
        m_incomplete = true;
        return false;
    }
    bool bareWord(std::string_view& out);

    const char* m_at;
    const char* m_end;
    bool m_is_last;
    bool m_incomplete = false;
    std::int64_t m_control_characters = 0;
};

/// The text of a raw string: itself when it has no escape, else decoded into `scratch`. A broken
/// escape becomes U+FFFD.
[[nodiscard]] std::string_view decodeJsonText(std::string_view raw, std::string& scratch);

/// Microseconds as decimal text -> nanoseconds, exact, half away from zero beyond three decimals;
/// exponents are understood. False when it is no number or does not fit.
[[nodiscard]] bool parseMicroseconds(std::string_view text, std::int64_t& nanoseconds);
/// A whole number, decimal or 0x hexadecimal, also "4.0". False when it is none or does not fit.
[[nodiscard]] bool parseWholeNumber(std::string_view text, std::int64_t& value);

}  // namespace piper
