// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace piper {

/// Texts numbered in the order in which they first came.
class NameTable {
public:
    /// The number of the text, a new one for a new text.
    std::int32_t intern(std::string_view text);
    [[nodiscard]] std::size_t size() const { return m_names.size(); }
    [[nodiscard]] const std::string& operator[](std::size_t i) const { return m_names[i]; }
    [[nodiscard]] const std::vector<std::string>& names() const { return m_names; }
    /// Takes the texts out; the table is empty afterwards.
    [[nodiscard]] std::vector<std::string> take();

private:
    struct Slot {
        std::uint32_t hash = 0;
        std::int32_t name = -1;
    };
    void grow();

    std::vector<std::string> m_names;
    std::vector<Slot> m_slots;  ///< a power of two of them, at most half full
};

}  // namespace piper
