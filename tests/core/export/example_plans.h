// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/base/json.h"
#include "core/export/export.h"
#include "tests/support/paths.h"

namespace piper::test {

inline ModelSpec exampleModel(const std::string& file) {
    Json json = Json::parse(readText(sourceDir() / "packaging/examples" / file));
    Result<ModelSpec> model = readModel(json, file);
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().text());
    ModelSpec out = model.ok() ? std::move(model).value() : ModelSpec{};
    if (out.name.empty()) out.name = file.substr(file.rfind('/') + 1);
    return out;
}

inline Plan examplePlan(const std::string& name) {
    const auto folder = sourceDir() / "packaging/examples/plans";
    const auto read = [&](const std::string& path) -> Result<std::string> {
        return readText(folder / path);
    };
    const Json json = Json::parse(readText(folder / (name + ".json")));
    Result<Json> whole = resolvePlanReferences(json, read);
    EXPECT_TRUE(whole.ok()) << (whole.ok() ? "" : whole.error().text());
    Result<Plan> plan = readPlan(*whole, name);
    EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().text());
    return std::move(plan).value();
}

/// DeepSeek-V2-Lite (multi-latent attention, one dense layer first) in two stages of 14 and 13.
inline Plan deepSeekPlan() {
    Plan plan = examplePlan("mixtral-8x7b-h100");
    plan.model = exampleModel("configs/DeepSeek-V2-Lite.json");
    plan.layout = {.tp = 1, .sp = false, .cp = 1, .pp = 2, .vpp = 1, .ep = 8, .etp = 1, .dp = 32};
    plan.stage_layers = {14, 13};
    plan.recompute = {RecomputeGranularity::Full, 3, {}};
    return plan;
}

inline std::string text(const Plan& plan) {
    return writePlan(plan).dump(1);
}

inline ExportedFile& fileOf(Export& exported, const std::string& name) {
    for (ExportedFile& file : exported.files)
        if (file.name == name) return file;
    ADD_FAILURE() << "no file " << name;
    static ExportedFile none;
    return none;
}

/// Replaces the only occurrence.
inline void replaceIn(ExportedFile& file, const std::string& from, const std::string& to) {
    const std::size_t at = file.content.find(from);
    ASSERT_NE(at, std::string::npos) << "no '" << from << "' in\n" << file.content;
    file.content.replace(at, from.size(), to);
}

}  // namespace piper::test
