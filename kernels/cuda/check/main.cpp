// SPDX-License-Identifier: Apache-2.0
// piper-cuda-check: the operations of the CUDA plugin against the host, then a table of times. Each
// case runs in a process of its own, so that a fault is one row and the rest goes on.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "kernels/cuda/check/cases.h"
#include "kernels/cuda/check/device.h"
#include "kernels/cuda/check/ranks.h"
#include "kernels/cuda/check/runner.h"
#include "kernels/cuda/loader.h"

namespace {

using namespace piper::cuda;

constexpr const char* kHelp =
    "usage: piper-cuda-check [--plugin FILE] [--device N] [--correctness] [--list]\n"
    "                        [--sanitizer FILE] [--seconds N] [--case NAME | --timing NAME]\n"
    "Loads the CUDA plugin, compares each operation with the host and prints a table of times.\n"
    "Each case runs in a process of its own; one that crashes or hangs is a row.\n"
    "  --plugin FILE     libpiper_cuda.so (default: beside this program)\n"
    "  --device N        the device (default 0)\n"
    "  --correctness     no times\n"
    "  --list            the names of the cases\n"
    "  --sanitizer FILE  compute-sanitizer: every case runs once more under its memcheck\n"
    "  --seconds N       no new case is begun after N seconds (default 410)\n"
    "  --without-hopper  the Hopper path is not timed\n"
    "  --case NAME       only this comparison, in this process\n"
    "  --timing NAME     only this timing, in this process\n"
    "  --group FILE --rank R --ranks N [--time]\n"
    "                    one rank of an all-to-all between processes; FILE is new and shared\n"
    "Exit status: 0 all right, 1 an operation differs or fails, 2 wrong use, 3 no plugin, driver\n"
    "or device, 4 a call fails on the device (with --case, --timing or --group).\n";

struct Options {
    RunnerOptions runner;
    RankOptions rank;
    std::string one_case, one_timing;
    bool timing = true;
    bool list = false;
    bool without_hopper = false;
};

/// The exit status when the program ends here, else -1.
int parse(int argc, char** argv, Options& options) {
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const bool has_value = i + 1 < argc;
        if (word == "--help" || word == "-h") {
            std::fputs(kHelp, stdout);
            return 0;
        }
        if (word == "--correctness") {
            options.timing = false;
        } else if (word == "--list") {
            options.list = true;
        } else if (word == "--time") {
            options.rank.timed = true;
        } else if (word == "--group" && has_value) {
            options.rank.group_file = argv[++i];
        } else if (word == "--rank" && has_value) {
            options.rank.rank = std::atoi(argv[++i]);
        } else if (word == "--ranks" && has_value) {
            options.rank.ranks = std::atoi(argv[++i]);
        } else if (word == "--without-hopper") {
            options.without_hopper = true;
        } else if (word == "--plugin" && has_value) {
            options.runner.plugin = argv[++i];
        } else if (word == "--sanitizer" && has_value) {
            options.runner.sanitizer = argv[++i];
        } else if (word == "--case" && has_value) {
            options.one_case = argv[++i];
        } else if (word == "--timing" && has_value) {
            options.one_timing = argv[++i];
        } else if (word == "--device" && has_value) {
            options.runner.device = std::atoi(argv[++i]);
        } else if (word == "--seconds" && has_value) {
            options.runner.seconds = std::atoi(argv[++i]);
        } else {
            std::fprintf(stderr, "piper-cuda-check: unknown option '%s'\n%s", word.c_str(), kHelp);
            return 2;
        }
    }
    return -1;
}

/// One comparison in this process: its figures on standard output.
int runCase(const PiperCudaApi& api, const Options& options) {
    for (const CorrectnessCase& item : correctnessCases()) {
        if (item.name != options.one_case) continue;
        const Device device(api, options.runner.device);
        const Correctness result = item.run(device);
        if (result.absent) return kAbsentStatus;
        std::printf("%12.3g %12.3g\n", result.worst, result.allowed);
        return result.passed() ? 0 : 1;
    }
    std::fprintf(stderr, "piper-cuda-check: no case '%s' (see --list)\n", options.one_case.c_str());
    return 2;
}

