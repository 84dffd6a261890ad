// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace piper {

/// A number with a unit. Bytes and FLOPs are exact up to 2^53, more than any plan reaches.
template <class Tag>
struct Quantity {
    double value = 0.0;

    constexpr Quantity() = default;
    constexpr explicit Quantity(double v) : value(v) {}

    constexpr auto operator<=>(const Quantity&) const = default;
    constexpr Quantity& operator+=(Quantity o) {
        value += o.value;
        return *this;
    }
    constexpr Quantity& operator-=(Quantity o) {
        value -= o.value;
        return *this;
    }
    constexpr Quantity& operator*=(double s) {
        value *= s;
        return *this;
    }
    friend constexpr Quantity operator+(Quantity a, Quantity b) {
        return Quantity(a.value + b.value);
    }
    friend constexpr Quantity operator-(Quantity a, Quantity b) {
        return Quantity(a.value - b.value);
    }
    friend constexpr Quantity operator*(Quantity a, double s) { return Quantity(a.value * s); }
    friend constexpr Quantity operator*(double s, Quantity a) { return Quantity(a.value * s); }
    friend constexpr Quantity operator/(Quantity a, double s) { return Quantity(a.value / s); }
    /// Ratio of two of a kind: a plain number.
    friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }
};

using Bytes = Quantity<struct BytesTag>;
using Seconds = Quantity<struct SecondsTag>;
using Flops = Quantity<struct FlopsTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) {
    return Seconds(b.value / r.value);
}
constexpr Seconds operator/(Flops f, FlopsPerSecond r) {
    return Seconds(f.value / r.value);
}
constexpr BytesPerSecond operator/(Bytes b, Seconds s) {
    return BytesPerSecond(b.value / s.value);
}
constexpr FlopsPerSecond operator/(Flops f, Seconds s) {
    return FlopsPerSecond(f.value / s.value);
}
constexpr Bytes operator*(BytesPerSecond r, Seconds s) {
    return Bytes(r.value * s.value);
}
constexpr Flops operator*(FlopsPerSecond r, Seconds s) {
    return Flops(r.value * s.value);
}

constexpr Bytes bytes(double v) {
    return Bytes(v);
}
constexpr Bytes gib(double v) {
    return Bytes(v * 1073741824.0);
}
constexpr Bytes mib(double v) {
    return Bytes(v * 1048576.0);
}
constexpr Bytes gb(double v) {
    return Bytes(v * 1e9);
}
constexpr Seconds seconds(double v) {
    return Seconds(v);
}
constexpr Seconds microseconds(double v) {
    return Seconds(v * 1e-6);
}
constexpr Seconds nanoseconds(double v) {
    return Seconds(v * 1e-9);
}
constexpr Flops flops(double v) {
    return Flops(v);
}
constexpr Flops tflop(double v) {
    return Flops(v * 1e12);
}
constexpr FlopsPerSecond tflops(double v) {
    return FlopsPerSecond(v * 1e12);
}
/// Gigabytes (1e9) a second.
constexpr BytesPerSecond gbps(double v) {
    return BytesPerSecond(v * 1e9);
}
/// Gigabits (1e9) a second, as NICs are sold.
constexpr BytesPerSecond gbitps(double v) {
    return BytesPerSecond(v * 1e9 / 8.0);
}

constexpr double inGiB(Bytes b) {
    return b.value / 1073741824.0;
}
constexpr double inGB(Bytes b) {
    return b.value / 1e9;
}
constexpr double inTflops(FlopsPerSecond f) {
    return f.value / 1e12;
}
/// Whole nanoseconds, rounded to nearest.
constexpr std::int64_t inNs(Seconds s) {
    return static_cast<std::int64_t>(s.value * 1e9 + (s.value < 0 ? -0.5 : 0.5));
}

/// "1.50 GiB", "312 KiB", "17 B".
[[nodiscard]] std::string humanBytes(Bytes b);
/// "2.31 s", "14.2 ms", "840 us", "17 ns".
[[nodiscard]] std::string humanSeconds(Seconds s);
/// "312 TFLOP/s", "1.25 GFLOP/s".
[[nodiscard]] std::string humanFlopsPerSecond(FlopsPerSecond f);
/// "48.5 GB/s", with decimal units.
[[nodiscard]] std::string humanBytesPerSecond(BytesPerSecond r);
/// "14.2 GFLOP".
[[nodiscard]] std::string humanFlops(Flops f);

}  // namespace piper
