// SPDX-License-Identifier: Apache-2.0
// The host side of the device check: processes of their own, and times in turns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "kernels/cuda/check/isolate.h"
#include "kernels/cuda/check/runner.h"
#include "kernels/cuda/check/timing.h"
#include "tests/support/paths.h"

namespace piper::cuda {
namespace {

using testing::HasSubstr;

Ending shell(const std::string& script, int seconds = 30) {
    return runIsolated({"sh", "-c", script}, seconds);
}

TEST(Isolated, OutputAndStatusComeBack) {
    const Ending ending = shell("echo one; echo two >&2; exit 3");
    EXPECT_EQ(ending.output, "one\ntwo\n");
    EXPECT_EQ(ending.status, 3);
    EXPECT_EQ(ending.fault(30), "exit status 3");
    EXPECT_TRUE(shell("true").clean());
    EXPECT_EQ(shell("true").fault(30), "");
}

TEST(Isolated, ACrashIsNamed) {
    const Ending ending = shell("kill -SEGV $$");
    EXPECT_EQ(ending.status, 128 + SIGSEGV);
    EXPECT_THAT(ending.fault(30), HasSubstr("signal 11"));
}

/// Gone within 5 s, or waiting for somebody to ask how it ended.
bool endsSoon(int process) {
    for (int i = 0; i < 500; ++i) {
        std::ifstream in("/proc/" + std::to_string(process) + "/stat");
        std::string line;
        if (!std::getline(in, line) || line.find(") Z") != std::string::npos) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
}

TEST(Isolated, AHangIsEndedWithItsChildren) {
    const Ending ending = shell("sleep 1000 & echo $!; wait", 1);
    EXPECT_TRUE(ending.timed_out);
    EXPECT_TRUE(endsSoon(std::stoi(ending.output)));
    EXPECT_EQ(ending.fault(1), "no answer in 1 s");
}

TEST(Isolated, AProgramThatIsMissingIsSaid) {
    const Ending ending = runIsolated({"no-such-program-here"}, 30);
    EXPECT_FALSE(ending.clean());
    EXPECT_THAT(ending.output, HasSubstr("No such file"));
}

/// A stand-in for the program: its cases crash, hang, differ or are right by name.
class RunnerRows : public testing::Test {
protected:
    void SetUp() override {
        const auto file = m_folder.path() / "program";
        std::ofstream(file) << "#!/bin/sh\n"
                               "for word; do\n"
                               "case \"$word\" in\n"
                               "*right*) echo '1e-6 1e-5'; exit 0;;\n"
                               "*wrong*) echo '3 1e-5'; exit 1;;\n"
                               "*absent*) exit 77;;\n"
                               "*crash*) echo 'about to crash'; kill -SEGV $$;;\n"
                               "*timed*) echo \"timed $*\"; exit 0;;\n"
                               "esac\ndone\n";
        std::filesystem::permissions(file, std::filesystem::perms::owner_all);
        m_options.program = file.string();
        m_options.plugin = "a.so";
    }
    static CorrectnessCase named(const char* name, bool hopper = false) {
        return {name, {}, hopper};
    }
    /// Output of comparing and timing.
    std::string rows(std::vector<CorrectnessCase> cases, std::vector<TimingCase> timings,
                     int faults) {
        Runner runner(m_options, std::move(cases), std::move(timings));
        testing::internal::CaptureStdout();
        const int found = runner.compareAll(false) + runner.timeAll();
        EXPECT_EQ(found, faults);
        return testing::internal::GetCapturedStdout();
    }

    test::TemporaryDirectory m_folder;
    RunnerOptions m_options;
};

TEST_F(RunnerRows, AFaultIsARowAndTheRestGoesOn) {
    const std::string text = rows(
        {named("a crash"), named("b right"), named("c wrong"), named("d absent"), named("e right")},
        {}, 2);
    EXPECT_THAT(text, testing::ContainsRegex("a crash +FAILED: signal 11.*\n    about to crash\n"));
    EXPECT_THAT(text, testing::ContainsRegex("b right +1e-6 1e-5  ok\n"));
    EXPECT_THAT(text, testing::ContainsRegex("c wrong +3 1e-5  DIFFERS\n"));
    EXPECT_THAT(text, testing::ContainsRegex("d absent +not on this device\n"));
    EXPECT_THAT(text, testing::ContainsRegex("e right +1e-6 1e-5  ok\n"));
}

TEST_F(RunnerRows, WhatDiffersIsNotTimed) {
    const std::string text =
        rows({named("permute wrong"), named("swiglu right")},
             {{"timed permute", {}, {"permute"}}, {"timed swiglu", {}, {"swiglu"}}}, 1);
    EXPECT_THAT(text, HasSubstr("timed permute: not timed, it differs or fails above\n"));
    EXPECT_THAT(text, HasSubstr("timed --device 0 --plugin a.so --timing timed swiglu\n"));
}

TEST_F(RunnerRows, AHopperFaultLeavesThePortablePathToBeTimed) {
    const std::string text = rows({named("portable right"), named("hopper wrong", true)},
                                  {{"timed x", {}, {"portable"}}}, 1);
    EXPECT_THAT(text, HasSubstr("--timing timed x --without-hopper\n"));
}

TEST_F(RunnerRows, NothingIsBegunWhenTheTimeIsOver) {
    m_options.seconds = 0;
    const std::string text = rows({named("a right")}, {{"timed x", {}, {}}}, 1);
    EXPECT_EQ(text, "1 comparisons not begun: 0 s are over\ntimed x: not begun, 0 s are over\n");
}

TEST_F(RunnerRows, ASanitizerThatDoesNotWorkIsOneLine) {
    m_options.sanitizer = "no-such-sanitizer";
    Runner runner(m_options, {named("a right")}, {});
    testing::internal::CaptureStdout();
    EXPECT_EQ(runner.compareAll(true), 0);
    EXPECT_EQ(testing::internal::GetCapturedStdout(),
              "not run, compute-sanitizer does not work here (exit status 127): "
              "no-such-sanitizer: No such file or directory\n");
}

TEST(Timing, SpreadIsMedianAndTheMiddle80Percent) {
    std::vector<double> values;
    for (int i = 10; i >= 0; --i) values.push_back(i);
    const Spread spread = spreadOf(values);
    EXPECT_EQ(spread.median, 5);
    EXPECT_EQ(spread.p10, 1);
    EXPECT_EQ(spread.p90, 9);
    EXPECT_EQ(spreadOf({7}).p90, 7);
}

/// A device whose clock the queued calls push on.
double elapsed_seconds = 0;
PiperCudaApi clockApi() {
    PiperCudaApi api{};
    api.lastError = [] { return ""; };
    api.deviceInfo = [](std::int32_t, PiperCudaDevice*) { return int{PIPER_CUDA_OK}; };
    api.openContext = [](std::int32_t, PiperCudaContext**) { return int{PIPER_CUDA_OK}; };
    api.closeContext = [](PiperCudaContext*) {};
    api.startTimer = [](PiperCudaContext*) {
        elapsed_seconds = 0;
        return int{PIPER_CUDA_OK};
    };
    api.stopTimer = [](PiperCudaContext*, double* seconds) {
        *seconds = elapsed_seconds;
        return int{PIPER_CUDA_OK};
    };
    return api;
}

TEST(Timing, VariantsTakeTurnsAndTheFirstIsItsOwnNoise) {
    const PiperCudaApi api = clockApi();
    const Device device(api, 0);
    std::string order;
    const auto comparison = compareVariants(device,
                                            {{"a",
                                              [&] {
                                                  order += 'a';
                                                  elapsed_seconds += 1e-3;
                                              },
                                              5e9},
                                             {"b",
                                              [&] {
                                                  order += 'b';
                                                  elapsed_seconds += 4e-3;
                                              },
                                              5e9}},
                                            5);
    EXPECT_EQ(comparison.rounds, 5);
    EXPECT_EQ(comparison.calls, 2);  // 2 ms
    EXPECT_EQ(order,
              "aabb"
              "aabaa"
              "aabaa"
              "aabaa"
              "aabaa"
              "aabaa");
    ASSERT_EQ(comparison.variants.size(), 2U);
    EXPECT_DOUBLE_EQ(comparison.variants[0].seconds.median, 1e-3);
    EXPECT_DOUBLE_EQ(comparison.variants[1].seconds.median, 4e-3);
    EXPECT_DOUBLE_EQ(comparison.variants[1].ratio.median, 4);
    EXPECT_DOUBLE_EQ(comparison.noise.median, 1);
}

}  // namespace
}  // namespace piper::cuda
