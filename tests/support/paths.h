// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace piper::test {

/// Root of the sources, and of the build tree (programs in its bin/).
[[nodiscard]] std::filesystem::path sourceDir();
[[nodiscard]] std::filesystem::path binaryDir();
/// A program of this build: program("piperctl").
[[nodiscard]] std::string program(std::string_view name);
/// The whole file; the test fails when it cannot be read.
[[nodiscard]] std::string readText(const std::filesystem::path& path);

/// A new empty directory, removed with its content at the end of its scope.
class TemporaryDirectory {
public:
    TemporaryDirectory();
    ~TemporaryDirectory();
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    [[nodiscard]] const std::filesystem::path& path() const { return m_path; }

private:
    std::filesystem::path m_path;
};

}  // namespace piper::test
