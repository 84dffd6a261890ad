// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace piper {

/// One row of an enumeration's table: the value and its stable name in files and commands.
template <class E>
struct EnumName {
    E value;
    std::string_view name;
};

/// Each enumeration that appears in a file specialises
///   `template <> std::span<const EnumName<E>> enumNames<E>();`
/// once, in the .cpp of its room. Order of the rows is the order in messages.
template <class E>
[[nodiscard]] std::span<const EnumName<E>> enumNames();

template <class E>
[[nodiscard]] std::string_view toText(E value) {
    for (const EnumName<E>& row : enumNames<E>())
        if (row.value == value) return row.name;
    PIPER_CHECK(!"enumeration value without a name");
    return {};
}

/// The candidate with the smallest edit distance to `word`; empty without candidates.
[[nodiscard]] std::string nearestWord(std::string_view word,
                                      std::span<const std::string_view> candidates);

[[nodiscard]] constexpr bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

/// "a, b, c" of the candidates.
[[nodiscard]] std::string joinWords(std::span<const std::string_view> words);

/// Errors: InvalidInput names the word, the nearest legal one and all legal ones.
template <class E>
[[nodiscard]] Result<E> parseEnum(std::string_view text, std::string_view what) {
    std::vector<std::string_view> names;
    for (const EnumName<E>& row : enumNames<E>()) {
        if (row.name == text) return row.value;
        names.push_back(row.name);
    }
    Error error = fail(ErrorCode::InvalidInput, "unknown {} '{}'; nearest known: '{}'", what, text,
                       nearestWord(text, names));
    error.hint = fmt::format("legal values: {}", joinWords(names));
    return error;
}

}  // namespace piper