int runTiming(const PiperCudaApi& api, const Options& options) {
    for (const TimingCase& item : timingCases(options.without_hopper)) {
        if (item.name != options.one_timing) continue;
        const Device device(api, options.runner.device);
        item.run(device);
        return 0;
    }
    std::fprintf(stderr, "piper-cuda-check: no timing '%s' (see --list)\n",
                 options.one_timing.c_str());
    return 2;
}

int list() {
    for (const CorrectnessCase& item : correctnessCases()) {
        std::printf("--case '%s'\n", item.name.c_str());
    }
    for (const TimingCase& item : timingCases(false)) {
        std::printf("--timing '%s'\n", item.name.c_str());
    }
    return 0;
}

int checkAll(const PiperCudaApi& api, const Options& options) {
    PiperCudaDevice info;
    if (api.deviceInfo(options.runner.device, &info) != PIPER_CUDA_OK) {
        std::fprintf(stderr, "piper-cuda-check: %s\n", api.lastError());
        return 3;
    }
    std::printf("%s, compute %d.%d, %d multiprocessors, %.1f of %.1f GiB free, toolkit %d.%d\n\n",
                info.name, info.compute_major, info.compute_minor, info.multiprocessors,
                static_cast<double>(info.free_bytes) / 1073741824.0,
                static_cast<double>(info.total_bytes) / 1073741824.0, api.toolkit_version / 1000,
                api.toolkit_version % 1000 / 10);
    RunnerOptions runner_options = options.runner;
    runner_options.program = std::filesystem::read_symlink("/proc/self/exe").string();
    Runner runner(runner_options, correctnessCases(), timingCases(false));
    std::printf("%-58s %12s %12s\n", "against the host", "worst", "allowed");
    int faults = runner.compareAll(false);
    if (options.timing) {
        std::printf(
            "\ntimes: medians of n rounds in turns, half the range of the middle 80 %%; "
            "x: time / the first's\n");
        faults += runner.timeAll();
    }
    if (!runner_options.sanitizer.empty()) {
        std::printf("\n%-58s\n", "under compute-sanitizer memcheck");
        faults += runner.compareAll(true);
    }
    std::printf("\n%s\n", faults == 0 ? "all operations agree with the host"
                                      : (std::to_string(faults) + " rows are not right").c_str());
    return faults == 0 ? 0 : 1;
}

int run(const PiperCudaApi& api, const Options& options) {
    try {
        if (!options.rank.group_file.empty()) {
            runRank(Device(api, options.runner.device), options.rank);
            return 0;
        }
        if (!options.one_case.empty()) return runCase(api, options);
        if (!options.one_timing.empty()) return runTiming(api, options);
        return checkAll(api, options);
    } catch (const DeviceError& error) {
        std::fprintf(stderr, "piper-cuda-check: %s\n", error.what());
        return 4;
    }
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    if (const int status = parse(argc, argv, options); status >= 0) return status;
    if (options.list) return list();
    const auto plugin = loadPlugin(options.runner.plugin);
    // Ranks that a case starts find the same one.
    if (!options.runner.plugin.empty()) {
        setenv("PIPER_CUDA_PLUGIN", options.runner.plugin.c_str(), 1);
    }
    if (!plugin) {
        std::fprintf(stderr, "piper-cuda-check: %s\n", plugin.why_not.c_str());
        return 3;
    }
    const auto devices = countDevices(*plugin.api);
    if (devices.count == 0) {
        std::fprintf(stderr, "piper-cuda-check: %s\n", devices.why_not.c_str());
        return 3;
    }
    return run(*plugin.api, options);
}
