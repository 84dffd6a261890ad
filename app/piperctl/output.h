// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json_fwd.h"
#include "core/base/result.h"

namespace piper::app {

/// Prints a document on standard output.
void printJson(const Json& document);
/// Prints "piperctl: error: ..." with its hint on standard error; returns the exit status.
int printError(const Error& error);
/// A line on standard error.
void printMessage(std::string_view text);

/// 0.123 as "12.3 %".
[[nodiscard]] std::string percent(double ratio);

/// A text table with aligned columns: the first to the left, the others to the right.
class TextTable {
public:
    explicit TextTable(std::vector<std::string> header) : m_rows{std::move(header)} {}
    void add(std::vector<std::string> row) { m_rows.push_back(std::move(row)); }
    [[nodiscard]] std::string text() const;

private:
    std::vector<std::vector<std::string>> m_rows;
};

}  // namespace piper::app
