// SPDX-License-Identifier: Apache-2.0
#include "tests/support/processes.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace piper::test {

std::vector<pid_t> processesNaming(const std::string& word) {
    std::vector<pid_t> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
        const std::string name = entry.path().filename().string();
        if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
            continue;
        const auto pid = static_cast<pid_t>(std::stol(name));
        if (pid == ::getpid()) continue;
        std::ifstream in(entry.path() / "cmdline", std::ios::binary);
        const std::string line{std::istreambuf_iterator<char>(in), {}};
        if (line.find(word) != std::string::npos) found.push_back(pid);
    }
    return found;
}

}  // namespace piper::test
