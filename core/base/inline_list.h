// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <type_traits>

#include "core/base/check.h"

namespace piper {

/// At most `Most` elements, inside the object: for lists made by the million that are short by
/// their nature. One more is a fault of the program.
template <class T, std::size_t Most>
class InlineList {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    using value_type = T;
    using iterator = T*;
    using const_iterator = const T*;
    using reference = T&;
    using const_reference = const T&;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;

    InlineList() = default;
    InlineList(std::initializer_list<T> values) {
        for (const T& value : values) push_back(value);
    }

    void push_back(const T& value) {
        PIPER_CHECK(m_size < Most);
        m_values[m_size++] = value;
    }
    /// Elements equal to `value` go, the others keep their order.
    void removeAll(const T& value) {
        m_size = static_cast<std::size_t>(std::remove(begin(), end(), value) - begin());
    }

    [[nodiscard]] std::size_t size() const { return m_size; }
    [[nodiscard]] bool empty() const { return m_size == 0; }
    [[nodiscard]] T* begin() { return m_values.data(); }
    [[nodiscard]] T* end() { return m_values.data() + m_size; }
    [[nodiscard]] const T* begin() const { return m_values.data(); }
    [[nodiscard]] const T* end() const { return m_values.data() + m_size; }
    [[nodiscard]] T& operator[](std::size_t i) { return m_values[i]; }
    [[nodiscard]] const T& operator[](std::size_t i) const { return m_values[i]; }
    [[nodiscard]] const T& back() const { return m_values[m_size - 1]; }

private:
    std::array<T, Most> m_values{};
    std::size_t m_size = 0;
};

}  // namespace piper
