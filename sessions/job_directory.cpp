// SPDX-License-Identifier: Apache-2.0
#include "sessions/job_directory.h"

#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cstdlib>
#include <ctime>

#include <fmt/format.h>

#include "sessions/display_text.h"

namespace piper {

std::filesystem::path localJobsRoot() {
    if (const char* given = std::getenv("PIPER_JOBS"); given != nullptr && *given != '\0')
        return given;
    if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0')
        return std::filesystem::path(state) / "piper-workbench" / "jobs";
    const char* home = std::getenv("HOME");
    return std::filesystem::path(home != nullptr ? home : "/tmp") / ".local" / "state" /
           "piper-workbench" / "jobs";
}

bool isPlainFileName(std::string_view name) {
    return !name.empty() && name != "." && name != ".." &&
           name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

Result<std::string> checkJobDirectory(std::string_view directory) {
    std::string clean = std::filesystem::path(directory).lexically_normal().string();
    while (clean.size() > 1 && clean.back() == '/') clean.pop_back();
    if (clean.starts_with('/') && isPlainFileName(jobName(clean))) return clean;
    return fail(ErrorCode::InvalidInput,
                "'{}' is no directory of a job: it must be absolute and end with the job's name",
                displayLine(directory, 200));
}

std::string jobName(std::string_view directory) {
    return std::string(directory.substr(directory.rfind('/') + 1));
}

std::string newJobName(std::string_view name) {
    static std::atomic<int> counter{0};
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    char stamp[32];
    std::strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%S", &utc);
    std::string clean;
    for (const char c : name.substr(0, 40))
        clean += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' ? c : '-';
    return fmt::format("{}-{}-{}-{}", stamp, clean, ::getpid(), counter++);
}

}  // namespace piper
