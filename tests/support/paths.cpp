// SPDX-License-Identifier: Apache-2.0
#include "tests/support/paths.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace piper::test {

std::filesystem::path sourceDir() {
    return PIPER_SOURCE_DIR;
}
std::filesystem::path binaryDir() {
    return PIPER_BINARY_DIR;
}

std::string program(std::string_view name) {
    return (binaryDir() / "bin" / name).string();
}

std::string readText(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    EXPECT_TRUE(in.good()) << "cannot read " << path;
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

TemporaryDirectory::TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "piper-test-XXXXXX").string();
    const char* made = ::mkdtemp(name.data());
    EXPECT_NE(made, nullptr);
    m_path = name;
}

TemporaryDirectory::~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(m_path, ignored);
}

}  // namespace piper::test
