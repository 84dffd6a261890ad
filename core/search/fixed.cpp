// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/search/enumerate.h"
#include "core/search/search.h"

namespace piper {
namespace {

Result<std::int64_t> positive(std::string_view key, std::string_view value) {
    std::int64_t number = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
    if (parsed.ec == std::errc() && parsed.ptr == value.data() + value.size() && number >= 1)
        return number;
    return fail(ErrorCode::InvalidInput, "{} = '{}' is no whole number of at least 1", key, value);
}

std::int64_t* degree(Plan& plan, std::string_view key) {
    if (key == "tp") return &plan.layout.tp;
    if (key == "cp") return &plan.layout.cp;
    if (key == "pp") return &plan.layout.pp;
    if (key == "vpp") return &plan.layout.vpp;
    if (key == "ep") return &plan.layout.ep;
    if (key == "etp") return &plan.layout.etp;
    if (key == "dp") return &plan.layout.dp;
    if (key == "micro_batch_size") return &plan.micro_batch_size;
    if (key == "chunks") return &plan.all_to_all.chunks;
    return nullptr;
}

Status applyOne(Plan& plan, std::string_view key, std::string_view value) {
    if (std::int64_t* number = degree(plan, key)) {
        PIPER_ASSIGN(*number, positive(key, value));
    } else if (key == "schedule") {
        PIPER_ASSIGN(plan.schedule, parseEnum<ScheduleKind>(value, "schedule"));
    } else if (key == "recompute") {
        PIPER_ASSIGN(plan.recompute.granularity,
                     parseEnum<RecomputeGranularity>(value, "recompute"));
    } else if (key == "zero_stage" && value.size() == 1 && value[0] >= '0' && value[0] <= '3') {
        plan.zero_stage = value[0] - '0';
    } else if (key == "algorithm") {
        PIPER_ASSIGN(plan.all_to_all.algorithm, parseEnum<AllToAllAlgorithm>(value, "algorithm"));
    } else if (key == "offload" && (value == "none" || value == "optimizer")) {
        plan.offload.optimizer = value == "optimizer";
    } else if (key == "rank_order") {
        PIPER_TRY(parseRankOrder(value));
        plan.rank_order = value;
    } else if (key == "sp" && (value == "0" || value == "1")) {
        plan.layout.sp = value == "1";
    } else {
        return fail(ErrorCode::InvalidInput, "'{}' is no value of {}", value, key);
    }
    return {};
}

}  // namespace

Result<std::vector<std::string>> applyFixed(Plan& base, std::string_view text) {
    SearchSpace space;
    std::istringstream words{std::string(text)};
    std::vector<std::pair<std::string, std::string>> values;
    for (std::string word; words >> word;) {
        const std::size_t mark = word.find('=');
        if (mark == std::string::npos) {
            Error error = fail(ErrorCode::InvalidInput, "'{}' is no KEY=VALUE", word);
            error.hint = "write for example \"tp=2 micro_batch_size=1\"";
            return error;
        }
        space.fixed.push_back(word.substr(0, mark));
        values.emplace_back(word.substr(0, mark), word.substr(mark + 1));
    }
    PIPER_TRY(checkFixed(space));
    for (const auto& [key, value] : values) PIPER_TRY(applyOne(base, key, value));
    return space.fixed;
}

}  // namespace piper
