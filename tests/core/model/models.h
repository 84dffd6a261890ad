// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/base/json.h"
#include "core/model/model.h"
#include "tests/support/paths.h"

namespace piper::test {

/// A bundled config.json as JSON.
inline Json configJson(const std::string& name) {
    return Json::parse(readText(sourceDir() / "packaging/examples/configs" / (name + ".json")));
}

/// A bundled config.json, read.
inline ModelSpec config(const std::string& name) {
    Result<ModelSpec> model = readModel(configJson(name), name);
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().text());
    return model.ok() ? *model : ModelSpec{};
}

/// Qwen3-235B-A22B: sizes of the Megatron-MoE-ModelZoo yaml (commit e865051).
inline ModelSpec qwen3Large() {
    Json json = configJson("Qwen3-30B-A3B");
    json["num_hidden_layers"] = 94;
    json["hidden_size"] = 4096;
    json["num_attention_heads"] = 64;
    json["moe_intermediate_size"] = 1536;
    return *readModel(json, "Qwen3-235B-A22B");
}

}  // namespace piper::test
