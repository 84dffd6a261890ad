// SPDX-License-Identifier: Apache-2.0
#include "tests/core/plan/plans.h"

namespace piper {
namespace {

TEST(Check, EffectiveValuesAndWhereTheyCameFrom) {
    CheckRequest request;
    request.model = test::model("Qwen3-30B-A3B");
    request.framework = Framework::Megatron;
    request.world = 64;
    request.layout = "tp=4 pp=4 ep=4";
    request.settings = {"global_batch_size=128", "seq_len=4096"};
    const Json d = *checkJson(request);
    EXPECT_TRUE(d["ok"].get<bool>()) << d.dump(1);
    EXPECT_EQ(d["effective"]["etp"], 4);
    EXPECT_EQ(d["origins"]["etp"], "default of megatron: tp");
    EXPECT_EQ(d["effective"]["dp"], 4);
    EXPECT_EQ(d["effective"]["edp"], 1);
    EXPECT_EQ(d["effective"]["num_layers"], 48);
    EXPECT_EQ(d["origins"]["num_layers"], "model");
    EXPECT_EQ(d["effective"]["num_microbatches"], 32);
    EXPECT_EQ(d["grids"]["dense"]["dp"], 4);
    EXPECT_EQ(d["grids"]["expert"]["ep"], 4);
    EXPECT_EQ(d["minimum_world"], 64);
    EXPECT_EQ(d["stages"].size(), 4u);
}

TEST(Check, SettingsOverrideTheModel) {
    CheckRequest request;
    request.model = test::model("Mixtral-8x7B-v0.1");
    request.layout = "pp=4 ep=4";
    request.settings = {"num_layers=30", "num_experts=6"};
    const Json d = *checkJson(request);
    EXPECT_EQ(d["origins"]["num_layers"], "given");
    std::string rules;
    for (const Json& v : d["violations"]) rules += v["rule"].get<std::string>() + " ";
    EXPECT_NE(rules.find("layers_divide_stages"), std::string::npos) << rules;
    EXPECT_NE(rules.find("experts_divide_ep"), std::string::npos) << rules;
}

TEST(Check, AGridThatDoesNotFitHasNoDegreeLeft) {
    CheckRequest request;
    request.world = 12;
    request.layout = "pp=2 ep=8";
    const Json d = *checkJson(request);
    EXPECT_TRUE(d["grids"]["expert"]["edp"].is_null());
    EXPECT_EQ(d["grids"]["dense"]["dp"], 6);
    EXPECT_EQ(d["minimum_world"], 16);
}

TEST(Check, DenseGridNamesNeighbours) {
    CheckRequest request;
    request.world = 48;
    request.layout = "tp=8 pp=4";
    const Json d = *checkJson(request);
    ASSERT_FALSE(d["ok"].get<bool>());
    const std::string text = d["violations"].dump();
    EXPECT_NE(text.find("48 given leaves 16"), std::string::npos) << text;
    EXPECT_NE(text.find("\"pp=3\""), std::string::npos) << text;
    EXPECT_NE(text.find("\"world=64\""), std::string::npos) << text;
}

TEST(Check, GivenDpMustFillTheWorld) {
    CheckRequest request;
    request.world = 16;
    request.layout = "tp=2 dp=4";
    const std::string text = checkJson(request)->dump();
    EXPECT_NE(text.find("= 8 ranks, the world has 16"), std::string::npos) << text;
    EXPECT_NE(text.find("\"dp=8\""), std::string::npos) << text;
}

TEST(Check, CapacityFactorNeedsAnAllToAllDispatcher) {
    CheckRequest request;
    request.framework = Framework::Megatron;
    request.layout = "ep=8";
    request.settings = {"capacity_factor=1.25", "dispatcher=allgather"};
    EXPECT_NE(checkJson(request)->dump().find("capacity_needs_alltoall"), std::string::npos);
    request.settings = {"capacity_factor=1.25", "dispatcher=alltoall"};
    EXPECT_TRUE((*checkJson(request))["ok"].get<bool>());
}

TEST(Check, SplitWithoutAModelIsHeldAgainstTheStages) {
    CheckRequest request;
    request.layout = "pp=4";
    request.settings = {"stage_layers=8/8/8"};
    const std::string text = checkJson(request)->dump();
    EXPECT_NE(text.find("stage_layers has 3 entries"), std::string::npos) << text;
    EXPECT_EQ(text.find("stage_layers_sum"), std::string::npos) << text;
    request.settings = {"stage_layers=8/8/8/6"};
    EXPECT_TRUE((*checkJson(request))["ok"].get<bool>());
}

TEST(Check, PrecisionOfAGivenDevice) {
    CheckRequest request;
    request.layout = "ep=8";
    request.settings = {"device=A100", "precision=fp8"};
    EXPECT_NE(checkJson(request)->dump().find("precision_of_device"), std::string::npos);
}

TEST(Check, NarrowPrecisionWarnsOfPaddingWhereTheFrameworkPads) {
    CheckRequest request;
    request.framework = Framework::Megatron;
    request.layout = "ep=8";
    request.settings = {"precision=mxfp8"};
    const Json d = *checkJson(request);
    EXPECT_TRUE(d["ok"].get<bool>());
    ASSERT_EQ(d["warnings"].size(), 1u);
    EXPECT_EQ(d["warnings"][0]["rule"], "row_alignment");
}

TEST(Check, UnreadableInputIsAnError) {
    const auto message = [](std::string layout, std::vector<std::string> settings,
                            std::int64_t world = 8) {
        CheckRequest request;
        request.layout = std::move(layout);
        request.settings = std::move(settings);
        request.world = world;
        const Result<Json> d = checkJson(request);
        return d.ok() ? std::string() : d.error().text();
    };
    EXPECT_NE(message("", {"num_layer=4"}).find("'num_layers'"), std::string::npos);
    EXPECT_NE(message("", {"num_layers"}).find("KEY=VALUE"), std::string::npos);
    EXPECT_NE(message("", {"num_layers=four"}).find("four"), std::string::npos);
    EXPECT_NE(message("", {"num_layers=-1"}).find("-1"), std::string::npos);
    EXPECT_NE(message("", {"dispatcher=alltoal"}).find("'alltoall'"), std::string::npos);
    EXPECT_NE(message("", {"precision=fp7"}).find("fp8"), std::string::npos);
    EXPECT_NE(message("", {"capacity_factor=x"}).find("dropless"), std::string::npos);
    EXPECT_NE(message("", {"stage_layers=8/x"}).find("stage_layers"), std::string::npos);
    EXPECT_NE(message("", {"device=H1000"}).find("nearest"), std::string::npos);
    EXPECT_NE(message("ppp=2", {}).find("'pp'"), std::string::npos);
    EXPECT_FALSE(message("", {}, -4).empty());
}

TEST(Check, EverySettingKeyIsReadable) {
    EXPECT_GE(checkSettingKeys().size(), 20u);
    for (const std::string_view key : checkSettingKeys()) {
        CheckRequest request;
        // Free text is read as it is.
        if (key == "label" || key == "load_balancing") continue;
        request.settings = {std::string(key) + "=?"};
        const Result<Json> d = checkJson(request);
        // A rank order and a layout string are judged, everything else must be refused.
        EXPECT_TRUE(!d.ok() || !(*d)["ok"].get<bool>()) << key;
    }
}

TEST(Check, PlanWithABrokenDegreeStillMakesADocument) {
    Plan p = test::plan("olmoe-tiny");
    p.layout.ep = 0;
    const Json d = checkJson(p);
    EXPECT_FALSE(d["ok"].get<bool>());
    EXPECT_EQ(d["violations"][0]["rule"], "degree_at_least_1");
}

}  // namespace
}  // namespace piper
