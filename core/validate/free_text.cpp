// SPDX-License-Identifier: Apache-2.0
#include "core/validate/free_text.h"

#include <array>
#include <cctype>
#include <cstdlib>
#include <string>

namespace piper {
namespace {

std::string lowered(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return out;
}

bool isDigit(char c) {
    return c >= '0' && c <= '9';
}

/// The word on its own: "moe" is in "moe+layernorm", not in "moe_act".
bool hasWord(const std::string& text, std::string_view word) {
    const auto inside = [&](std::size_t i) {
        return i < text.size() &&
               (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
    };
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
        if (!(at > 0 && inside(at - 1)) && !inside(at + word.size())) return true;
    return false;
}

/// The number that ends right before `end`.
std::optional<double> numberBefore(const std::string& text, std::size_t end) {
    while (end > 0 && text[end - 1] == ' ') --end;
    std::size_t begin = end;
    while (begin > 0 && (isDigit(text[begin - 1]) || text[begin - 1] == '.')) --begin;
    if (begin == end) return std::nullopt;
    return std::strtod(text.substr(begin, end - begin).c_str(), nullptr);
}

/// "4" of "4x100gb" when `end` is where "100" begins.
std::optional<double> timesBefore(const std::string& text, std::size_t end) {
    std::size_t at = end;
    while (at > 0 && text[at - 1] == ' ') --at;
    while (at > 0 && (isDigit(text[at - 1]) || text[at - 1] == '.')) --at;
    if (at == 0 || text[at - 1] != 'x') return std::nullopt;
    return numberBefore(text, at - 1);
}

}  // namespace

bool mentions(std::string_view text, std::string_view word) {
    return lowered(text).find(word) != std::string::npos;
}

std::optional<double> numberAfter(std::string_view text, std::string_view key) {
    const std::string low = lowered(text);
    for (std::size_t at = low.find(key); at != std::string::npos; at = low.find(key, at + 1)) {
        if (at > 0 && (std::isalnum(static_cast<unsigned char>(low[at - 1])) || low[at - 1] == '_'))
            continue;
        std::size_t digit = at + key.size();
        while (digit < low.size() && (low[digit] == '=' || low[digit] == ' ')) ++digit;
        if (digit < low.size() && isDigit(low[digit]))
            return std::strtod(low.c_str() + digit, nullptr);
    }
    return std::nullopt;
}

Result<Sharding> parseSharding(std::string_view text) {
    Sharding out;
    const std::string low = lowered(text);
    const auto has = [&](std::string_view word) { return low.find(word) != std::string::npos; };
    if (low == "none" || low == "ddp") return out;
    if (has("zero-1/2") || has("grad_op") || has("zero-2")) {
        out.zero_stage = 2;
    } else if (has("zero-3") || has("fsdp") || has("full_shard")) {
        out.zero_stage = 3;
    } else if (has("zero-1") || has("dist-opt") || has("zero-dp")) {
        out.zero_stage = 1;
    } else {
        Error error = fail(ErrorCode::InvalidInput, "'{}' is no known sharding", text);
        error.hint = "none, ZeRO-1, ZeRO-2, ZeRO-3, FSDP with shard=N";
        return error;
    }
    for (std::string_view key : {"shard", "fsdp", "group", "within"})
        if (const std::optional<double> n = numberAfter(text, key)) {
            out.group = static_cast<std::int64_t>(*n);
            break;
        }
    if (out.group == 1) out.zero_stage = 0;
    return out;
}

Result<Recompute> parseRecompute(std::string_view text) {
    Recompute out;
    const std::string low = lowered(text);
    const auto has = [&](std::string_view word) { return low.find(word) != std::string::npos; };
    if (low.empty() || low.starts_with("none")) return out;
    if (low.starts_with("full")) {
        out.granularity = RecomputeGranularity::Full;
        if (const std::optional<double> layers = numberAfter(low, "block"))
            out.num_layers = static_cast<std::int64_t>(*layers);
        return out;
    }
    out.granularity = RecomputeGranularity::Selective;
    for (std::string_view module :
         {"core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "shared_experts"})
        if (has(module)) out.modules.emplace_back(module);
    if (has("(op)")) out.modules.emplace_back("op");
    if (hasWord(low, "moe")) out.modules.emplace_back("moe");
    if (out.modules.empty() && (has("selective") || has("attention")))
        out.modules.emplace_back("core_attn");
    if (!out.modules.empty()) return out;
    Error error = fail(ErrorCode::InvalidInput, "'{}' is no known recompute", text);
    error.hint = "none, full, selective, or modules such as core_attn+moe_act";
    return error;
}

Result<Precision> parsePrecision(std::string_view text) {
    const std::string low = lowered(text);
    const auto has = [&](std::string_view word) { return low.find(word) != std::string::npos; };
    if (has("nvfp4") || has("fp4")) return Precision::Nvfp4;
    if (has("mxfp8") || has("fp8-mx")) return Precision::Mxfp8;
    if (has("fp8-block") || has("fp8-sc") || has("blockwise")) return Precision::Fp8Block;
    if (has("fp8") || has("float8")) return Precision::Fp8;
    if (has("bf16") || has("bfloat16")) return Precision::Bf16;
    if (has("fp16") || has("float16")) return Precision::Fp16;
    if (has("tf32")) return Precision::Tf32;
    if (has("fp32") || has("float32")) return Precision::Fp32;
    Error error = fail(ErrorCode::InvalidInput, "'{}' is no known precision", text);
    error.hint = "BF16, FP16, FP8, FP8-block, MXFP8, NVFP4, TF32, FP32";
    return error;
}

Overlap parseOverlap(std::string_view text, const Overlap& fallback) {
    Overlap out = fallback;
    const std::string low = lowered(text);
    const auto has = [&](std::string_view word) { return low.find(word) != std::string::npos; };
    if (has("ep overlap on")) out.ep = true;
    if (has("ep overlap off")) out.ep = false;
    if (has("cp a2a")) out.cp = false;
    if (low.starts_with("none")) {
        out.tp = out.ep = out.dp_grad_reduce = out.dp_param_gather = false;
        return out;
    }
    if (has("vanilla tp")) out.tp = false;
    if (has("asynctp") || has("async tp")) {
        out.tp = true;
        return out;
    }
    const bool tp = has("userbuffers") || has("tp overlap") || has("tp/pp/dp overlap");
    const bool pp = has("p2p") || has("pp overlap") || has("tp/pp/dp overlap");
    const bool dp = has("dp grad") || has("; dp") || low.starts_with("dp") || has("dp overlap");
    if (!tp && !pp && !dp) return out;
    // An ablation row ("+PP overlap") adds to the one before; these come in that order.
    out.tp = tp || low.starts_with("+pp overlap") || low.starts_with("+dp overlap");
    out.pp = pp || low.starts_with("+dp overlap") || fallback.pp;
    out.dp_grad_reduce = out.dp_param_gather = dp;
    return out;
}

Result<std::optional<ScheduleKind>> parseSchedule(std::string_view text) {
    const std::string low = lowered(text);
    const std::size_t at = low.find("schedule=");
    if (at == std::string::npos) {
        if (low.starts_with("interleaved 1f1b"))
            return std::optional(ScheduleKind::InterleavedOneF1B);
        if (low.starts_with("1f1b")) return std::optional(ScheduleKind::OneF1B);
        return std::optional<ScheduleKind>();
    }
    const std::string name = low.substr(at + 9, low.find(';', at) - at - 9);
    constexpr std::array<std::pair<std::string_view, ScheduleKind>, 8> kNames = {{
        {"zb-1p", ScheduleKind::ZbH1},
        {"zb-h1", ScheduleKind::ZbH1},
        {"zb-2p", ScheduleKind::ZbH2},
        {"zb-h2", ScheduleKind::ZbH2},
        {"zb-v", ScheduleKind::ZbV},
        {"1f1b-i", ScheduleKind::InterleavedOneF1B},
        {"1f1b", ScheduleKind::OneF1B},
        {"gpipe", ScheduleKind::GPipe},
    }};
    for (const auto& [known, kind] : kNames)
        if (name == known) return std::optional(kind);
    return fail(ErrorCode::InvalidInput, "'{}' is no known schedule", name);
}

std::optional<BytesPerSecond> parseNicRate(std::string_view text, std::int64_t devices_per_node) {
    const std::string low = lowered(text);
    const bool per_node = low.find("per node") != std::string::npos;
    for (std::size_t at = low.find("gb"); at != std::string::npos; at = low.find("gb", at + 1)) {
        // NVLink's own rate is in bytes: "450GB/s".
        if (text[at + 1] == 'B') continue;
        const std::optional<double> rate = numberBefore(low, at);
        if (!rate) continue;
        std::size_t begin = at;
        while (begin > 0 && low[begin - 1] == ' ') --begin;
        const std::optional<double> times = timesBefore(low, begin);
        double total = *rate * times.value_or(1.0);
        if (per_node || times) total /= static_cast<double>(devices_per_node);
        return gbitps(total);
    }
    return std::nullopt;
}

}  // namespace piper
