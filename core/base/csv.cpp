// SPDX-License-Identifier: Apache-2.0
#include "core/base/csv.h"

#include <charconv>
#include <cmath>

namespace piper {
namespace {

std::string trimmed(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r";
    const std::size_t first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos) return {};
    return std::string(text.substr(first, text.find_last_not_of(kBlank) - first + 1));
}

/// Reads one row; `position` and `line` move behind it.
Result<std::vector<std::string>> readRow(std::string_view text, std::size_t& position,
                                         std::size_t& line, std::string_view where) {
    const std::size_t first_line = line;
    std::vector<std::string> cells;
    std::string cell;
    bool quoted = false;
    while (position < text.size()) {
        const char c = text[position++];
        if (c == '\n') ++line;
        if (quoted) {
            if (c != '"') {
                cell += c;
            } else if (position < text.size() && text[position] == '"') {
                cell += text[position++];
            } else {
                quoted = false;
            }
            continue;
        }
        if (c == '\n') {
            cells.push_back(trimmed(cell));
            return cells;
        }
        if (c == ',') {
            cells.push_back(trimmed(cell));
            cell.clear();
        } else if (c == '"' && trimmed(cell).empty()) {
            quoted = true;
        } else {
            cell += c;
        }
    }
    if (quoted)
        return fail(ErrorCode::InvalidInput, "the quote of line {} does not end", first_line)
            .at(std::string(where));
    cells.push_back(trimmed(cell));
    return cells;
}

}  // namespace

Result<CsvTable> CsvTable::parse(std::string_view text, std::string_view where) {
    CsvTable table;
    table.m_where = where;
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    std::size_t position = 0, line = 1;
    PIPER_ASSIGN(const std::vector<std::string> header, readRow(text, position, line, where));
    for (std::size_t i = 0; i < header.size(); ++i)
        if (!header[i].empty() && !table.m_columns.emplace(header[i], i).second)
            return fail(ErrorCode::InvalidInput, "column '{}' is there twice", header[i])
                .at(table.m_where);
    if (table.m_columns.empty())
        return fail(ErrorCode::InvalidInput, "no header line with column names").at(table.m_where);
    while (position < text.size()) {
        const std::size_t first_line = line;
        PIPER_ASSIGN(std::vector<std::string> row, readRow(text, position, line, where));
        if (row.size() == 1 && row[0].empty()) continue;
        if (row.size() != header.size())
            return fail(ErrorCode::InvalidInput, "line {} has {} cells, the header {}", first_line,
                        row.size(), header.size())
                .at(table.m_where);
        table.m_rows.push_back(std::move(row));
        table.m_lines.push_back(first_line);
    }
    return table;
}

bool CsvTable::hasColumn(std::string_view column) const {
    return m_columns.find(column) != m_columns.end();
}

std::string_view CsvTable::at(std::size_t row, std::string_view column) const {
    const auto found = m_columns.find(column);
    return found == m_columns.end() ? std::string_view() : m_rows[row][found->second];
}

Status CsvTable::require(const std::vector<std::string_view>& columns) const {
    std::string missing;
    for (std::string_view column : columns)
        if (!hasColumn(column)) missing += (missing.empty() ? "" : ", ") + std::string(column);
    if (missing.empty()) return {};
    Error error =
        fail(ErrorCode::InvalidInput, "missing columns: {}", missing).at(m_where + ": line 1");
    error.hint = "docs/formats.md lists the columns of the table";
    return error;
}

Result<std::vector<std::string>> csvCells(std::string_view line, std::size_t line_number,
                                          std::string_view where) {
    std::size_t position = 0;
    return readRow(line, position, line_number, where);
}

std::optional<double> numberIn(std::string_view text) {
    double value = 0.0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
    return value;
}

Result<double> parseNumber(std::string_view text) {
    const std::optional<double> value = numberIn(text);
    if (!value) return fail(ErrorCode::InvalidInput, "'{}' is not a number", text);
    return *value;
}

Result<std::int64_t> parseWhole(std::string_view text) {
    const Result<double> value = parseNumber(text);
    if (!value.ok() || *value != std::floor(*value) || std::abs(*value) > 1e15)
        return fail(ErrorCode::InvalidInput, "'{}' is not a whole number", text);
    return static_cast<std::int64_t>(*value);
}

}  // namespace piper
