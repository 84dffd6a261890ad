// SPDX-License-Identifier: Apache-2.0
#include "sessions/job_directory.h"

#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cstdlib>
#include <ctime>

#include "core/base/json.h"

namespace piper {

template <>
std::span<const EnumName<JobState>> enumNames<JobState>() {
    static constexpr EnumName<JobState> rows[] = {
        {JobState::Queued, "queued"},   {JobState::Starting, "starting"},
        {JobState::Running, "running"}, {JobState::Finished, "finished"},
        {JobState::Failed, "failed"},   {JobState::Cancelled, "cancelled"}};
    return rows;
}

bool isFinal(JobState state) {
    return state == JobState::Finished || state == JobState::Failed || state == JobState::Cancelled;
}

Result<JobStatus> parseJobStatus(std::string_view text, std::string_view where) {
    PIPER_ASSIGN(const Json json, parseJson(text, where));
    ObjectReader in(json, std::string(where));
    PIPER_TRY(checkFormatVersion(in, 1));
    JobStatus status;
    status.state = in.enumeration("state", JobState::Starting);
    status.step = static_cast<std::int32_t>(in.integer("step", 0));
    status.steps = static_cast<std::int32_t>(in.integer("steps", 0));
    status.loss = in.number("loss", 0.0);
    status.tokens_per_second = in.number("tokens_per_second", 0.0);
    status.message = in.string("message", "");
    PIPER_TRY(in.finish());
    return status;
}

std::filesystem::path localJobsRoot() {
    if (const char* given = std::getenv("PIPER_JOBS"); given != nullptr && *given != '\0')
        return given;
    if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0')
        return std::filesystem::path(state) / "piper-workbench" / "jobs";
    const char* home = std::getenv("HOME");
    return std::filesystem::path(home != nullptr ? home : "/tmp") / ".local" / "state" /
           "piper-workbench" / "jobs";
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
