// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/check/runner.h"

#include <algorithm>
#include <cstdio>
#include <future>
#include <utility>

namespace piper::cuda {
namespace {

constexpr int kCaseSeconds = 30;
constexpr int kTimingSeconds = 60;
constexpr int kSanitizerSeconds = 60;
constexpr int kSanitizerFault = 86;
constexpr std::size_t kTogether = 4;  ///< comparisons at a time

std::string firstLine(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

}  // namespace

Runner::Runner(RunnerOptions options, std::vector<CorrectnessCase> cases,
               std::vector<TimingCase> timings)
    : m_options(std::move(options)),
      m_cases(std::move(cases)),
      m_timings(std::move(timings)),
      m_begin(std::chrono::steady_clock::now()) {}

bool Runner::timeIsOver() const {
    return std::chrono::steady_clock::now() - m_begin >= std::chrono::seconds(m_options.seconds);
}

Ending Runner::run(const std::vector<std::string>& words, bool sanitized, int seconds) const {
    std::vector<std::string> command;
    if (sanitized) {
        command = {m_options.sanitizer, "--tool", "memcheck", "--error-exitcode",
                   std::to_string(kSanitizerFault)};
    }
    command.push_back(m_options.program);
    command.insert(command.end(), {"--device", std::to_string(m_options.device)});
    if (!m_options.plugin.empty()) command.insert(command.end(), {"--plugin", m_options.plugin});
    command.insert(command.end(), words.begin(), words.end());
    return runIsolated(command, seconds);
}

bool Runner::sanitizerWorks() const {
    const Ending ending = run({"--case", m_cases.front().name}, true, kSanitizerSeconds);
    const bool works = ending.clean() || (!ending.timed_out &&
                                          (ending.status == 1 || ending.status == kSanitizerFault));
    if (!works) {
        std::printf("not run, compute-sanitizer does not work here (%s): %s\n",
                    ending.fault(kSanitizerSeconds).c_str(), firstLine(ending.output).c_str());
    }
    return works;
}

int Runner::compareAll(bool sanitized) {
    if (m_cases.empty() || (sanitized && !sanitizerWorks())) return 0;
    const int seconds = sanitized ? kSanitizerSeconds : kCaseSeconds;
    int faults = 0;
    for (std::size_t first = 0; first < m_cases.size(); first += kTogether) {
        const std::size_t last = std::min(m_cases.size(), first + kTogether);
        if (timeIsOver()) {
            std::printf("%zu comparisons not begun: %d s are over\n", m_cases.size() - first,
                        m_options.seconds);
            return faults + (sanitized ? 0 : 1);
        }
        std::vector<std::pair<const CorrectnessCase*, std::future<Ending>>> running;
        for (std::size_t i = first; i < last; ++i) {
            const CorrectnessCase& item = m_cases[i];
            if (item.hopper && m_hopper_hung) {
                std::printf("%-58s not begun after a hang\n", item.name.c_str());
                ++faults;
                continue;
            }
            running.emplace_back(&item, std::async(std::launch::async, [&, this] {
                return run({"--case", item.name}, sanitized, seconds);
            }));
        }
        for (auto& [item, future] : running) {
            const Ending ending = future.get();
            if (printRow(item->name, ending, sanitized)) continue;
            ++faults;
            m_failed.push_back(item->name);
            m_hopper_failed = m_hopper_failed || item->hopper;
            m_hopper_hung = m_hopper_hung || (item->hopper && ending.timed_out);
        }
    }
    return faults;
}

bool Runner::mayBeTimed(const TimingCase& timing) const {
    return std::none_of(m_failed.begin(), m_failed.end(), [&](const std::string& failed) {
        return std::any_of(timing.needs.begin(), timing.needs.end(), [&](const std::string& need) {
            return failed.compare(0, need.size(), need) == 0;
        });
    });
}

int Runner::timeAll() {
    int faults = 0;
    for (const TimingCase& item : m_timings) {
        if (timeIsOver()) {
            std::printf("%s: not begun, %d s are over\n", item.name.c_str(), m_options.seconds);
            continue;
        }
        if (!mayBeTimed(item)) {
            std::printf("%s: not timed, it differs or fails above\n", item.name.c_str());
            continue;
        }
        std::vector<std::string> words = {"--timing", item.name};
        if (m_hopper_failed) words.push_back("--without-hopper");
        const Ending ending = run(words, false, kTimingSeconds);
        std::fputs(ending.output.c_str(), stdout);
        if (!ending.clean()) {
            std::printf("%s: %s\n", item.name.c_str(), ending.fault(kTimingSeconds).c_str());
            ++faults;
        }
        std::fflush(stdout);
    }
    return faults;
}

/// Whether the case is right.
bool Runner::printRow(const std::string& name, const Ending& ending, bool sanitized) const {
    const bool ended = !ending.timed_out;
    std::string verdict = "FAILED: " + ending.fault(sanitized ? kSanitizerSeconds : kCaseSeconds);
    bool right = true;
    if (ending.clean()) {
        verdict = "ok";
    } else if (ended && ending.status == kAbsentStatus) {
        verdict = "not on this device";
    } else {
        right = false;
        if (ended && ending.status == 1) verdict = "DIFFERS";
        if (ended && sanitized && ending.status == kSanitizerFault) verdict = "MEMORY FAULT";
    }
    const bool figures = !sanitized && (ending.clean() || verdict == "DIFFERS");
    std::printf("%-58s %s  %s\n", name.c_str(), figures ? firstLine(ending.output).c_str() : "",
                verdict.c_str());
    if (!right && !figures) std::printf("    %s\n", firstLine(ending.output).c_str());
    std::fflush(stdout);
    return right;
}

}  // namespace piper::cuda
