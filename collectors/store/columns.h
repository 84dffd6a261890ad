// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// An accessor of a member for field(), word() and real(): there only for rows that have it.
#define PIPER_FIELD(member) [](auto& row) -> decltype((row.member)) { return row.member; }

namespace piper::columns {

/// A column is one flag byte and its values: one varint when all rows are equal, else the zigzag
/// varint of each row's difference from the row before, or eight bytes a double that is no integer.
/// Packed (since version 3 of the file): base and scale as varints, a width w <= kWidestPacked in
/// one byte, then w bits a row, lowest bit first: value = base + scale * bits. PackedDeltas: the
/// first value as a varint, then the differences from the row before, packed. The shortest of the
/// forms is written.
enum Form : char { Constant = 0, Deltas = 1, Raw = 2, Packed = 3, PackedDeltas = 4 };

inline constexpr std::size_t kLongestVarint = 10;
/// Bits of a row that one unaligned load of eight bytes holds wherever it begins.
inline constexpr int kWidestPacked = 56;
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

inline std::size_t varintBytes(std::uint64_t value) {
    return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

inline std::size_t packedBytes(std::size_t count, int width) {
    return (count * static_cast<std::size_t>(width) + 7) / 8;
}

/// How a list of integers is packed: value = base + scale * bits.
struct Packing {
    std::uint64_t base = 0, scale = 1;
    int width = 0;

    /// `step`: look for a common divisor. A list that starts with arbitrary values has none, which
    /// shows after a few divisions.
    static Packing of(std::span<const std::uint64_t> values, bool step) {
        Packing out;
        std::int64_t least = static_cast<std::int64_t>(values.front()), most = least;
        for (const std::uint64_t v : values) {
            least = std::min(least, static_cast<std::int64_t>(v));
            most = std::max(most, static_cast<std::int64_t>(v));
        }
        out.base = static_cast<std::uint64_t>(least);
        const std::uint64_t range = static_cast<std::uint64_t>(most) - out.base;
        std::uint64_t divisor = 0;
        for (std::size_t i = 0; step && divisor != 1 && i < values.size(); ++i) {
            const std::uint64_t above = values[i] - out.base;
            if (divisor == 0 || above % divisor != 0) divisor = std::gcd(divisor, above);
        }
        out.scale = std::max<std::uint64_t>(divisor, 1);
        out.width = static_cast<int>(std::bit_width(range / out.scale));
        return out;
    }
    [[nodiscard]] std::size_t bytes(std::size_t count) const {
        return varintBytes(zigzag(base)) + varintBytes(scale) + 1 + packedBytes(count, width);
    }
};

/// `at` has room for packing.bytes(values.size()).
inline char* putPacked(char* at, const Packing& packing, std::span<const std::uint64_t> values) {
    at = putVarint(at, zigzag(packing.base));
    at = putVarint(at, packing.scale);
    *at++ = static_cast<char>(packing.width);
    std::uint64_t waiting = 0;
    int bits = 0;
    for (const std::uint64_t v : values) {
        const std::uint64_t above = v - packing.base;
        waiting |= (packing.scale == 1 ? above : above / packing.scale) << bits;
        for (bits += packing.width; bits >= 8; bits -= 8, waiting >>= 8)
            *at++ = static_cast<char>(waiting & 0xff);
    }
    if (bits > 0) *at++ = static_cast<char>(waiting & 0xff);
    return at;
}

/// Appends a column of integers in its shortest form. Differences wrap, so that every 64-bit value
/// survives.
inline void putIntegers(std::string& out, std::span<const std::uint64_t> values) {
    const auto first = values.empty() ? 0 : values.front();
    const bool constant =
        std::all_of(values.begin(), values.end(), [&](std::uint64_t v) { return v == first; });
    if (constant) {
        char text[1 + kLongestVarint] = {Constant};
        const char* end = values.empty() ? text + 1 : putVarint(text + 1, zigzag(first));
        out.append(text, static_cast<std::size_t>(end - text));
        return;
    }
    std::vector<std::uint64_t> differences(values.size() - 1);
    std::size_t varints = varintBytes(zigzag(first));
    for (std::size_t i = 1; i < values.size(); ++i) {
        differences[i - 1] = values[i] - values[i - 1];
        varints += varintBytes(zigzag(differences[i - 1]));
    }
    const Packing plain = Packing::of(values, true);
    const Packing steps = Packing::of(differences, false);
    const auto size = [](const Packing& p, std::size_t count) {
        return p.width > kWidestPacked ? SIZE_MAX : p.bytes(count);
    };
    const std::size_t of_plain = size(plain, values.size());
    std::size_t of_steps = size(steps, differences.size());
    if (of_steps != SIZE_MAX) of_steps += varintBytes(zigzag(first));
    const std::size_t before = out.size();
    out.resize(before + 1 + std::min({varints, of_plain, of_steps}));
    char* at = out.data() + before;
    if (of_plain <= varints && of_plain <= of_steps) {
        *at++ = Packed;
        putPacked(at, plain, values);
    } else if (of_steps <= varints) {
        *at++ = PackedDeltas;
        putPacked(putVarint(at, zigzag(first)), steps, differences);
    } else {
        *at++ = Deltas;
        at = putVarint(at, zigzag(first));
        for (const std::uint64_t d : differences) at = putVarint(at, zigzag(d));
    }
}

/// Appends the column `get(row)` of integers or enumerations.
template <class Row, class Get>
void put(std::string& out, std::span<const Row> rows, Get get) {
    std::vector<std::uint64_t> values;
    values.reserve(rows.size());
    for (const Row& row : rows)
        values.push_back(static_cast<std::uint64_t>(static_cast<std::int64_t>(get(row))));
    putIntegers(out, values);
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

    /// Passes over a column.
    bool skip() {
        const char form = take();
        Packing ignored;
        if (form == Raw) return skipBytes(m_count * sizeof(double));
        if (form == PackedDeltas) (void)varint();
        const bool packed = form == Packed || (form == PackedDeltas && m_count > 0);
        if (packed && takePacked(m_count - (form == PackedDeltas ? 1 : 0), ignored) == nullptr)
            return fault();
        if (form == Packed || form == PackedDeltas) return !m_failed;
        return integers(form, m_count, [](std::size_t, std::int64_t) { return true; });
    }

private:
    bool skipBytes(std::size_t bytes) {
        if (m_failed || static_cast<std::size_t>(m_end - m_at) < bytes) return fault();
        m_at += bytes;
        return true;
    }

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
        if (m_failed) return false;
        switch (form) {
            case Constant:
                return constants(count, set);
            case Deltas:
                return deltas(count, set);
            case Packed:
                return packed(count, [&](std::size_t i, std::uint64_t v) {
                    return set(i, static_cast<std::int64_t>(v));
                });
            case PackedDeltas:
                return packedDeltas(count, set);
            default:
                return fault();
        }
    }

    /// An empty column is a flag alone.
    template <class Set>
    bool constants(std::size_t count, Set set) {
        const auto value = count == 0 ? 0 : static_cast<std::int64_t>(unzigzag(varint()));
        for (std::size_t i = 0; i < count; ++i)
            if (m_failed || !set(i, value)) return fault();
        return true;
    }

    template <class Set>
    bool deltas(std::size_t count, Set set) {
        if (static_cast<std::size_t>(m_end - m_at) < count) return fault();
        std::uint64_t last = 0;
        for (std::size_t i = 0; i < count; ++i) {
            last += unzigzag(varint());
            if (m_failed || !set(i, static_cast<std::int64_t>(last))) return fault();
        }
        return true;
    }

    template <class Set>
    bool packedDeltas(std::size_t count, Set set) {
        if (count == 0) return fault();
        std::uint64_t last = unzigzag(varint());
        if (m_failed || !set(0, static_cast<std::int64_t>(last))) return fault();
        return packed(count - 1, [&](std::size_t i, std::uint64_t difference) {
            last += difference;
            return set(i + 1, static_cast<std::int64_t>(last));
        });
    }

    /// Skips the bits of `count` packed rows; their first byte, or null.
    const char* takePacked(std::size_t count, Packing& packing) {
        packing.base = unzigzag(varint());
        packing.scale = varint();
        packing.width = take();
        if (m_failed || packing.width < 0 || packing.width > kWidestPacked) return nullptr;
        const std::size_t bytes = packedBytes(count, packing.width);
        if (static_cast<std::size_t>(m_end - m_at) < bytes) return nullptr;
        m_at += bytes;
        return m_at - bytes;
    }

    template <class Set>
    bool packed(std::size_t count, Set set) {
        Packing p;
        const char* bits = takePacked(count, p);
        if (bits == nullptr) return fault();
        const auto width = static_cast<std::size_t>(p.width);
        const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
        const auto take = [&](std::size_t i, std::size_t bytes) {
            std::uint64_t word = 0;
            std::memcpy(&word, bits + i * width / 8, bytes);
            return set(i, p.base + p.scale * ((word >> (i * width % 8)) & mask));
        };
        // Near its end the blob may end within the eight bytes.
        const auto left = static_cast<std::size_t>(m_end - bits);
        std::size_t i = 0;
        for (; i < count && i * width / 8 + 8 <= left; ++i)
            if (!take(i, 8)) return fault();
        for (; i < count; ++i)
            if (!take(i, left - std::min(left, i * width / 8))) return fault();
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

/// The next column into one field of every row; a value that does not fit is a failure. A column
/// that the row has no field for is passed over.
template <class Row, class Access>
bool field(Reader& in, std::span<Row> rows, Access access) {
    if constexpr (std::is_invocable_v<Access, Row&>)
        return in.integers(
            [&](std::size_t i, std::int64_t v) { return narrow(v, access(rows[i])); });
    else
        return in.skip();
}

/// The same for a field that is an enumeration.
template <class Row, class Access>
bool word(Reader& in, std::span<Row> rows, Access access, const std::vector<int>& table) {
    if constexpr (std::is_invocable_v<Access, Row&>)
        return in.integers(
            [&](std::size_t i, std::int64_t v) { return decodeEnum(v, table, access(rows[i])); });
    else
        return in.skip();
}

/// The same for a double.
template <class Row, class Access>
bool real(Reader& in, std::span<Row> rows, Access access) {
    if constexpr (std::is_invocable_v<Access, Row&>)
        return in.doubles([&](std::size_t i, double v) { access(rows[i]) = v; });
    else
        return in.skip();
}

}  // namespace piper::columns
