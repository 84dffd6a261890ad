// SPDX-License-Identifier: Apache-2.0
#include "core/run/job_status.h"

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

Json jobStatusJson(const JobStatus& status) {
    Json json;
    json["format_version"] = 1;
    json["state"] = toText(status.state);
    json["step"] = status.step;
    json["steps"] = status.steps;
    json["loss"] = status.loss;
    json["tokens_per_second"] = status.tokens_per_second;
    json["message"] = status.message;
    return json;
}

}  // namespace piper
