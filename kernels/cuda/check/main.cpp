// SPDX-License-Identifier: Apache-2.0
// piper-cuda-check: the operations of the CUDA plugin against the host, then a table of times. Each
// case runs in a process of its own, so that a fault is one row and the rest goes on.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <string>

#include "kernels/cuda/check/cases.h"
#include "kernels/cuda/check/device.h"
#include "kernels/cuda/check/isolate.h"
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
    "  --seconds N       no new case is begun after N seconds (default 420)\n"
    "  --case NAME       only this comparison, in this process\n"
    "  --timing NAME     only this timing, in this process\n"
    "Exit status: 0 all right, 1 an operation differs or fails, 2 wrong use, 3 no plugin, driver\n"
    "or device.\n";

constexpr int kCaseSeconds = 90;
constexpr int kSanitizerSeconds = 180;
constexpr int kSanitizerFault = 86;
constexpr int kAbsent = 77;
constexpr std::size_t kTogether = 4;  ///< comparisons at a time

struct Options {
    std::string plugin, sanitizer, one_case, one_timing;
    std::int32_t device = 0;
    int seconds = 420;
    bool timing = true;
    bool list = false;
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
        } else if (word == "--plugin" && has_value) {
            options.plugin = argv[++i];
        } else if (word == "--sanitizer" && has_value) {
            options.sanitizer = argv[++i];
        } else if (word == "--case" && has_value) {
            options.one_case = argv[++i];
        } else if (word == "--timing" && has_value) {
            options.one_timing = argv[++i];
        } else if (word == "--device" && has_value) {
            options.device = std::atoi(argv[++i]);
        } else if (word == "--seconds" && has_value) {
            options.seconds = std::atoi(argv[++i]);
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
        const Device device(api, options.device);
        const Correctness result = item.run(device);
        if (result.absent) return kAbsent;
        std::printf("%12.3g %12.3g\n", result.worst, result.allowed);
        return result.passed() ? 0 : 1;
    }
    std::fprintf(stderr, "piper-cuda-check: no case '%s' (see --list)\n", options.one_case.c_str());
    return 2;
}

int runTiming(const PiperCudaApi& api, const Options& options) {
    for (const TimingCase& item : timingCases()) {
        if (item.name != options.one_timing) continue;
        const Device device(api, options.device);
        item.run(device);
        return 0;
    }
    std::fprintf(stderr, "piper-cuda-check: no timing '%s' (see --list)\n",
                 options.one_timing.c_str());
    return 2;
}

std::string firstLine(const std::string& text) {
    const std::size_t end = text.find('\n');
    return end == std::string::npos ? text : text.substr(0, end);
}

/// Starts cases of this program, each in a process, until the time is over.
class Runner {
public:
    explicit Runner(const Options& options)
        : m_options(options), m_self(std::filesystem::read_symlink("/proc/self/exe").string()) {}

    [[nodiscard]] bool timeIsOver() const {
        return std::chrono::steady_clock::now() - m_begin > std::chrono::seconds(m_options.seconds);
    }
    [[nodiscard]] Ending run(const char* option, const std::string& name, bool sanitized) const {
        std::vector<std::string> command;
        if (sanitized) {
            command = {m_options.sanitizer, "--tool", "memcheck", "--error-exitcode",
                       std::to_string(kSanitizerFault)};
        }
        for (const std::string& word :
             {m_self, std::string("--device"), std::to_string(m_options.device),
              std::string(option), name}) {
            command.push_back(word);
        }
        if (!m_options.plugin.empty()) {
            command.push_back("--plugin");
            command.push_back(m_options.plugin);
        }
        return runIsolated(command, sanitized ? kSanitizerSeconds : kCaseSeconds);
    }

