// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace piper {

/// A table of comma-separated values with a header line; quotes as in RFC 4180.
class CsvTable {
public:
    /// Errors: InvalidInput names the line: a quote that does not end, a row with another number
    /// of cells than the header, a column there twice, no header.
    [[nodiscard]] static Result<CsvTable> parse(std::string_view text, std::string_view where);

    [[nodiscard]] std::size_t size() const { return m_rows.size(); }
    [[nodiscard]] bool hasColumn(std::string_view column) const;
    /// Empty where the column is not there. Outer blanks are gone.
    [[nodiscard]] std::string_view at(std::size_t row, std::string_view column) const;
    /// Line of the file on which a row starts, from 1.
    [[nodiscard]] std::size_t line(std::size_t row) const { return m_lines[row]; }
    /// Errors: InvalidInput names every column that is not there.
    [[nodiscard]] Status require(const std::vector<std::string_view>& columns) const;

private:
    std::string m_where;
    std::map<std::string, std::size_t, std::less<>> m_columns;
    std::vector<std::vector<std::string>> m_rows;
    std::vector<std::size_t> m_lines;
};

/// Cells of one line, outer blanks gone. Errors: InvalidInput for a quote that does not end.
[[nodiscard]] Result<std::vector<std::string>> csvCells(std::string_view line,
                                                        std::size_t line_number,
                                                        std::string_view where);

/// The whole text as a finite number; nothing when it is none.
[[nodiscard]] std::optional<double> numberIn(std::string_view text);
/// The whole text as a number. Errors: InvalidInput quotes it.
[[nodiscard]] Result<double> parseNumber(std::string_view text);
/// The whole text as a whole number, also "4.0". Errors: InvalidInput quotes it.
[[nodiscard]] Result<std::int64_t> parseWhole(std::string_view text);

}  // namespace piper
