// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "kernels/pipeline/training.h"
#include "tests/kernels/support/tiny_run.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

using ::testing::HasSubstr;

class Checkpoint : public testing::Test {
protected:
    static Plan plan() {
        Plan out = test::tinyPlan();
        out.model.moe->expert_bias_routing = true;
        out.model.moe->scoring = ScoringFunction::Sigmoid;
        return out;
    }
    TrainingOptions options(std::int64_t steps, std::int64_t every, const std::string& resume) {
        TrainingOptions out;
        out.steps = steps;
        if (every > 0) out.checkpoint_directory = folder("").string();
        out.checkpoint_every = every;
        out.resume = resume;
        return out;
    }
    std::filesystem::path folder(const std::string& name) const {
        return m_directory.path() / "checkpoints" / name;
    }
    /// Writes a checkpoint after three steps.
    void writeThree() {
        test::TinyRun run(plan());
        const Status status = run.train(options(3, 3, ""));
        ASSERT_TRUE(status.ok()) << status.error().text();
    }
    Error resumeError(Plan changed, std::uint64_t seed = 1) {
        test::TinyRun run(std::move(changed));
        TrainingOptions o = options(6, 0, folder("").string());
        o.constants.seed = seed;
        const Status status = run.train(o);
        EXPECT_FALSE(status.ok());
        return status.ok() ? Error{} : status.error();
    }
    test::TemporaryDirectory m_directory;
};

TEST_F(Checkpoint, GoesOnToTheSameBits) {
    test::TinyRun whole(plan());
    ASSERT_TRUE(whole.train(options(7, 0, "")).ok());
    test::TinyRun first(plan()), second(plan());
    ASSERT_TRUE(first.train(options(4, 2, "")).ok());
    EXPECT_TRUE(std::filesystem::exists(folder("step-2")));
    EXPECT_TRUE(std::filesystem::exists(folder("step-4")));
    EXPECT_FALSE(std::filesystem::exists(folder("step-4.partial")));
    const Status status = second.train(options(7, 0, folder("").string()));
    ASSERT_TRUE(status.ok()) << status.error().text();
    const std::vector<double> expected = whole.losses(), got = second.losses();
    ASSERT_EQ(got.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(got[i], expected[4 + i]) << i;
    EXPECT_EQ(second.recorder.timeline().steps.front().step, 4);
}

TEST_F(Checkpoint, KeepsTheTwoNewest) {
    test::TinyRun run(plan());
    ASSERT_TRUE(run.train(options(5, 1, "")).ok());
    EXPECT_FALSE(std::filesystem::exists(folder("step-3")));
    EXPECT_TRUE(std::filesystem::exists(folder("step-4")));
    EXPECT_TRUE(std::filesystem::exists(folder("step-5")));
}

TEST_F(Checkpoint, OtherModelBatchAndSeedAreNamed) {
    writeThree();
    Plan wider = plan();
    wider.model.ffn_hidden_size = 48;
    EXPECT_THAT(resumeError(wider).text(), HasSubstr("layer 0 mlp gate is [40, 24]"));
    Plan deeper = plan();
    deeper.model.num_layers = 4;
    deeper.model.layers.push_back(LayerKind::Dense);
    EXPECT_THAT(resumeError(deeper).text(), HasSubstr("layer 3"));
    Plan larger = plan();
    larger.global_batch_size = 8;
    EXPECT_THAT(resumeError(larger).text(), HasSubstr("global_batch_size 4"));
    EXPECT_THAT(resumeError(plan(), 9).text(), HasSubstr("seed 1"));
}

TEST_F(Checkpoint, MissingAndTornFilesAreNamed) {
    EXPECT_EQ(resumeError(plan()).code, ErrorCode::NotFound);
    writeThree();
    const std::filesystem::path file = folder("step-3") / "rank-0.ckpt";
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 100);
    EXPECT_THAT(resumeError(plan()).text(), HasSubstr("rank-0.ckpt"));
    std::ofstream(file) << "something else";
    EXPECT_THAT(resumeError(plan()).text(), HasSubstr("no rank's part"));
}

TEST_F(Checkpoint, AnUnfinishedOneIsNotTaken) {
    writeThree();
    std::filesystem::copy(folder("step-3"), folder("step-9.partial"));
    const auto found = findCheckpoint(folder(""));
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->filename(), "step-3");
}

}  // namespace
}  // namespace piper
