// SPDX-License-Identifier: Apache-2.0
// The host side of the device check: processes of their own, and times in turns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/check/isolate.h"
#include "kernels/cuda/check/timing.h"

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

TEST(Isolated, AHangIsEndedWithItsChildren) {
    const Ending ending = shell("echo begun; sleep 1000 & wait", 1);
    EXPECT_TRUE(ending.timed_out);
    EXPECT_EQ(ending.output, "begun\n");
    EXPECT_EQ(ending.fault(1), "no answer in 1 s");
}

TEST(Isolated, AProgramThatIsMissingIsSaid) {
    const Ending ending = runIsolated({"no-such-program-here"}, 30);
    EXPECT_FALSE(ending.clean());
    EXPECT_THAT(ending.output, HasSubstr("No such file"));
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
