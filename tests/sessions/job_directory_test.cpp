// SPDX-License-Identifier: Apache-2.0
#include "sessions/job_directory.h"

#include <gtest/gtest.h>

namespace piper {
namespace {

TEST(JobName, IsUniqueAndHarmless) {
    const std::string a = newJobName("../../etc passwd");
    const std::string b = newJobName("../../etc passwd");
    EXPECT_NE(a, b);
    EXPECT_EQ(a.find('/'), std::string::npos);
    EXPECT_EQ(a.find(' '), std::string::npos);
}

}  // namespace
}  // namespace piper
