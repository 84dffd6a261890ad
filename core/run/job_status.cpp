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

namespace {

/// Since version 2 with expert load and memory.
constexpr int kVersion = 2;

std::vector<LayerLoad> readLayers(ObjectReader& in) {
    std::vector<LayerLoad> out;
    const Json& layers = in.child("layer_load");
    for (std::size_t i = 0; layers.is_array() && i < layers.size(); ++i) {
        ObjectReader layer(layers[i], in.path(fmt::format("layer_load[{}]", i)));
        LayerLoad load;
        load.layer = LayerId(static_cast<std::int32_t>(layer.integer("layer")));
        load.hottest_over_mean = layer.number("hottest_over_mean");
        if (Status status = layer.finish(); !status.ok()) in.note(std::move(status).error());
        out.push_back(load);
    }
    return out;
}

}  // namespace

Result<JobStatus> parseJobStatus(std::string_view text, std::string_view where) {
    PIPER_ASSIGN(const Json json, parseJson(text, where));
    ObjectReader in(json, std::string(where));
    PIPER_TRY(checkFormatVersion(in, kVersion));
    JobStatus status;
    status.state = in.enumeration("state", JobState::Starting);
    status.step = static_cast<std::int32_t>(in.integer("step", 0));
    status.steps = static_cast<std::int32_t>(in.integer("steps", 0));
    status.loss = in.number("loss", 0.0);
    status.tokens_per_second = in.number("tokens_per_second", 0.0);
    status.message = in.string("message", "");
    if (in.hasValue("expert_tokens")) status.load.tokens = in.integers("expert_tokens");
    status.load.layers = readLayers(in);
    if (in.hasValue("rank_peak_bytes")) status.rank_peak_bytes = in.integers("rank_peak_bytes");
    PIPER_TRY(in.finish());
    return status;
}

Json jobStatusJson(const JobStatus& status) {
    Json json;
    json["format_version"] = kVersion;
    json["state"] = toText(status.state);
    json["step"] = status.step;
    json["steps"] = status.steps;
    json["loss"] = status.loss;
    json["tokens_per_second"] = status.tokens_per_second;
    json["message"] = status.message;
    json["expert_tokens"] = status.load.tokens;
    json["layer_load"] = Json::array();
    for (const LayerLoad& load : status.load.layers)
        json["layer_load"].push_back(
            {{"layer", load.layer.value}, {"hottest_over_mean", load.hottest_over_mean}});
    json["rank_peak_bytes"] = status.rank_peak_bytes;
    return json;
}

}  // namespace piper
