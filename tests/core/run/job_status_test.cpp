// SPDX-License-Identifier: Apache-2.0
#include "core/run/job_status.h"

#include <gtest/gtest.h>

#include "core/base/json.h"

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

TEST(JobStatus, ReadsBackWhatItWrites) {
    const JobStatus written{JobState::Failed,
                            3,
                            20,
                            4.5,
                            12.25,
                            "rank 1: disk \"full\"",
                            {{3, 1, 0, 4}, {{LayerId(2), 2.0}, {LayerId(3), 1.5}}},
                            {1 << 20, std::int64_t{5} << 32}};
    const Result<JobStatus> read = parseJobStatus(jobStatusJson(written).dump(), "status.json");
    ASSERT_TRUE(read.ok()) << read.error().text();
    EXPECT_EQ(read->state, written.state);
    EXPECT_EQ(read->step, written.step);
    EXPECT_EQ(read->steps, written.steps);
    EXPECT_DOUBLE_EQ(read->loss, written.loss);
    EXPECT_DOUBLE_EQ(read->tokens_per_second, written.tokens_per_second);
    EXPECT_EQ(read->message, written.message);
    EXPECT_EQ(read->load, written.load);
    EXPECT_EQ(read->rank_peak_bytes, written.rank_peak_bytes);
    EXPECT_TRUE(isFinal(read->state));
}

TEST(JobStatus, UnknownStateNamesTheLegalOnes) {
    const Result<JobStatus> s = parseJobStatus(R"({"state": "runing"})", "status.json");
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().text().find("'running'"), std::string::npos) << s.error().text();
}

TEST(JobStatus, AnOddLayerLoadIsNamed) {
    const Result<JobStatus> s =
        parseJobStatus(R"({"format_version": 2, "layer_load": [{"layer": 0, "hotest": 1}]})", "f");
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().text().find("layer_load[0]"), std::string::npos) << s.error().text();
}

TEST(JobStatus, HalfADocumentIsAnError) {
    EXPECT_FALSE(parseJobStatus(R"({"state": "run)", "status.json").ok());
}

}  // namespace
}  // namespace piper
