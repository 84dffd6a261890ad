// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace piper::columns {

/// A column is one flag byte and its values: one varint when all rows are equal, else the zigzag
/// varint of each row's difference from the row before, or eight bytes a double that is no integer.
enum Form : char { Constant = 0, Deltas = 1, Raw = 2 };

inline constexpr std::size_t kLongestVarint = 10;
/// Of one blob.
inline constexpr std::size_t kMostRows = 512;

inline char* putVarint(char* at, std::uint64_t value) {
    while (value >= 0x80) {
        *at++ = static_cast<char>((value & 0x7f) | 0x80);
        value >>= 7;
    }
    *at++ = static_cast<char>(value);
    return at;
}

inline std::uint64_t zigzag(std::uint64_t difference) {
    return (difference << 1) ^ (0 - (difference >> 63));
}

inline std::uint64_t unzigzag(std::uint64_t code) {
    return (code >> 1) ^ (0 - (code & 1));
}

/// Appends the column `get(row)` of integers or enumerations. Differences wrap, so that every
/// 64-bit value survives.
template <class Row, class Get>
void put(std::string& out, std::span<const Row> rows, Get get) {
    const auto value = [&](std::size_t i) {
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(get(rows[i])));
    };
    std::size_t differing = 1;
    while (differing < rows.size() && value(differing) == value(0)) ++differing;
    const bool constant = differing >= rows.size();
    const std::size_t count = constant ? std::min<std::size_t>(rows.size(), 1) : rows.size();
    const std::size_t before = out.size();
    out.resize(before + 1 + count * kLongestVarint);
    char* at = out.data() + before;
    *at++ = constant ? Constant : Deltas;
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t v = value(i);
        at = putVarint(at, zigzag(v - last));
        last = v;
    }
    out.resize(static_cast<std::size_t>(at - out.data()));
}

/// True when the double is a whole number that comes back with every bit.
inline bool exactInteger(double v) {
    return std::abs(v) < 9007199254740992.0 &&
           std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(v))) ==
               std::bit_cast<std::uint64_t>(v);
}

/// Appends the column `get(row)` of doubles: as integers when each is one.
template <class Row, class Get>
void putReal(std::string& out, std::span<const Row> rows, Get get) {
    bool whole = true;
    for (const Row& row : rows) whole = whole && exactInteger(get(row));
    if (whole)
        return put(out, rows, [&](const Row& r) { return static_cast<std::int64_t>(get(r)); });
    out.push_back(Raw);
    for (const Row& row : rows) {
        const double v = get(row);
        char bytes[sizeof v];
        std::memcpy(bytes, &v, sizeof v);
        out.append(bytes, sizeof v);
    }
}

/// Reads the columns of a blob one after the other; a blob that does not hold them is a failure.
class Reader {
public:
    Reader(std::string_view blob, std::size_t count)
        : m_at(blob.data()), m_end(blob.data() + blob.size()), m_count(count) {}

    [[nodiscard]] bool failed() const { return m_failed; }
    [[nodiscard]] bool complete() const { return !m_failed && m_at == m_end; }

    /// Calls `set(row, value)` for each row; false when the blob or `set` fails.
    template <class Set>
    bool integers(Set set) {
        return integers(m_count, set);
    }
    template <class Set>
    bool integers(std::size_t count, Set set) {
        return integers(take(), count, set);
    }
    template <class Set>
    bool doubles(Set set) {
        const char form = take();
        if (form != Raw)
            return integers(form, m_count, [&](std::size_t i, std::int64_t v) {
                set(i, static_cast<double>(v));
                return true;
            });
        if (static_cast<std::size_t>(m_end - m_at) < m_count * sizeof(double)) return fault();
        for (std::size_t i = 0; i < m_count; ++i, m_at += sizeof(double)) {
            double v = 0.0;
            std::memcpy(&v, m_at, sizeof v);
            set(i, v);
        }
        return true;
    }

private:
    bool fault() {
        m_failed = true;
        return false;
    }

    char take() {
        if (m_at != m_end) return *m_at++;
        m_failed = true;
        return Constant;
    }

    std::uint64_t varint() {
        std::uint64_t value = 0;
        for (int shift = 0; shift < 70; shift += 7) {
            const auto byte = static_cast<unsigned char>(take());
            if (m_failed) return 0;
            if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
            if (byte < 0x80) return value;
        }
        m_failed = true;
        return 0;
    }

    template <class Set>
    bool integers(char form, std::size_t count, Set set) {
        if (m_failed || (form != Constant && form != Deltas)) return fault();
        if (form == Deltas && static_cast<std::size_t>(m_end - m_at) < count) return fault();
        std::uint64_t last = 0;
        // An empty column is a flag alone.
        for (std::size_t i = 0; i < count; ++i) {
            if (form == Deltas || i == 0) last += unzigzag(varint());
            if (m_failed || !set(i, static_cast<std::int64_t>(last))) return fault();
        }
        return true;
    }

    const char* m_at;
    const char* m_end;
    std::size_t m_count;
    bool m_failed = false;
};

template <class T>
bool narrow(std::int64_t value, T& out) {
    out = static_cast<T>(value);
    return static_cast<std::int64_t>(out) == value;
}

template <class E>
bool decodeEnum(std::int64_t code, const std::vector<int>& table, E& out) {
    if (code < 0 || code >= static_cast<std::int64_t>(table.size())) return false;
    const int own = table[static_cast<std::size_t>(code)];
    out = static_cast<E>(own);
    return own >= 0;
}

/// Runs `read` on `count` fresh rows at the end of `out`; takes them away again when it fails.
template <class Row, class Read>
bool appendRows(std::string_view blob, std::size_t count, std::vector<Row>& out, Read read) {
    if (count > kMostRows) return false;
    const std::size_t first = out.size();
    out.resize(first + count);
    Reader in(blob, count);
    if (read(in, std::span<Row>(out).subspan(first)) && in.complete()) return true;
    out.resize(first);
    return false;
}

/// The next column into one field of every row; a value that does not fit is a failure.
template <class Row, class Access>
bool field(Reader& in, std::span<Row> rows, Access access) {
    return in.integers([&](std::size_t i, std::int64_t v) { return narrow(v, access(rows[i])); });
}

template <class Row, class E>
bool word(Reader& in, std::span<Row> rows, E Row::*member, const std::vector<int>& table) {
    return in.integers(
        [&](std::size_t i, std::int64_t v) { return decodeEnum(v, table, rows[i].*member); });
}

}  // namespace piper::columns
