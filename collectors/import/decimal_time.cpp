// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "collectors/import/json_cursor.h"

namespace piper {
namespace {

/// A decimal number by its digits: value = digits * 10^exponent.
struct Decimal {
    bool negative = false;
    std::uint64_t digits = 0;
    int exponent = 0;
    bool half_up = false;  ///< the first digit that did not fit was 5 or more
};

bool isDigit(char c) {
    return c >= '0' && c <= '9';
}

constexpr std::uint64_t kMostDigits = 900000000000000000ULL;

/// Digits and a point. Digits beyond 18 only move the exponent.
bool readMantissa(std::string_view text, std::size_t& at, Decimal& out) {
    bool any = false, point = false, dropped = false;
    for (; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (!isDigit(c)) break;
        any = true;
        if (out.digits >= kMostDigits || dropped) {
            if (!dropped) out.half_up = c >= '5';
            dropped = true;
            out.exponent += point ? 0 : 1;
            continue;
        }
        out.digits = out.digits * 10 + static_cast<std::uint64_t>(c - '0');
        out.exponent -= point ? 1 : 0;
    }
    return any;
}

bool readExponent(std::string_view text, std::size_t& at, Decimal& out) {
    if (at == text.size() || (text[at] != 'e' && text[at] != 'E')) return true;
    ++at;
    if (at < text.size() && text[at] == '+') ++at;
    int exponent = 0;
    const auto [stop, fault] =
        std::from_chars(text.data() + at, text.data() + text.size(), exponent);
    if (fault != std::errc() || exponent > 1000 || exponent < -1000) return false;
    at = static_cast<std::size_t>(stop - text.data());
    out.exponent += exponent;
    return true;
}

/// Rounds half away from zero; false when it does not fit.
bool toInteger(Decimal d, std::int64_t& value) {
    bool up = d.exponent == 0 && d.half_up;
    for (; d.exponent < 0 && d.digits > 0; ++d.exponent) {
        up = d.digits % 10 >= 5;
        d.digits /= 10;
    }
    if (d.exponent < 0) up = false;
    if (d.digits > 0)
        for (; d.exponent > 0; --d.exponent)
            if (__builtin_mul_overflow(d.digits, std::uint64_t{10}, &d.digits)) return false;
    d.digits += up ? 1 : 0;
    if (d.digits > static_cast<std::uint64_t>(INT64_MAX)) return false;
    value = d.negative ? -static_cast<std::int64_t>(d.digits) : static_cast<std::int64_t>(d.digits);
    return true;
}

}  // namespace

bool parseMicroseconds(std::string_view text, std::int64_t& nanoseconds) {
    Decimal d;
    std::size_t at = 0;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) d.negative = text[at++] == '-';
    if (!readMantissa(text, at, d) || !readExponent(text, at, d) || at != text.size()) return false;
    d.exponent += 3;
    return toInteger(d, nanoseconds);
}

}  // namespace piper
