// SPDX-License-Identifier: Apache-2.0
#include "core/base/read_all.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace piper {
namespace {

TEST(ReadAll, TakesEveryByteOfALongText) {
    std::string text(200'000, 'x');
    text[70'000] = '\0';
    text.back() = '\n';
    std::istringstream in(text);
    EXPECT_EQ(readAll(in), text);
}

TEST(ReadAll, AnEmptyStreamIsAnEmptyText) {
    std::istringstream in("");
    EXPECT_EQ(readAll(in), "");
}

TEST(ReadAll, BrokenOffReadingIsNoText) {
    std::ifstream directory("/");  // opens, and its first read fails
    ASSERT_TRUE(directory.is_open());
    EXPECT_EQ(readAll(directory), std::nullopt);
}

/// Fails after a while, as a disk does.
class FailingBuffer final : public std::streambuf {
    int_type underflow() override {
        if (m_given) throw std::ios_base::failure("broken");
        m_given = true;
        setg(m_text, m_text, m_text + sizeof m_text - 1);
        return traits_type::to_int_type(*gptr());
    }
    bool m_given = false;
    char m_text[5] = "part";
};

TEST(ReadAll, APartIsNotPassedOffAsTheWhole) {
    FailingBuffer buffer;
    std::istream in(&buffer);
    EXPECT_EQ(readAll(in), std::nullopt);
}

}  // namespace
}  // namespace piper
