// SPDX-License-Identifier: Apache-2.0
#include "sessions/job_directory.h"

#include <gtest/gtest.h>

namespace piper {
namespace {

TEST(JobStatus, ReadsWhatTheWorkerWrites) {
    const Result<JobStatus> s = parseJobStatus(
        R"({"format_version": 1, "state": "running", "step": 3, "steps": 20, "loss": 4.812,
            "tokens_per_second": 5120.5, "message": ""})",
        "status.json");
    ASSERT_TRUE(s.ok()) << s.error().text();
    EXPECT_EQ(s->state, JobState::Running);
    EXPECT_EQ(s->step, 3);
    EXPECT_EQ(s->steps, 20);
    EXPECT_DOUBLE_EQ(s->loss, 4.812);
    EXPECT_FALSE(isFinal(s->state));
}

TEST(JobStatus, UnknownStateNamesTheLegalOnes) {
    const Result<JobStatus> s = parseJobStatus(R"({"state": "runing"})", "status.json");
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().text().find("'running'"), std::string::npos) << s.error().text();
}

TEST(JobStatus, HalfADocumentIsAnError) {
    EXPECT_FALSE(parseJobStatus(R"({"state": "run)", "status.json").ok());
}

TEST(JobName, IsUniqueAndHarmless) {
    const std::string a = newJobName("../../etc passwd");
    const std::string b = newJobName("../../etc passwd");
    EXPECT_NE(a, b);
    EXPECT_EQ(a.find('/'), std::string::npos);
    EXPECT_EQ(a.find(' '), std::string::npos);
}

}  // namespace
}  // namespace piper
