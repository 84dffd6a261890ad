// SPDX-License-Identifier: Apache-2.0
// piper-cuda-check: the kernels of the CUDA plugin against the host, then a table of times.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "kernels/cuda/check/cases.h"
#include "kernels/cuda/check/device.h"
#include "kernels/cuda/loader.h"

namespace {

constexpr const char* kHelp =
    "usage: piper-cuda-check [--plugin FILE] [--device N] [--correctness]\n"
    "Loads the CUDA plugin, compares each kernel with the host and prints a table of times.\n"
    "  --plugin FILE   libpiper_cuda.so (default: beside this program)\n"
    "  --device N      the device (default 0)\n"
    "  --correctness   no times\n"
    "Exit status: 0 all right, 1 a kernel differs, 2 wrong use, 3 no plugin, driver or device.\n";

struct Options {
    std::string plugin;
    std::int32_t device = 0;
    bool timing = true;
};

/// The exit status when the program ends here, else -1.
int parse(int argc, char** argv, Options& options) {
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--help" || word == "-h") {
            std::fputs(kHelp, stdout);
            return 0;
        }
        if (word == "--correctness") {
            options.timing = false;
        } else if (word == "--plugin" && i + 1 < argc) {
            options.plugin = argv[++i];
        } else if (word == "--device" && i + 1 < argc) {
            options.device = std::atoi(argv[++i]);
        } else {
            std::fprintf(stderr, "piper-cuda-check: unknown option '%s'\n%s", word.c_str(), kHelp);
            return 2;
        }
    }
    return -1;
}

int countFaults(const piper::cuda::Device& device) {
    int faults = 0;
    std::printf("%-46s %12s %12s\n", "correctness", "worst", "allowed");
    for (const auto& item : piper::cuda::correctnessCases()) {
        const auto result = item.run(device);
        std::printf("%-46s %12.3g %12.3g  %s\n", item.name.c_str(), result.worst, result.allowed,
                    result.passed() ? "ok" : "DIFFERS");
        if (!result.passed()) ++faults;
    }
    return faults;
}

void printTimes(const piper::cuda::Device& device) {
    std::printf("\n%-46s %12s %12s\n", "time (median of 7 rounds)", "us", "rate");
    for (const auto& item : piper::cuda::timingCases()) {
        const auto result = item.run(device);
        const double rate = result.work / result.seconds;
        std::printf("%-46s %12.1f %12.1f  %s\n", item.name.c_str(), result.seconds * 1e6,
                    result.flops ? rate * 1e-12 : rate * 1e-9, result.flops ? "TFLOP/s" : "GB/s");
    }
}

int check(const PiperCudaApi& api, const Options& options) {
    PiperCudaDevice info;
    if (api.deviceInfo(options.device, &info) != PIPER_CUDA_OK) {
        std::fprintf(stderr, "piper-cuda-check: %s\n", api.lastError());
        return 3;
    }
    std::printf("%s, compute %d.%d, %d multiprocessors, %.1f of %.1f GiB free, toolkit %d.%d\n\n",
                info.name, info.compute_major, info.compute_minor, info.multiprocessors,
                static_cast<double>(info.free_bytes) / 1073741824.0,
                static_cast<double>(info.total_bytes) / 1073741824.0, api.toolkit_version / 1000,
                api.toolkit_version % 1000 / 10);
    try {
        const piper::cuda::Device device(api, options.device);
        const int faults = countFaults(device);
        if (faults == 0 && options.timing) printTimes(device);
        std::printf("\n%s\n", faults == 0 ? "all kernels agree with the host"
                                          : "some kernels differ; not timed");
        return faults == 0 ? 0 : 1;
    } catch (const piper::cuda::DeviceError& error) {
        std::fprintf(stderr, "piper-cuda-check: %s\n", error.what());
        return 3;
    }
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    if (const int status = parse(argc, argv, options); status >= 0) return status;
    const auto plugin = piper::cuda::loadPlugin(options.plugin);
    if (!plugin) {
        std::fprintf(stderr, "piper-cuda-check: %s\n", plugin.why_not.c_str());
        return 3;
    }
    const auto devices = piper::cuda::countDevices(*plugin.api);
    if (devices.count == 0) {
        std::fprintf(stderr, "piper-cuda-check: %s\n", devices.why_not.c_str());
        return 3;
    }
    return check(*plugin.api, options);
}
