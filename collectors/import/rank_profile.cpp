// SPDX-License-Identifier: Apache-2.0
// A rank profile of X-MoE's planner: mean milliseconds of the parts of one layer's forward. It
// becomes one step of one layer, part after part, so that it compares with a prediction.
#include <array>
#include <cmath>

#include "collectors/import/byte_source.h"
#include "collectors/import/imported.h"
#include "core/base/json.h"

namespace piper {
namespace {

struct Part {
    const char* key;
    Phase phase;
    OperationKind kind;
    Lane lane;
};

constexpr Part kParts[] = {
    {"avg_qkv_gemm", Phase::Attention, OperationKind::Forward, Lane::Compute},
    {"avg_attn_gemm", Phase::Attention, OperationKind::Forward, Lane::Compute},
    {"avg_out_gemm", Phase::Attention, OperationKind::Forward, Lane::Compute},
    {"avg_1st_a2a_per_layer", Phase::Dispatch, OperationKind::Dispatch, Lane::Ep},
    {"avg_experts_per_layer", Phase::Expert, OperationKind::Forward, Lane::Compute},
    {"avg_2nd_a2a_per_layer", Phase::Combine, OperationKind::Combine, Lane::Ep},
};

Result<std::string> readWhole(const std::filesystem::path& path) {
    static constexpr std::size_t kMost = std::size_t{16} << 20;
    PIPER_ASSIGN(ByteSource source, ByteSource::open(path));
    std::string text, block(std::size_t{1} << 16, '\0');
    while (const std::size_t got = source.read(block.data(), block.size())) {
        text.append(block, 0, got);
        if (text.size() > kMost)
            return fail(ErrorCode::InvalidInput, "is too long for a rank profile")
                .at(path.string());
    }
    if (!source.fault().empty())
        return fail(ErrorCode::InvalidInput, "{}", source.fault()).at(path.string());
    return text;
}

void addPart(const Json& json, const Part& part, ImportedRun& out) {
    RankTimeline& rank = out.run.ranks.front();
    const auto found = json.find(part.key);
    if (found == json.end() || !found->is_number()) {
        out.counters.add("missing_key", ImportSeverity::Info, 1, part.key);
        return;
    }
    const double milliseconds = found->get<double>();
    if (!(milliseconds >= 0.0 && milliseconds < 1e9)) {
        out.counters.add("bad_duration", ImportSeverity::DataLoss, 1, part.key);
        return;
    }
    Event e;
    e.start_ns = rank.events.empty() ? 0 : rank.events.back().end_ns();
    e.duration_ns = std::llround(milliseconds * 1e6);
    e.phase = part.phase;
    e.kind = part.kind;
    e.lane = part.lane;
    e.layer = LayerId(0);
    e.micro_batch = MicroBatchId(0);
    rank.events.push_back(e);
}

}  // namespace

Result<ImportedRun> importRankProfile(const std::filesystem::path& path) {
    PIPER_ASSIGN(const std::string text, readWhole(path));
    PIPER_ASSIGN(const Json json, parseJson(text, path.string()));
    if (!json.is_object())
        return fail(ErrorCode::InvalidInput, "is no JSON object").at(path.string());
    ImportedRun out;
    out.format = "rank-profile";
    out.run.ranks.emplace_back();
    RankTimeline& rank = out.run.ranks.front();
    rank.rank = RankId(0);
    for (const Part& part : kParts) addPart(json, part, out);
    if (rank.events.empty())
        return fail(ErrorCode::InvalidInput, "has none of the keys of a rank profile ({}, ...)",
                    kParts[0].key)
            .at(path.string());
    rank.steps.push_back({0, 0, rank.events.back().end_ns(), std::nan(""), 0.0, 0});
    for (const auto& [key, value] : json.items())
        if (value.is_number()) rank.counters["profile." + key] = value.dump();
    return out;
}

}  // namespace piper
