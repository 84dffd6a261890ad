// SPDX-License-Identifier: Apache-2.0
#include "app/piperctl/output.h"

#include "core/base/json.h"

#include <algorithm>
#include <cstdio>

namespace piper::app {
namespace {

/// Columns a UTF-8 text takes on a terminal, for the plain Latin and Greek text of our tables.
std::size_t columns(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

}  // namespace

void printJson(const Json& document) {
    std::fputs((document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n").c_str(),
               stdout);
}

int printError(const Error& error) {
    printMessage("piperctl: error: " + error.text());
    return exitStatus(error.code);
}

void printMessage(std::string_view text) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

std::string percent(double ratio) {
    return fmt::format("{:.1f} %", 100.0 * ratio);
}

std::string TextTable::text() const {
    std::vector<std::size_t> widths(m_rows.front().size(), 0);
    for (const auto& row : m_rows)
        for (std::size_t c = 0; c < row.size(); ++c)
            widths[c] = std::max(widths[c], columns(row[c]));
    std::string out;
    for (const auto& row : m_rows) {
        std::string line;
        for (std::size_t c = 0; c < row.size(); ++c) {
            const std::string blanks(widths[c] - columns(row[c]), ' ');
            line += c == 0 ? row[c] + blanks : "  " + blanks + row[c];
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    }
    return out;
}

}  // namespace piper::app
