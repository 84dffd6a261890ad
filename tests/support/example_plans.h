// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "core/plan/plan.h"
#include "tests/support/paths.h"

namespace piper::test {

/// A model of packaging/examples ("configs/Mixtral-8x7B-v0.1.json", "models/olmoe-tiny.json").
inline ModelSpec exampleModel(const std::string& file) {
    Result<ModelSpec> model =
        readModelText(readText(sourceDir() / "packaging/examples" / file), file);
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().text());
    return std::move(model).value();
}

/// That model on nodes of eight H100, one micro-batch sequence, nothing else set.
inline Plan h100Plan(const std::string& file, std::int64_t nodes, std::int64_t seq_len,
                     std::int64_t global_batch_size) {
    Plan plan;
    plan.model = exampleModel(file);
    Result<ClusterSpec> cluster = defaultCluster("H100 SXM", nodes);
    EXPECT_TRUE(cluster.ok()) << (cluster.ok() ? "" : cluster.error().text());
    plan.cluster = std::move(cluster).value();
    plan.seq_len = seq_len;
    plan.global_batch_size = global_batch_size;
    return plan;
}

inline Plan tinyPlan(std::int64_t pp, std::int64_t ep, std::int64_t dp,
                     std::int64_t micro_batches) {
    Plan plan = h100Plan("models/olmoe-tiny.json", 1, 256, dp * micro_batches);
    plan.layout.pp = pp;
    plan.layout.ep = ep;
    plan.layout.dp = dp;
    return plan;
}

}  // namespace piper::test
