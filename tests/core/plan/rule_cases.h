// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>

#include "tests/core/plan/plans.h"

// One layout under one framework a row: the rule it breaks, or what it is warned of.
namespace piper::test {

inline constexpr auto kPlain = Framework::Plain;
inline constexpr auto kMegatron = Framework::Megatron;
inline constexpr auto kDeepSpeed = Framework::DeepSpeed;
inline constexpr auto kTorchtitan = Framework::Torchtitan;

struct RuleCase {
    std::string name;
    Framework framework;
    std::int64_t world;
    std::string layout;
    std::vector<std::string> settings;
    std::string rule;         ///< the violation, "" when the layout is sound
    std::string says;         ///< part of its message
    std::string warned = {};  ///< rule of a warning, "" when none is looked for
    std::int64_t devices_per_node = 8;
};

inline CheckRequest requestOf(const RuleCase& c) {
    CheckRequest request;
    request.framework = c.framework;
    request.world = c.world;
    request.layout = c.layout;
    request.settings = c.settings;
    request.devices_per_node = c.devices_per_node;
    return request;
}

inline std::string messageOf(const Json& list, const std::string& rule) {
    for (const Json& v : list)
        if (v["rule"] == rule) return v["message"].get<std::string>();
    return {};
}

/// The request with "key=value" in place of what it had; false for a fix that is a sentence.
inline bool applied(CheckRequest& request, const std::string& fix) {
    const std::size_t equals = fix.find('=');
    if (equals == std::string::npos || fix.find(' ') < equals) return false;
    const std::string key =
        fix.starts_with("recompute.modules") ? "recompute_modules" : fix.substr(0, equals);
    if (key == "world") {
        request.world = std::stoll(fix.substr(equals + 1));
        return true;
    }
    std::istringstream words(request.layout);
    std::string layout;
    for (std::string word; words >> word;)
        if (!word.starts_with(key + "=")) layout += word + " ";
    request.layout = layout;
    std::erase_if(request.settings, [&](const std::string& s) { return s.starts_with(key + "="); });
    request.settings.push_back(fix);
    return true;
}

/// `check` finds what the row says, and every fix it offers mends the rule it is offered for.
inline void expectRule(const RuleCase& c) {
    const Result<Json> document = checkJson(requestOf(c));
    ASSERT_TRUE(document.ok()) << document.error().text();
    const std::string text = document->dump(1);
    EXPECT_EQ((*document)["ok"].get<bool>(), c.rule.empty()) << text;
    if (!c.warned.empty()) {
        const std::string warning = messageOf((*document)["warnings"], c.warned);
        ASSERT_FALSE(warning.empty()) << c.warned << " not warned of: " << text;
        if (c.rule.empty()) {
            EXPECT_NE(warning.find(c.says), std::string::npos) << warning;
        }
    }
    if (c.rule.empty()) return;
    const std::string message = messageOf((*document)["violations"], c.rule);
    EXPECT_NE(message.find(c.says), std::string::npos) << message << "\n" << text;
    for (const Json& v : (*document)["violations"])
        for (const Json& fix : v["fix"]) {
            CheckRequest fixed = requestOf(c);
            if (!applied(fixed, fix.get<std::string>())) continue;
            const Result<Json> after = checkJson(fixed);
            ASSERT_TRUE(after.ok()) << fix << ": " << after.error().text();
            EXPECT_EQ(messageOf((*after)["violations"], v["rule"].get<std::string>()), "")
                << "after " << fix;
        }
}

inline std::string nameOf(const ::testing::TestParamInfo<RuleCase>& info) {
    return info.param.name;
}

}  // namespace piper::test
