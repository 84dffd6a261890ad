// SPDX-License-Identifier: Apache-2.0
// The trillion-parameter examples against the totals their papers print.
#include "core/base/json.h"
#include "tests/core/model/models.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

ModelSpec example(const std::string& name) {
    const auto file = test::sourceDir() / "packaging/examples/models" / name;
    Result<ModelSpec> model = readModelText(test::readText(file), name);
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().text());
    return model.ok() ? *model : ModelSpec{};
}

TEST(PaperModels, GlamHas1200BillionParametersOf97Active) {
    const ModelSpec model = example("glam-1.2t.json");
    EXPECT_EQ(model.numMoeLayers(), 32);
    const ModelParameters p = modelParameters(model);
    EXPECT_NEAR(static_cast<double>(p.total) / 1e12, 1.2, 0.05);
    EXPECT_NEAR(static_cast<double>(p.active) / 1e9, 96.6, 1.0);
}

TEST(PaperModels, SwitchCHas1571BillionParameters) {
    const ModelSpec model = example("switch-c-1.6t.json");
    EXPECT_EQ(model.numMoeLayers(), 30);
    EXPECT_NEAR(static_cast<double>(modelParameters(model).total) / 1e9, 1571.0, 5.0);
}

}  // namespace
}  // namespace piper
