// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/check.h"

namespace piper {

using Vector = std::span<float>;
using ConstVector = std::span<const float>;
/// Token ids, expert ids, row numbers.
using Indices = std::span<std::int32_t>;
using ConstIndices = std::span<const std::int32_t>;

/// A contiguous row-major matrix that somebody else owns. Element may be const.
template <class Element>
struct BasicMatrix {
    Element* data = nullptr;
    std::int64_t rows = 0;
    std::int64_t cols = 0;

    constexpr BasicMatrix() = default;
    constexpr BasicMatrix(Element* d, std::int64_t r, std::int64_t c) : data(d), rows(r), cols(c) {}
    /// A writable matrix is readable.
    constexpr operator BasicMatrix<const Element>() const { return {data, rows, cols}; }

    [[nodiscard]] constexpr std::int64_t size() const { return rows * cols; }
    [[nodiscard]] constexpr std::size_t count() const { return static_cast<std::size_t>(size()); }
    [[nodiscard]] constexpr Element* row(std::int64_t r) const { return data + r * cols; }
    [[nodiscard]] constexpr Element& at(std::int64_t r, std::int64_t c) const {
        return data[r * cols + c];
    }
    [[nodiscard]] constexpr std::span<Element> span() const { return {data, count()}; }
    /// Rows [first, first + n).
    [[nodiscard]] BasicMatrix slice(std::int64_t first, std::int64_t n) const {
        PIPER_CHECK(first >= 0 && n >= 0 && first + n <= rows);
        return {data + first * cols, n, cols};
    }
    /// The same elements under another shape, e.g. [tokens, heads * head_dim] as
    /// [tokens * heads, head_dim] for a norm over each head.
    [[nodiscard]] BasicMatrix reshaped(std::int64_t r, std::int64_t c) const {
        PIPER_CHECK(r * c == size());
        return {data, r, c};
    }
};

using Matrix = BasicMatrix<float>;
using ConstMatrix = BasicMatrix<const float>;

/// Blocks of columns at equal distances.
struct ColumnBlocks {
    std::int64_t first = 0, stride = 0;
};

/// Whether an output is set or added to.
enum class Store { Overwrite, Accumulate };

}  // namespace piper
