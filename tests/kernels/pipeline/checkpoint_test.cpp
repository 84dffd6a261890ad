// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "core/base/json.h"
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

/// Makes what a run that was given up leaves: a whole later checkpoint.
TEST_F(Checkpoint, TheNewestOfThisRunIsFoundBesideLaterOnesOfAnother) {
    writeThree();
    for (const char* later : {"step-50", "step-100"})
        std::filesystem::copy(folder("step-3"), folder(later));
    test::TinyRun run(plan());
    ASSERT_TRUE(run.train(options(6, 1, folder("step-3").string())).ok());
    for (const char* kept : {"step-5", "step-6", "step-50", "step-100"})
        EXPECT_TRUE(std::filesystem::exists(folder(kept))) << kept;
    for (const char* gone : {"step-3", "step-4"})
        EXPECT_FALSE(std::filesystem::exists(folder(gone))) << gone;
    EXPECT_EQ(findCheckpoint(folder(""))->filename(), "step-6");
    test::TinyRun next(plan());
    ASSERT_TRUE(next.train(options(7, 0, folder("").string())).ok());
    EXPECT_EQ(next.recorder.timeline().steps.front().step, 6);
}

TEST_F(Checkpoint, LatestCountsOnlyWhereItNamesAWholeOne) {
    writeThree();
    std::filesystem::copy(folder("step-3"), folder("step-8"));
    for (const char* name : {"step-9", "../step-3", "", "step-3.partial"}) {
        std::ofstream(folder("latest")) << name << "\n";
        EXPECT_EQ(findCheckpoint(folder(""))->filename(), "step-8") << name;
    }
    std::filesystem::remove(folder("step-8") / "checkpoint.json");
    EXPECT_EQ(findCheckpoint(folder(""))->filename(), "step-3") << "step-8 is not whole";
}

TEST_F(Checkpoint, WhatAnEarlierAttemptLeftGoes) {
    for (const char* left : {"step-2.partial", "step-3.partial", "step-3.replaced", "step-3"})
        std::filesystem::create_directories(folder(left));
    std::ofstream(folder("step-3") / "rank-7.ckpt") << "of the earlier attempt";
    std::filesystem::create_directories(folder("step-12.partial"));
    writeThree();
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder("")))
        names.insert(entry.path().filename());
    EXPECT_EQ(names, (std::set<std::string>{"latest", "step-12.partial", "step-3"}));
    EXPECT_FALSE(std::filesystem::exists(folder("step-3") / "rank-7.ckpt"));
}

TEST_F(Checkpoint, ADirectoryThatCannotBeMadeIsAnError) {
    std::ofstream(m_directory.path() / "checkpoints") << "a file";
    test::TinyRun run(plan());
    const Status status = run.train(options(1, 1, ""));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::Io);
}

TEST_F(Checkpoint, AStopIsHeardBetweenRecords) {
    writeThree();
    test::TinyRun run(plan());
    std::vector<std::string> notes;
    ProgramRunner::Hooks hooks = run.hooks();
    hooks.noted = [&](std::string_view doing) { notes.emplace_back(doing); };
    hooks.interrupted = [&]() -> std::optional<Error> {
        if (notes.size() < 3) return std::nullopt;
        return fail(ErrorCode::Cancelled, "stopped");
    };
    const Status status = train(
        {run.plan, run.schedule, *run.transport, *run.backend, run.recorder, run.data, hooks, {}},
        options(6, 0, folder("").string()));
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::Cancelled);
    ASSERT_EQ(notes.size(), 3U);
    EXPECT_THAT(notes[0], HasSubstr("reading the checkpoint's"));
}

class CheckpointHeader : public Checkpoint {
protected:
    /// Resumes from a checkpoint whose header is `header`, with the data it has.
    Error errorWith(const std::string& header) {
        const std::filesystem::path file = folder("step-3") / "rank-0.ckpt";
        std::ofstream(file, std::ios::binary) << "piper-checkpoint 1 " << header.size() << "\n"
                                              << header << m_data;
        return resumeError(plan());
    }
    void SetUp() override {
        writeThree();
        const std::string text = test::readText(folder("step-3") / "rank-0.ckpt");
        std::size_t size = 0;
        std::istringstream first(text.substr(0, 64));
        std::string word;
        first >> word >> word >> size;
        const std::size_t begin = text.find('\n') + 1;
        m_header = Json::parse(text.substr(begin, size));
        m_data = text.substr(begin + size);
    }
    Json m_header;
    std::string m_data;
};

TEST_F(CheckpointHeader, MalformedOnesAreErrorsThatNameTheFile) {
    const auto refuse = [&](const Json& header, const char* says) {
        const Error error = errorWith(header.dump());
        EXPECT_EQ(error.code, ErrorCode::InvalidInput) << header.dump().substr(0, 200);
        EXPECT_THAT(error.text(), HasSubstr("rank-0.ckpt"));
        EXPECT_THAT(error.text(), HasSubstr(says));
    };
    refuse(Json::array(), "no list of records");
    refuse(Json::object(), "no list of records");
    refuse({{"records", 3}}, "no list of records");
    refuse({{"records", Json::array()}}, "its header names 0");
    refuse({{"records", {"text"}}}, "a name and eight integers");
    Json changed = m_header;
    for (std::size_t field = 0; field < 9; ++field) {
        changed = m_header;
        changed["records"][0][field] = field == 0 ? Json(1) : Json("1");
        refuse(changed, "a name and eight integers");
        changed["records"][0][field] = nullptr;
        refuse(changed, "a name and eight integers");
        if (field == 0) continue;
        for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{1} << 62}) {
            changed["records"][0][field] = value;
            refuse(changed, "no part of a tensor");
        }
    }
    changed = m_header;
    changed["records"][0][2] = 0;
    refuse(changed, "no part of a tensor");
    changed = m_header;
    std::swap(changed["records"][0][7], changed["records"][0][8]);
    refuse(changed, "no part of a tensor");
    EXPECT_THAT(errorWith("{").text(), HasSubstr("rank-0.ckpt"));
    std::ofstream(folder("step-3") / "rank-0.ckpt") << "piper-checkpoint 1 99999999999999\n{}";
    EXPECT_THAT(resumeError(plan()).text(), HasSubstr("99999999999999 bytes"));
}

TEST_F(CheckpointHeader, MalformedSummariesAreErrors) {
    const std::filesystem::path file = folder("step-3") / "checkpoint.json";
    const Json sound = Json::parse(test::readText(file));
    for (const char* key : {"format_version", "step", "updates", "ranks", "seed", "seq_len"})
        for (const Json& value : {Json("x"), Json(-1), Json()}) {
            Json changed = sound;
            changed[key] = value;
            std::ofstream(file) << changed.dump();
            EXPECT_EQ(resumeError(plan()).code, ErrorCode::InvalidInput) << key << value.dump();
        }
}

}  // namespace
}  // namespace piper
