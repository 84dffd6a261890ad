// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/base/json.h"
#include "core/plan/check.h"
#include "core/plan/plan.h"
#include "tests/support/paths.h"

namespace piper::test {

inline std::filesystem::path examples() {
    return sourceDir() / "packaging/examples";
}

/// A bundled plan file with its references resolved.
inline Json planJson(const std::string& name) {
    const std::filesystem::path file = examples() / "plans" / (name + ".json");
    const auto read = [&](const std::string& path) -> Result<std::string> {
        return readText(file.parent_path() / path);
    };
    Result<Json> json = resolvePlanReferences(Json::parse(readText(file)), read);
    EXPECT_TRUE(json.ok()) << (json.ok() ? "" : json.error().text());
    return json.ok() ? *json : Json();
}

inline Plan plan(const std::string& name) {
    Result<Plan> p = readPlan(planJson(name), name);
    EXPECT_TRUE(p.ok()) << (p.ok() ? "" : p.error().text());
    return p.ok() ? *p : Plan{};
}

inline ModelSpec model(const std::string& name) {
    return *readModelText(readText(examples() / "configs" / (name + ".json")), name);
}

inline const Violation* find(const std::vector<Violation>& violations, std::string_view rule) {
    const auto found = std::find_if(violations.begin(), violations.end(),
                                    [&](const Violation& v) { return v.rule == rule; });
    return found == violations.end() ? nullptr : &*found;
}

inline std::string rules(const std::vector<Violation>& violations) {
    std::string out;
    for (const Violation& v : violations) out += v.rule + ": " + v.message + "\n";
    return out;
}

}  // namespace piper::test
