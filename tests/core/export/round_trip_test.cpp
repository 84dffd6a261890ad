// SPDX-License-Identifier: Apache-2.0
// Every target gives back the plan it was made from, and a value changed in its file.
#include <gmock/gmock.h>

#include "tests/core/export/example_plans.h"

namespace piper {
namespace {

using test::deepSeekPlan;
using test::examplePlan;
using test::fileOf;
using test::replaceIn;
using test::text;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

Export exported(const Plan& plan, ExportTarget target) {
    Result<Export> out = exportPlan(plan, target);
    EXPECT_TRUE(out.ok()) << toText(target) << ": " << (out.ok() ? "" : out.error().text());
    return out.ok() ? std::move(out).value() : Export{};
}

/// A plan that has nothing of the one exported but its cluster.
Plan otherBase(const Plan& plan) {
    Plan base = examplePlan("olmoe-tiny");
    base.cluster = plan.cluster;
    return base;
}

void expectRoundTrip(const Plan& plan, ExportTarget target) {
    const Export out = exported(plan, target);
    const Result<Plan> back = importPlan(target, out.files, otherBase(plan));
    ASSERT_TRUE(back.ok()) << toText(target) << ": " << back.error().text();
    EXPECT_EQ(text(*back), text(plan)) << toText(target);
    EXPECT_TRUE(back->model == plan.model) << toText(target);
    EXPECT_TRUE(back->layout == plan.layout) << toText(target);
}

Plan imported(ExportTarget target, const Export& files, const Plan& plan) {
    Result<Plan> back = importPlan(target, files.files, otherBase(plan));
    EXPECT_TRUE(back.ok()) << (back.ok() ? "" : back.error().text());
    return back.ok() ? std::move(back).value() : Plan{};
}

/// The keys of the piper-plan line: what no option says.
Json residualOf(const std::string& content) {
    const std::string mark = "# piper-plan: ";
    const std::size_t at = content.find(mark);
    if (at == std::string::npos) return Json::object();
    const std::size_t from = at + mark.size();
    return Json::parse(content.substr(from, content.find('\n', from) - from));
}

std::vector<std::string> keysOf(const Json& object) {
    std::vector<std::string> out;
    for (const auto& [key, value] : object.items()) out.push_back(key);
    return out;
}

TEST(ExportRoundTrip, MixtralOnEveryTarget) {
    for (const auto& row : enumNames<ExportTarget>())
        expectRoundTrip(examplePlan("mixtral-8x7b-h100"), row.value);
}

TEST(ExportRoundTrip, OlmoeTinyOnEveryTarget) {
    for (const auto& row : enumNames<ExportTarget>())
        expectRoundTrip(examplePlan("olmoe-tiny"), row.value);
}

TEST(ExportRoundTrip, DeepSeekWhereLatentAttentionExists) {
    for (const ExportTarget target : {ExportTarget::Megatron, ExportTarget::DeepSpeed,
                                      ExportTarget::Torchtitan, ExportTarget::Slurm})
        expectRoundTrip(deepSeekPlan(), target);
}

TEST(ExportRoundTrip, LatentAttentionIsRefusedWhereItWouldTrainAnotherModel) {
    for (const ExportTarget target : {ExportTarget::MegatronYaml, ExportTarget::XMoe}) {
        const Result<Export> out = exportPlan(deepSeekPlan(), target);
        ASSERT_FALSE(out.ok()) << toText(target);
        EXPECT_EQ(out.error().code, ErrorCode::RuleBroken);
        EXPECT_THAT(out.error().message, HasSubstr("multi-latent attention"));
    }
}

TEST(ExportRoundTrip, EveryPartOfAPlan) {
    Plan plan = examplePlan("mixtral-8x7b-h100");
    plan.layout = {.tp = 2, .sp = true, .cp = 2, .pp = 4, .vpp = 2, .ep = 4, .etp = 2, .dp = 4};
    plan.schedule = ScheduleKind::InterleavedOneF1B;
    plan.capacity_factor = 1.25;
    plan.zero_stage = 3;
    plan.offload = {true, 0.5};
    plan.precision = Precision::Fp8;
    plan.recompute = {RecomputeGranularity::Selective, 0, {"core_attn", "moe_act"}};
    plan.routing_load.kind = RoutingLoadKind::Zipf;
    plan.routing_load.zipf_exponent = 0.8;
    plan.expert_placement = {0, 1, 2, 3, 3, 2, 1, 0};
    plan.all_to_all = {AllToAllAlgorithm::Node, AllToAllLibrary::Auto, 2, 2};
    plan.model.moe->shared_gate = true;
    plan.model.moe->shared_ffn_hidden_size = 2048;
    plan.model.attention.sliding_window = 4096;
    plan.model.attention.qkv_bias = true;
    for (const ExportTarget target : {ExportTarget::Megatron, ExportTarget::MegatronYaml})
        expectRoundTrip(plan, target);
    plan.framework = Framework::Torchtitan;
    plan.capacity_factor.reset();
    expectRoundTrip(plan, ExportTarget::Torchtitan);
    expectRoundTrip(plan, ExportTarget::Slurm);
    plan.framework = Framework::DeepSpeed;
    plan.layout = {.tp = 2, .sp = true, .cp = 2, .pp = 4, .vpp = 1, .ep = 4, .etp = 2, .dp = 4};
    plan.stage_layers = {9, 8, 8, 7};
    plan.schedule = ScheduleKind::OneF1B;
    plan.precision = Precision::Fp16;
    plan.zero_stage = 1;
    plan.model.moe->shared_ffn_hidden_size = plan.model.moe->moe_ffn_hidden_size;
    for (const ExportTarget target :
         {ExportTarget::DeepSpeed, ExportTarget::XMoe, ExportTarget::Slurm})
        expectRoundTrip(plan, target);
}

// Options carry what they can: only these few keys may stand in the comment line.
TEST(ExportRoundTrip, OnlyWhatHasNoOptionIsInTheComment) {
    const Plan mixtral = examplePlan("mixtral-8x7b-h100");
    Export out = exported(mixtral, ExportTarget::Megatron);
    const Json rest = residualOf(fileOf(out, "megatron.sh").content);
    EXPECT_THAT(keysOf(rest), ::testing::ElementsAre("model")) << rest;
    EXPECT_THAT(keysOf(rest.at("model")), ::testing::UnorderedElementsAre("name", "model_type"))
        << rest;
    EXPECT_TRUE(out.not_expressed.empty()) << out.not_expressed.front();

    Plan plan = deepSeekPlan();
    plan.expert_placement.assign(64, 0);
    for (std::size_t i = 0; i < 64; ++i) plan.expert_placement[i] = static_cast<int>(i % 8);
    out = exported(plan, ExportTarget::Megatron);
    const Json more = residualOf(fileOf(out, "megatron.sh").content);
    EXPECT_THAT(keysOf(more), ::testing::UnorderedElementsAre("expert_placement", "model")) << more;
    EXPECT_THAT(keysOf(more.at("model")), ::testing::UnorderedElementsAre("name", "model_type"))
        << more;
    EXPECT_THAT(out.not_expressed, Contains(HasSubstr("experts are placed in order")));
}

TEST(ExportEdited, MegatronOptionsReachThePlan) {
    const Plan plan = examplePlan("mixtral-8x7b-h100");
    Export out = exported(plan, ExportTarget::Megatron);
    ExportedFile& script = fileOf(out, "megatron.sh");
    replaceIn(script, "--micro-batch-size 1", "--micro-batch-size=2");
    replaceIn(script, "--expert-model-parallel-size 8",
              "--expert-model-parallel-size \"4\" # less");
    replaceIn(script, "--bf16", "--fp16");
    replaceIn(script, "NNODES:-8", "NNODES:-16");
    replaceIn(script, "--moe-router-topk 2", "--moe-router-topk 3");
    const Plan back = imported(ExportTarget::Megatron, out, plan);
    EXPECT_EQ(back.micro_batch_size, 2);
    EXPECT_EQ(back.layout.ep, 4);
    EXPECT_EQ(back.precision, Precision::Fp16);
    EXPECT_EQ(back.layout.dp, 32);
    EXPECT_EQ(back.model.moe->router_topk, 3);
    EXPECT_EQ(back.model.name, plan.model.name);
}

TEST(ExportEdited, ExpertTensorParallelFallsBackToTensorParallelWhenLeftOut) {
    Plan plan = examplePlan("mixtral-8x7b-h100");
    plan.layout = {.tp = 2, .sp = true, .cp = 1, .pp = 4, .vpp = 1, .ep = 8, .etp = 1, .dp = 8};
    Export out = exported(plan, ExportTarget::Megatron);
    ExportedFile& script = fileOf(out, "megatron.sh");
    EXPECT_THAT(script.content, HasSubstr("--expert-tensor-parallel-size 1"));
    EXPECT_THAT(script.content, Not(HasSubstr("mtp-num-layers")));
    replaceIn(script, "    --expert-tensor-parallel-size 1\n", "");
    EXPECT_EQ(imported(ExportTarget::Megatron, out, plan).layout.etp, 2);
}

TEST(ExportEdited, YamlTomlJsonAndSbatchReachThePlan) {
    const Plan plan = examplePlan("mixtral-8x7b-h100");
    Export yaml = exported(plan, ExportTarget::MegatronYaml);
    replaceIn(fileOf(yaml, "megatron.yaml"), "seq_length: 4096", "seq_length: 2048");
    EXPECT_EQ(imported(ExportTarget::MegatronYaml, yaml, plan).seq_len, 2048);

    Export toml = exported(plan, ExportTarget::Torchtitan);
    replaceIn(fileOf(toml, "torchtitan.toml"), "expert_parallel_degree = 8",
              "expert_parallel_degree = 4");
    EXPECT_EQ(imported(ExportTarget::Torchtitan, toml, plan).layout.ep, 4);

    Export json = exported(plan, ExportTarget::DeepSpeed);
    replaceIn(fileOf(json, "ds_config.json"), "\"train_batch_size\": 256",
              "\"train_batch_size\": 512");
    EXPECT_EQ(imported(ExportTarget::DeepSpeed, json, plan).global_batch_size, 512);
    EXPECT_EQ(imported(ExportTarget::DeepSpeed, json, plan).layout.dp, 32);

    Export job = exported(plan, ExportTarget::Slurm);
    replaceIn(fileOf(job, "job.sbatch"), "--nodes=8", "--nodes=4");
    EXPECT_EQ(imported(ExportTarget::Slurm, job, plan).layout.dp, 8);
}

TEST(ExportEdited, XMoeFilesThatDisagreeAreRefused) {
    const Plan plan = examplePlan("mixtral-8x7b-h100");
    Export out = exported(plan, ExportTarget::XMoe);
    EXPECT_THAT(fileOf(out, "xmoe.sh").content, HasSubstr("--use-pft"));
    replaceIn(fileOf(out, "xmoe.sh"), "--global-batch-size 256", "--global-batch-size 512");
    const Result<Plan> back = importPlan(ExportTarget::XMoe, out.files, plan);
    ASSERT_FALSE(back.ok());
    EXPECT_THAT(back.error().message, HasSubstr("--global-batch-size 512 in xmoe.sh"));
    replaceIn(fileOf(out, "ds_config.json"), "\"train_batch_size\": 256",
              "\"train_batch_size\": 512");
    EXPECT_EQ(imported(ExportTarget::XMoe, out, plan).global_batch_size, 512);
}

TEST(ExportRules, WhatAFrameworkCannotLaunchIsRefusedWithEveryReason) {
    Plan plan = examplePlan("mixtral-8x7b-h100");
    plan.schedule = ScheduleKind::DualPipe;
    plan.global_batch_size = 255;
    const Result<Export> out = exportPlan(plan, ExportTarget::Megatron);
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.error().code, ErrorCode::RuleBroken);
    EXPECT_THAT(out.error().message, HasSubstr("megatron has no schedule dualpipe"));
    EXPECT_THAT(out.error().message, HasSubstr("global_batch_size 255"));
}

}  // namespace
}  // namespace piper
