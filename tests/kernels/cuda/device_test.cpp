// SPDX-License-Identifier: Apache-2.0
// Runs the plugin's check where there is a device: every kernel against the host.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "tests/support/paths.h"

namespace piper::test {
namespace {

TEST(CudaDevice, EveryKernelAgreesWithTheHost) {
    const std::string command = program("piper-cuda-check") + " --correctness 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string text;
    std::array<char, 4096> part{};
    while (fgets(part.data(), part.size(), pipe) != nullptr) text += part.data();
    const int status = pclose(pipe);
    ASSERT_TRUE(WIFEXITED(status)) << text;
    if (WEXITSTATUS(status) == 3) GTEST_SKIP() << text;
    EXPECT_EQ(WEXITSTATUS(status), 0) << text;
}

}  // namespace
}  // namespace piper::test
