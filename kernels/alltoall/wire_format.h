// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/enum_text.h"

namespace piper {

/// How a row of floats travels. Bf16: rounded to nearest even. Fp8: e4m3 with one float scale for
/// every 128 elements, amax / 448. Sums on the way are made in floats and rounded once a hop.
enum class WireFormat { Fp32, Bf16, Fp8 };

/// Unit: bytes of one row of `hidden` elements.
[[nodiscard]] std::int64_t wireRowBytes(WireFormat format, std::int64_t hidden);

/// row [hidden] -> wireRowBytes at `to`, and back.
void encodeRow(WireFormat format, std::span<const float> row, std::byte* to);
void decodeRow(WireFormat format, const std::byte* from, std::span<float> row);
/// row += what lies at `from`.
void addDecodedRow(WireFormat format, const std::byte* from, std::span<float> row);

}  // namespace piper
