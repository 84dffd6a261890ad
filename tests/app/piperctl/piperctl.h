// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "sessions/local_connection.h"
#include "tests/support/paths.h"

namespace piper::test {

/// Runs the real program and keeps its output, its messages and its exit status.
inline CommandResult piperctl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), program("piperctl"));
    Result<CommandResult> r = openLocalConnection()->run(arguments);
    EXPECT_TRUE(r.ok()) << (r.ok() ? "" : r.error().text());
    return r.ok() ? *r : CommandResult{};
}

inline std::string example(const std::string& name) {
    return (sourceDir() / "packaging/examples" / name).string();
}

inline void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path) << text;
    ASSERT_TRUE(std::filesystem::exists(path));
}

/// The one document a --json command prints.
inline Json document(const CommandResult& r) {
    Result<Json> json = parseJson(r.output, "output");
    EXPECT_TRUE(json.ok()) << r.output << r.error_output;
    return json.ok() ? *json : Json::object();
}

}  // namespace piper::test