    /// All comparisons, some at a time; the number of rows that are not right.
    int compareAll(bool sanitized) const {
        const auto cases = correctnessCases();
        if (sanitized && !sanitizerWorks(cases.front().name)) return 0;
        int faults = 0;
        for (std::size_t first = 0; first < cases.size(); first += kTogether) {
            const std::size_t last = std::min(cases.size(), first + kTogether);
            if (timeIsOver()) {
                std::printf("%zu comparisons not begun: %d s are over\n", cases.size() - first,
                            m_options.seconds);
                return faults + (sanitized ? 0 : 1);
            }
            std::vector<std::future<Ending>> running;
            for (std::size_t i = first; i < last; ++i) {
                running.push_back(std::async(std::launch::async, [&, i] {
                    return run("--case", cases[i].name, sanitized);
                }));
            }
            for (std::size_t i = first; i < last; ++i) {
                const Ending ending = running[i - first].get();
                faults += printRow(cases[i].name, ending, sanitized);
            }
        }
        return faults;
    }

    int timeAll() const {
        int faults = 0;
        for (const TimingCase& item : timingCases()) {
            if (timeIsOver()) {
                std::printf("%s: not begun, %d s are over\n", item.name.c_str(), m_options.seconds);
                continue;
            }
            const Ending ending = run("--timing", item.name, false);
            std::fputs(ending.output.c_str(), stdout);
            if (!ending.clean()) {
                std::printf("%s: %s\n", item.name.c_str(), ending.fault(kCaseSeconds).c_str());
                ++faults;
            }
            std::fflush(stdout);
        }
        return faults;
    }

private:
    /// It may lack a permission or fit another driver; then a line says so.
    [[nodiscard]] bool sanitizerWorks(const std::string& name) const {
        const Ending ending = run("--case", name, true);
        const bool works = ending.clean() || ending.status == 1 || ending.status == kSanitizerFault;
        if (!works) {
            std::printf("not run, compute-sanitizer does not work here (%s): %s\n",
                        ending.fault(kSanitizerSeconds).c_str(), firstLine(ending.output).c_str());
        }
        return works;
    }
    /// 1 when the case is not right.
    static int printRow(const std::string& name, const Ending& ending, bool sanitized) {
        std::string verdict = "ok";
        int fault = 1;
        if (ending.clean()) {
            fault = 0;
        } else if (ending.status == kAbsent && !ending.timed_out) {
            verdict = "not on this device";
            fault = 0;
        } else if (ending.status == 1 && !ending.timed_out) {
            verdict = "DIFFERS";
        } else if (sanitized && ending.status == kSanitizerFault) {
            verdict = "MEMORY FAULT";
        } else {
            verdict = "FAILED: " + ending.fault(sanitized ? kSanitizerSeconds : kCaseSeconds);
        }
        const bool figures = !sanitized && (fault == 0 || verdict == "DIFFERS");
        std::printf("%-58s %s  %s\n", name.c_str(), figures ? firstLine(ending.output).c_str() : "",
                    verdict.c_str());
        if (fault != 0 && !figures) std::printf("    %s\n", firstLine(ending.output).c_str());
        std::fflush(stdout);
        return fault;
    }

    const Options& m_options;
    std::string m_self;
    std::chrono::steady_clock::time_point m_begin = std::chrono::steady_clock::now();
};

int list() {
    for (const CorrectnessCase& item : correctnessCases()) {
        std::printf("--case '%s'\n", item.name.c_str());
    }
    for (const TimingCase& item : timingCases()) {
        std::printf("--timing '%s'\n", item.name.c_str());
    }
    return 0;
}

int checkAll(const PiperCudaApi& api, const Options& options) {
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
    const Runner runner(options);
    std::printf("%-58s %12s %12s\n", "against the host", "worst", "allowed");
    int faults = runner.compareAll(false);
    if (options.timing) {
        std::printf(
            "\ntimes: medians of n rounds in turns, half the range of the middle 80 %%; "
            "x: time / the first's\n");
        faults += runner.timeAll();
    }
    if (!options.sanitizer.empty()) {
        std::printf("\n%-58s\n", "under compute-sanitizer memcheck");
        faults += runner.compareAll(true);
    }
    std::printf("\n%s\n", faults == 0 ? "all operations agree with the host"
                                      : (std::to_string(faults) + " rows are not right").c_str());
    return faults == 0 ? 0 : 1;
}

int run(const PiperCudaApi& api, const Options& options) {
    try {
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
    const auto plugin = loadPlugin(options.plugin);
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
