// SPDX-License-Identifier: Apache-2.0
#include "core/plan/layout.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>

namespace piper {
namespace {

constexpr std::int64_t kMost = 1 << 24;

Result<std::int64_t> parseValue(std::string_view key, std::string_view text) {
    if (key == "sp") {
        if (text.empty() || text == "true" || text == "1") return std::int64_t{1};
        if (text == "false" || text == "0") return std::int64_t{0};
        return fail(ErrorCode::InvalidInput, "sp={}: expected 0 or 1", text);
    }
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
        return fail(ErrorCode::InvalidInput, "{}={}: expected a whole number", key, text);
    if (value < 1 || value > kMost)
        return fail(ErrorCode::InvalidInput, "{}={}: a degree is between 1 and {}", key, value,
                    kMost);
    return value;
}

class Completion {
public:
    explicit Completion(const GivenDegrees& given) : m_given(given) {}

    std::int64_t value(const std::string& key, std::int64_t fallback, std::string origin) {
        const auto found = m_given.find(key);
        if (found != m_given.end()) {
            fallback = found->second;
            origin = "given";
        }
        m_effective.push_back({key, fallback, std::move(origin)});
        return fallback;
    }
    void follows(std::string key, std::int64_t value, std::string origin) {
        m_effective.push_back({std::move(key), value, std::move(origin)});
    }
    [[nodiscard]] std::vector<EffectiveValue> take() { return std::move(m_effective); }

private:
    const GivenDegrees& m_given;
    std::vector<EffectiveValue> m_effective;
};

}  // namespace

std::int64_t minimumWorld(const Layout& layout) {
    return layout.pp * std::lcm(layout.tp * layout.cp, layout.ep * layout.etp);
}

Result<GivenDegrees> parseDegrees(std::string_view text) {
    GivenDegrees given;
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t start = text.find_first_not_of(" \t\n,;", at);
        if (start == std::string_view::npos) break;
        at = std::min(text.find_first_of(" \t\n,;", start), text.size());
        const std::string_view word = text.substr(start, at - start);
        const std::size_t equals = word.find('=');
        const std::string_view key = word.substr(0, equals);
        if (std::find(kDegrees.begin(), kDegrees.end(), key) == kDegrees.end()) {
            Error error = fail(ErrorCode::InvalidInput,
                               "unknown degree '{}' in layout \"{}\"; nearest known: '{}'", key,
                               text, nearestWord(key, kDegrees));
            error.hint =
                fmt::format("degrees: {}; for example \"tp=2 pp=4 ep=8\"", joinWords(kDegrees));
            return error;
        }
        if (equals == std::string_view::npos && key != "sp")
            return fail(ErrorCode::InvalidInput, "'{}' in layout \"{}\" has no value; write {}=N",
                        key, text, key);
        const std::string_view value =
            equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
        PIPER_ASSIGN(const std::int64_t degree, parseValue(key, value));
        if (!given.emplace(std::string(key), degree).second)
            return fail(ErrorCode::InvalidInput, "'{}' stands twice in layout \"{}\"", key, text);
    }
    return given;
}

CompletedLayout completeDegrees(const GivenDegrees& given, std::int64_t world,
                                Framework framework) {
    Completion completion(given);
    CompletedLayout out;
    Layout& l = out.layout;
    const bool megatron = framework == Framework::Megatron;
    l.tp = completion.value("tp", 1, "default");
    l.sp = completion.value("sp", megatron && l.tp > 1 ? 1 : 0,
                            megatron && l.tp > 1 ? "default: megatron needs it for MoE with tp > 1"
                                                 : "default") != 0;
    l.cp = completion.value("cp", 1, "default");
    l.pp = completion.value("pp", 1, "default");
    l.vpp = completion.value("vpp", 1, "default");
    l.ep = completion.value("ep", 1, "default");
    l.etp = completion.value("etp", megatron ? l.tp : 1,
                             megatron ? "default of megatron: tp" : "default");
    const std::int64_t inner = l.tp * l.cp * l.pp;
    std::string world_origin = "given";
    if (world < 1) {
        const auto dp = given.find("dp");
        world = dp != given.end() ? inner * dp->second : minimumWorld(l);
        world_origin = dp != given.end() ? "tp cp pp dp" : "smallest of these degrees";
    }
    l.dp = completion.value(
        "dp", std::max<std::int64_t>(1, world / inner),
        fmt::format("world {} / (tp {} x cp {} x pp {})", world, l.tp, l.cp, l.pp));
    completion.follows(
        "edp", world / (l.etp * l.ep * l.pp),
        fmt::format("world {} / (etp {} x ep {} x pp {})", world, l.etp, l.ep, l.pp));
    completion.follows("world", world, world_origin);
    out.effective = completion.take();
    return out;
}

Result<CompletedLayout> completeLayout(std::string_view text, std::int64_t world,
                                       Framework framework) {
    PIPER_ASSIGN(const GivenDegrees given, parseDegrees(text));
    return completeDegrees(given, world, framework);
}

}  // namespace piper
