// SPDX-License-Identifier: Apache-2.0
#include "sessions/job_directory.h"

#include <gmock/gmock.h>
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

TEST(JobDirectory, IsNamedInOneWayAndEndsWithTheNameOfAJob) {
    for (const char* same : {"/jobs/a", "/jobs/a/", "/jobs//a///", "/jobs/./a/.", "/jobs/b/../a"}) {
        const Result<std::string> directory = checkJobDirectory(same);
        ASSERT_TRUE(directory.ok()) << directory.error().text();
        EXPECT_EQ(*directory, "/jobs/a") << same;
    }
    for (const char* none : {"", "/", "jobs/a", "a", "..", "/..", "//", "/jobs/.."}) {
        const Result<std::string> directory = checkJobDirectory(none);
        ASSERT_FALSE(directory.ok()) << *directory;
        EXPECT_EQ(directory.error().code, ErrorCode::InvalidInput);
        EXPECT_THAT(directory.error().message,
                    ::testing::HasSubstr("'" + std::string(none) + "' is no directory of a job"));
    }
    // Files of a job are kept below a directory of its name: it is never one above.
    EXPECT_EQ(*checkJobDirectory("/there/jobs/.."), "/there");
    EXPECT_EQ(jobName(*checkJobDirectory("/there/jobs/a/../..")), "there");
}

}  // namespace
}  // namespace piper
