// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/paths.h"

namespace piper::cuda {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string module(const std::string& name) {
    return (test::binaryDir() / "lib" / ("lib" + name + ".so")).string();
}

/// Refused with one line that holds the words.
void expectRefused(const LoadedPlugin& plugin, const std::string& words) {
    EXPECT_FALSE(plugin);
    EXPECT_THAT(plugin.why_not, HasSubstr(words));
    EXPECT_THAT(plugin.why_not, Not(HasSubstr("\n")));
}

TEST(CudaLoader, AMissingFile) {
    expectRefused(loadPlugin("/nowhere/libpiper_cuda.so"),
                  "/nowhere/libpiper_cuda.so: cannot open shared object file");
}

TEST(CudaLoader, AFileThatIsNoLibrary) {
    const test::TemporaryDirectory folder;
    const auto file = folder.path() / "text.so";
    std::ofstream(file) << "not a library\n";
    expectRefused(loadPlugin(file.string()), "text.so");
}

TEST(CudaLoader, ALibraryThatIsNoPlugin) {
    expectRefused(loadPlugin(module("piper_fake_no_entry")), "no symbol piperCudaApi");
}

TEST(CudaLoader, APluginOfAnotherVersion) {
    expectRefused(loadPlugin(module("piper_fake_other_version")), "of another version");
}

TEST(CudaLoader, APluginWhoseLibraryIsMissing) {
    const test::TemporaryDirectory folder;
    const auto file = folder.path() / "plugin.so";
    std::filesystem::copy_file(module("piper_fake_needs_hidden"), file);
    expectRefused(loadPlugin(file.string()),
                  "libpiper_fake_hidden.so: cannot open shared object file");
}

TEST(CudaLoader, TheEnvironmentNamesThePlugin) {
    ASSERT_EQ(setenv("PIPER_CUDA_PLUGIN", "/nowhere/else.so", 1), 0);
    const LoadedPlugin plugin = loadPlugin();
    unsetenv("PIPER_CUDA_PLUGIN");
    expectRefused(plugin, "/nowhere/else.so");
}

TEST(CudaLoader, TheFallbackIsOneSentence) {
    EXPECT_EQ(fallbackLine("no CUDA device"), "cuda: no CUDA device; using cpu");
}

PiperCudaApi refusingApi() {
    PiperCudaApi api{};
    api.lastError = [] { return "no\ndevice"; };
    api.deviceCount = [](std::int32_t* count) {
        *count = 0;
        return static_cast<int>(PIPER_CUDA_NO_DEVICE);
    };
    return api;
}

TEST(CudaLoader, ARefusedCountGivesTheReasonInOneLine) {
    const DeviceCount devices = countDevices(refusingApi());
    EXPECT_EQ(devices.count, 0);
    EXPECT_EQ(devices.why_not, "no device");
}

}  // namespace
}  // namespace piper::cuda
