// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/enum_text.h"

namespace piper {

/// What a counter of an import means for what was read.
enum class ImportSeverity : std::uint8_t {
    Info,      ///< worth knowing, nothing is missing
    DataLoss,  ///< a record could not be kept
    Error      ///< the file itself is at fault: truncated, damaged
};

template <>
std::span<const EnumName<ImportSeverity>> enumNames<ImportSeverity>();

/// What an import met, counted by name; the first of each kind is described.
class ImportCounters {
public:
    struct Entry {
        ImportSeverity severity = ImportSeverity::Info;
        std::int64_t count = 0;
        std::string first;  ///< the first one: where and what
    };

    void add(std::string_view name, ImportSeverity severity, std::int64_t count = 1,
             std::string_view first = {});
    [[nodiscard]] const std::map<std::string, Entry, std::less<>>& entries() const {
        return m_entries;
    }
    [[nodiscard]] std::int64_t count(std::string_view name) const;
    /// Something in the file is not in the result.
    [[nodiscard]] bool lostData() const;
    void merge(const ImportCounters& other);
    /// One line for each counter: "data_loss malformed_event: 3 (first: ...)".
    [[nodiscard]] std::string text() const;

private:
    std::map<std::string, Entry, std::less<>> m_entries;
};

}  // namespace piper
