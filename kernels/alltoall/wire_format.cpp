// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/wire_format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace piper {

template <>
std::span<const EnumName<WireFormat>> enumNames<WireFormat>() {
    static constexpr EnumName<WireFormat> rows[] = {
        {WireFormat::Fp32, "fp32"}, {WireFormat::Bf16, "bf16"}, {WireFormat::Fp8, "fp8"}};
    return rows;
}

namespace {

constexpr std::size_t kScaled = 128;  ///< elements under one scale
constexpr float kLargestE4m3 = 448.0F;

std::uint16_t toBf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U)  // stays a NaN
        return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

float fromBf16(std::uint16_t value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

float decodeE4m3(std::uint8_t code) {
    const int exponent = (code >> 3) & 15, mantissa = code & 7;
    if (exponent == 15 && mantissa == 7) return std::nanf("");
    const float magnitude = exponent == 0
                                ? std::ldexp(static_cast<float>(mantissa), -9)
                                : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    return (code & 0x80) != 0 ? -magnitude : magnitude;
}

const std::array<float, 256>& e4m3Table() {
    static const std::array<float, 256> kTable = [] {
        std::array<float, 256> table{};
        for (std::size_t code = 0; code < table.size(); ++code)
            table[code] = decodeE4m3(static_cast<std::uint8_t>(code));
        return table;
    }();
    return kTable;
}

/// Nearest e4m3 value, ties to the even code; above the largest one: the largest one.
std::uint8_t encodeE4m3(float value) {
    const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
    const float magnitude = std::fabs(value);
    if (std::isnan(value)) return static_cast<std::uint8_t>(sign | 0x7F);
    if (magnitude == 0.0F) return sign;
    if (magnitude >= kLargestE4m3) return static_cast<std::uint8_t>(sign | 0x7E);
    int exponent = 0;
    std::frexp(magnitude, &exponent);  // magnitude < 2^exponent
    const int step = std::max(exponent - 4, -9);
    const auto steps = static_cast<int>(std::nearbyintf(std::ldexp(magnitude, -step)));
    const int code = step == -9 ? steps : (step + 9) * 8 + steps;
    return static_cast<std::uint8_t>(sign | code);
}

void encodeFp8(std::span<const float> row, std::byte* to) {
    std::byte* codes = to;
    std::byte* scales = to + row.size();
    for (std::size_t begin = 0; begin < row.size(); begin += kScaled) {
        const std::size_t end = std::min(begin + kScaled, row.size());
        float largest = 0.0F;
        for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(row[i]));
        const float scale = largest > 0.0F ? largest / kLargestE4m3 : 1.0F;
        for (std::size_t i = begin; i < end; ++i)
            codes[i] = static_cast<std::byte>(encodeE4m3(row[i] / scale));
        std::memcpy(scales + begin / kScaled * sizeof(float), &scale, sizeof scale);
    }
}

template <bool kAdd>
void decode(WireFormat format, const std::byte* from, std::span<float> row) {
    const auto put = [&](std::size_t i, float value) {
        if constexpr (kAdd)
            row[i] += value;
        else
            row[i] = value;
    };
    if (format == WireFormat::Fp32) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            float value = 0.0F;
            std::memcpy(&value, from + i * sizeof value, sizeof value);
            put(i, value);
        }
    } else if (format == WireFormat::Bf16) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            std::uint16_t value = 0;
            std::memcpy(&value, from + i * sizeof value, sizeof value);
            put(i, fromBf16(value));
        }
    } else {
        const std::array<float, 256>& table = e4m3Table();
        for (std::size_t i = 0; i < row.size(); ++i) {
            float scale = 0.0F;
            std::memcpy(&scale, from + row.size() + i / kScaled * sizeof scale, sizeof scale);
            put(i, table[std::to_integer<std::size_t>(from[i])] * scale);
        }
    }
}

}  // namespace

std::int64_t wireRowBytes(WireFormat format, std::int64_t hidden) {
    constexpr auto kGroup = static_cast<std::int64_t>(kScaled);
    switch (format) {
        case WireFormat::Bf16:
            return 2 * hidden;
        case WireFormat::Fp8:
            return hidden + (hidden + kGroup - 1) / kGroup * 4;
        case WireFormat::Fp32:
            break;
    }
    return 4 * hidden;
}

void encodeRow(WireFormat format, std::span<const float> row, std::byte* to) {
    if (format == WireFormat::Fp32) {
        if (!row.empty()) std::memcpy(to, row.data(), row.size_bytes());
    } else if (format == WireFormat::Bf16) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::uint16_t value = toBf16(row[i]);
            std::memcpy(to + i * sizeof value, &value, sizeof value);
        }
    } else {
        encodeFp8(row, to);
    }
}

void decodeRow(WireFormat format, const std::byte* from, std::span<float> row) {
    decode<false>(format, from, row);
}

void addDecodedRow(WireFormat format, const std::byte* from, std::span<float> row) {
    decode<true>(format, from, row);
}

}  // namespace piper
