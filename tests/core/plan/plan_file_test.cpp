// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"
#include "tests/core/plan/plans.h"

namespace piper {
namespace {

class Examples : public ::testing::TestWithParam<std::string> {};

TEST_P(Examples, ReadValidateAndRoundTrip) {
    const Plan p = test::plan(GetParam());
    EXPECT_EQ(test::rules(validatePlan(p)), "");
    const Json written = writePlan(p);
    const Result<Plan> again = readPlanText(written.dump(2), "plan.json");
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(writePlan(*again), written);
    EXPECT_EQ(again->layout, p.layout);
    EXPECT_EQ(again->model, p.model);
    EXPECT_TRUE(checkJson(p)["ok"].get<bool>());
}

INSTANTIATE_TEST_SUITE_P(Bundled, Examples, ::testing::Values("olmoe-tiny", "mixtral-8x7b-h100"));

TEST(PlanFile, TinyPlanIsFourRanks) {
    const Plan p = test::plan("olmoe-tiny");
    EXPECT_EQ(p.layout.world(), 4);
    EXPECT_EQ(p.layout.edp(), 1);
    EXPECT_EQ(p.numMicroBatches(), 4);
    EXPECT_EQ(p.model.name, "olmoe-tiny");
}

TEST(PlanFile, ReferencedConfigTakesTheNameOfItsFile) {
    EXPECT_EQ(test::plan("mixtral-8x7b-h100").model.name, "Mixtral-8x7B-v0.1");
}

Plan full() {
    Plan p = test::plan("mixtral-8x7b-h100");
    p.stage_layers = {7, 9, 9, 7};
    p.rank_order = "tp-cp-dp-ep-pp";
    p.capacity_factor = 1.25;
    p.recompute = {RecomputeGranularity::Selective, 0, {"core_attn", "moe_act"}};
    p.recompute.method = RecomputeMethod::Uniform;
    p.offload = {true, 0.5, 0.25, false};
    p.optimizer = {OptimizerKind::Muon,  StateFormat::Bf16, StateFormat::Fp32,
                   StateFormat::Default, StateFormat::Fp8,  StateFormat::None};
    p.memory = {1e6, 2e6, 3e6, 0.05};
    p.reshard_after_forward = false;
    p.fp8_parameters = true;
    p.fused_attention = false;
    p.fused_cross_entropy = true;
    p.cuda_graphs = true;
    p.zero_stage = 1;
    p.routing_load.kind = RoutingLoadKind::Histogram;
    p.routing_load.histogram = {{1, 2, 3, 4, 5, 6, 7, 0.125}};
    p.routing_load.peaks = {{1.5, 2.25}, {1.0, 1.0}};
    p.expert_placement = {7, 6, 5, 4, 3, 2, 1, 0};
    p.all_to_all = {AllToAllAlgorithm::Node, AllToAllLibrary::Nccl, 4, 2};
    p.overlap = Overlap{false, true, false, true, true, false};
    return p;
}

TEST(PlanFile, EveryFieldSurvivesTheRoundTrip) {
    const Plan p = full();
    EXPECT_EQ(test::rules(validatePlan(p)), "");
    const Result<Plan> r = readPlan(writePlan(p), "plan.json");
    ASSERT_TRUE(r.ok()) << r.error().text();
    EXPECT_EQ(r->stage_layers, p.stage_layers);
    EXPECT_EQ(r->rank_order, p.rank_order);
    EXPECT_EQ(r->capacity_factor, p.capacity_factor);
    EXPECT_EQ(r->recompute, p.recompute);
    EXPECT_EQ(r->offload, p.offload);
    EXPECT_EQ(r->optimizer, p.optimizer);
    EXPECT_EQ(r->memory, p.memory);
    EXPECT_FALSE(r->reshard_after_forward);
    EXPECT_TRUE(r->fp8_parameters);
    EXPECT_FALSE(r->fused_attention);
    EXPECT_TRUE(r->fused_cross_entropy);
    EXPECT_TRUE(r->cuda_graphs);
    EXPECT_EQ(r->zero_stage, 1);
    EXPECT_EQ(r->routing_load, p.routing_load);
    EXPECT_EQ(r->expert_placement, p.expert_placement);
    EXPECT_EQ(r->all_to_all, p.all_to_all);
    EXPECT_EQ(r->overlap, p.overlap);
    EXPECT_EQ(r->framework, Framework::Megatron);
    EXPECT_EQ(r->precision, Precision::Bf16);
}

TEST(PlanFile, DefaultsOfTheMemoryOptionsAreNotWritten) {
    const Json json = writePlan(test::plan("mixtral-8x7b-h100"));
    for (const char* key : {"optimizer", "memory", "reshard_after_forward", "fp8_parameters",
                            "fused_attention", "fused_cross_entropy"})
        EXPECT_FALSE(json.contains(key)) << key;
    EXPECT_FALSE(json["recompute"].contains("method"));
    EXPECT_FALSE(json["offload"].contains("activations"));
}

TEST(PlanFile, OverlapNotGivenIsTheFrameworksOwn) {
    Json json = test::planJson("mixtral-8x7b-h100");
    json["schedule"] = "1f1b";
    const Plan without = *readPlan(json, "p");
    EXPECT_FALSE(without.overlap);
    EXPECT_FALSE(writePlan(without).contains("overlap"));
    EXPECT_EQ(effectiveOverlap(without), defaultOverlap(Framework::Megatron, without.schedule, 1));
    EXPECT_FALSE(effectiveOverlap(without).pp);  // 1F1B waits for its messages
    json["overlap"] = {{"dp_grad_reduce", true}};
    const Overlap given = effectiveOverlap(*readPlan(json, "p"));
    EXPECT_TRUE(given.dp_grad_reduce);
    EXPECT_TRUE(given.cp);
    EXPECT_FALSE(given.tp);
    EXPECT_TRUE(defaultOverlap(Framework::DeepSpeed, without.schedule, 3).dp_param_gather);
    EXPECT_FALSE(defaultOverlap(Framework::DeepSpeed, without.schedule, 1).dp_param_gather);
}

TEST(PlanFile, StageLayersAsAPipelineLayout) {
    Json json = test::planJson("mixtral-8x7b-h100");
    json["stage_layers"] = "Et*7|(t*9|)*2t*7L";
    EXPECT_EQ(readPlan(json, "p")->stage_layers, (std::vector<std::int64_t>{7, 9, 9, 7}));
    json["stage_layers"] = "Et*7||t*7L";
    const Result<Plan> bad = readPlan(json, "p");
    ASSERT_FALSE(bad.ok());
    EXPECT_EQ(bad.error().where, "p.stage_layers");
}

TEST(PlanFile, LayoutFollowsFromTheCluster) {
    Json json = test::planJson("mixtral-8x7b-h100");
    json["layout"] = "tp=2 pp=4 ep=8 etp=1";
    const Result<Plan> p = readPlan(json, "p");
    ASSERT_TRUE(p.ok()) << p.error().text();
    EXPECT_EQ(p->layout.dp, 8);
    EXPECT_TRUE(p->layout.sp);
    json["layout"] = {{"tp", 2}, {"pp", 4}};
    EXPECT_EQ(readPlan(json, "p")->layout.etp, 2);
    json.erase("layout");
    EXPECT_EQ(readPlan(json, "p")->layout.dp, 64);
}

/// One change to a sound file, by JSON pointer, and what the error must name.
struct BadPlan {
    std::string pointer;
    Json value;  ///< null: removed
    std::string expected_where, expected_text;
};

class BadPlanFile : public ::testing::TestWithParam<BadPlan> {};

TEST_P(BadPlanFile, NamesKeyValueAndRule) {
    const BadPlan& bad = GetParam();
    Json json = writePlan(full());
    const Json::json_pointer at(bad.pointer);
    if (bad.value.is_null())
        json[at.parent_pointer()].erase(at.back());
    else
        json[at] = bad.value;
    const Result<Plan> p = readPlan(json, "plan.json");
    ASSERT_FALSE(p.ok());
    EXPECT_NE(p.error().where.find(bad.expected_where), std::string::npos) << p.error().text();
    EXPECT_NE(p.error().text().find(bad.expected_text), std::string::npos) << p.error().text();
}

const BadPlan kBad[] = {
    {"/micro_batch", 1, "plan.json", "'micro_batch_size'"},
    {"/overlap/dp_grad", true, "overlap", "'dp_grad_reduce'"},
    {"/overlap/tp", "yes", "overlap.tp", "\"yes\""},
    {"/micro_batch_size", 0, "micro_batch_size", "at least 1"},
    {"/micro_batch_size", nullptr, "micro_batch_size", "missing"},
    {"/optimizer/kind", "adam", "optimizer.kind", "'adamw'"},
    {"/optimizer/weights", "none", "optimizer", "cannot be"},
    {"/optimizer/gradients", "none", "optimizer", "freezes the weights"},
    {"/memory/workspace", 1, "memory", "'workspace_bytes'"},
    {"/memory/allocator_slack", -0.1, "memory.allocator_slack", "negative"},
    {"/offload/activation", 0.5, "offload", "'activations'"},
    {"/seq_len", "long", "seq_len", "\"long\""},
    {"/format_version", 7, "plan.json", "newer"},
    {"/schedule", "1f2b", "schedule", "'1f1b'"},
    {"/framework", "megaton", "framework", "'megatron'"},
    {"/precision", "bf61", "precision", "'bf16'"},
    {"/layout/tp", -2, "layout.tp", "-2"},
    {"/layout/tpp", 2, "layout", "'tp'"},
    {"/layout/sp", 1, "layout.sp", "boolean"},
    {"/layout", "tp=x", "layout", "whole number"},
    {"/recompute/granularity", "some", "recompute.granularity", "selective"},
    {"/recompute/modules", "core_attn", "recompute.modules", "array"},
    {"/routing_load/histogram", 3, "routing_load.histogram", "array of arrays"},
    {"/routing_load/peaks/0", Json::array({1}), "routing_load.peaks", "2 numbers"},
    {"/routing_load/histogram/0/0", "x", "routing_load.histogram", "numbers"},
    {"/all_to_all/algorithm", "ring", "all_to_all.algorithm", "flat"},
    {"/all_to_all/chunks", 0, "all_to_all.chunks", "at least 1"},
    {"/offload/fraction", "half", "offload.fraction", "number"},
    {"/capacity_factor", "dropless", "capacity_factor", "number"},
    {"/model", nullptr, "model", "missing"},
    {"/model", "m.json", "model", "not resolved"},
    {"/model/hidden_size", -4, "model.hidden_size", "-4"},
    {"/cluster/nodes", 0, "cluster.nodes", "at least 1"},
    {"/expert_placement", {0, "one"}, "expert_placement", "integers"},
};

INSTANTIATE_TEST_SUITE_P(Keys, BadPlanFile, ::testing::ValuesIn(kBad));

TEST(PlanFile, ReferencesThatCannotBeReadNameTheirKey) {
    const Json json = Json::parse(R"({"model": "missing.json"})");
    const auto r = resolvePlanReferences(json, [](const std::string& path) -> Result<std::string> {
        return fail(ErrorCode::NotFound, "no such file").at(path);
    });
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().where, "model: missing.json");
    const auto broken = resolvePlanReferences(
        json, [](const std::string&) -> Result<std::string> { return std::string("{"); });
    EXPECT_FALSE(broken.ok());
}

}  // namespace
}  // namespace piper
