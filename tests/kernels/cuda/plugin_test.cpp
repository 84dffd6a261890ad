// SPDX-License-Identifier: Apache-2.0
// The real plugin on a machine with or without a device; nothing here needs one.
#include "kernels/cuda/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <sstream>

#include "kernels/cuda/loader.h"
#include "tests/support/paths.h"

namespace piper::cuda {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

struct Output {
    int status = -1;
    std::string text;
};

Output run(const std::string& command) {
    Output output;
    FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return output;
    std::array<char, 4096> part{};
    while (fgets(part.data(), part.size(), pipe) != nullptr) output.text += part.data();
    const int status = pclose(pipe);
    output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return output;
}

TEST(CudaPlugin, LoadsWithoutADeviceAndSaysSo) {
    const LoadedPlugin plugin = loadPlugin();
    ASSERT_TRUE(plugin) << plugin.why_not;
    EXPECT_GE(plugin.api->toolkit_version, 12040);
    const DeviceCount devices = countDevices(*plugin.api);
    if (devices.count == 0) {
        EXPECT_THAT(devices.why_not, AnyOf(HasSubstr("no NVIDIA driver"), "no CUDA device"));
        PiperCudaContext* context = nullptr;
        EXPECT_THAT(plugin.api->openContext(0, &context),
                    AnyOf(PIPER_CUDA_NO_DRIVER, PIPER_CUDA_NO_DEVICE));
        EXPECT_EQ(context, nullptr);
        PiperCudaDevice info;
        EXPECT_NE(plugin.api->deviceInfo(0, &info), PIPER_CUDA_OK);
        EXPECT_STREQ(info.name, "");
    } else {
        EXPECT_TRUE(devices.why_not.empty());
    }
}

TEST(CudaPlugin, ACallWithoutAContextIsRefused) {
    const LoadedPlugin plugin = loadPlugin();
    ASSERT_TRUE(plugin) << plugin.why_not;
    const PiperCudaApi& api = *plugin.api;
    EXPECT_EQ(api.deviceCount(nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.synchronize(nullptr), PIPER_CUDA_INVALID);
    EXPECT_STREQ(api.lastError(), "synchronize: no context");
    EXPECT_EQ(api.gemm(nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.groupedGemm(nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.groupedBaseline(nullptr, 0, nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.swigluForward(nullptr, 0, nullptr, nullptr, 1, 1), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.swigluInputGrad(nullptr, 0, nullptr, nullptr, nullptr, 1, 1), PIPER_CUDA_INVALID);
    EXPECT_STREQ(api.lastError(), "swigluInputGrad: dout is null");
    EXPECT_EQ(api.permuteForward(nullptr, 0, nullptr, nullptr, nullptr, 1, 1, 1),
              PIPER_CUDA_INVALID);
    EXPECT_EQ(api.combineForward(nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.combineInputGrad(nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.makePermutation(nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.routerForward(nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.routerInputGrad(nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.crossEntropy(nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.exportMemory(nullptr, nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.importMemory(nullptr, nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.closeMemory(nullptr, nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.createEvent(nullptr, nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.importEvent(nullptr, nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.destroyEvent(nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.recordEvent(nullptr, nullptr), PIPER_CUDA_INVALID);
    EXPECT_EQ(api.waitEvent(nullptr, nullptr), PIPER_CUDA_INVALID);
    api.closeContext(nullptr);
}

TEST(CudaPlugin, OnlyTheEntryIsExported) {
    const std::string file = (test::binaryDir() / "lib/libpiper_cuda.so").string();
    const Output symbols = run("nm -D --defined-only " + file);
    ASSERT_EQ(symbols.status, 0) << symbols.text;
    EXPECT_THAT(symbols.text, HasSubstr(" T " PIPER_CUDA_ENTRY "\n"));
    EXPECT_EQ(std::count(symbols.text.begin(), symbols.text.end(), '\n'), 1) << symbols.text;
}

TEST(CudaPlugin, DoesNotLinkTheDriver) {
    const std::string file = (test::binaryDir() / "lib/libpiper_cuda.so").string();
    const Output needed = run("readelf -d " + file);
    ASSERT_EQ(needed.status, 0) << needed.text;
    EXPECT_THAT(needed.text, HasSubstr("libcublas.so"));
    EXPECT_THAT(needed.text, Not(HasSubstr("libcuda.so")));
}

TEST(CudaPlugin, AToolkitThatIsGoneIsOneLineAndNoCrash) {
    if (geteuid() != 0) GTEST_SKIP() << "hiding the toolkit's folder needs root";
    const Output output =
        run("unshare --mount sh -c 'mount -t tmpfs none \"" PIPER_CUDA_LIBRARY_DIR "\" && exec " +
            test::program("piper-cuda-check") + "'");
    EXPECT_EQ(output.status, 3) << output.text;
    EXPECT_THAT(output.text, HasSubstr("cannot open shared object file"));
    EXPECT_EQ(std::count(output.text.begin(), output.text.end(), '\n'), 1) << output.text;
}

TEST(CudaCheck, WrongUseIsStatusTwo) {
    EXPECT_EQ(run(test::program("piper-cuda-check") + " --bogus").status, 2);
    EXPECT_EQ(run(test::program("piper-cuda-check") + " --help").status, 0);
}

TEST(CudaCheck, ListsEveryCaseOnce) {
    const Output output = run(test::program("piper-cuda-check") + " --list");
    EXPECT_EQ(output.status, 0);
    EXPECT_THAT(output.text, HasSubstr("--case 'grouped hopper weight grad, 257 groups'"));
    EXPECT_THAT(output.text, HasSubstr("--timing 'grouped forward 4096'"));
    std::set<std::string> lines;
    std::istringstream text(output.text);
    for (std::string line; std::getline(text, line);) {
        EXPECT_TRUE(lines.insert(line).second) << line;
    }
}

TEST(CudaCheck, WithoutADeviceItIsOneLineAndStatusThree) {
    const LoadedPlugin plugin = loadPlugin();
    ASSERT_TRUE(plugin) << plugin.why_not;
    if (countDevices(*plugin.api).count > 0) return;  // device_test runs it
    const Output output = run(test::program("piper-cuda-check"));
    EXPECT_EQ(output.status, 3);
    EXPECT_THAT(output.text, AnyOf(HasSubstr("no NVIDIA driver"), HasSubstr("no CUDA device")));
    EXPECT_EQ(std::count(output.text.begin(), output.text.end(), '\n'), 1) << output.text;
}

/// A machine with a device has cmake, g++ and the toolkit: the headers of everything else are
/// hidden while the plugin is configured alone and the check's host side is compiled.
TEST(CudaCheck, ConfiguresWithTheOtherPackagesHidden) {
    if (geteuid() != 0) GTEST_SKIP() << "hiding packages needs root";
    const test::TemporaryDirectory folder;
    const std::string build = (folder.path() / "device").string();
    std::string hide;
    for (const char* place :
         {"/usr/include/gtest", "/usr/include/gmock", "/usr/include/fmt", "/usr/include/nlohmann",
          "/usr/include/oneapi", "/usr/include/CLI", "/usr/include/simdjson",
          "/usr/include/x86_64-linux-gnu/qt6", "/usr/lib/x86_64-linux-gnu/openmpi",
          "/usr/lib/x86_64-linux-gnu/cmake"}) {
        hide += std::string("[ ! -d ") + place + " ] || mount -t tmpfs none " + place + "; ";
    }
    const Output output = run("unshare --mount sh -c '" + hide + "cmake -S \"" +
                              (test::sourceDir() / "kernels/cuda").string() + "\" -B \"" + build +
                              "\" && cmake --build \"" + build +
                              "\" --target piper_kernels_cuda_loader piper_kernels_cuda_plan'");
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_THAT(output.text, HasSubstr("-- CUDA plugin: CUDA "));
}

}  // namespace
}  // namespace piper::cuda
