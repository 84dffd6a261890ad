// SPDX-License-Identifier: Apache-2.0
// Grids, sizes, stages and batches of each framework as `check` sees them.
#include "tests/core/plan/rule_cases.h"

namespace piper {
namespace {

using namespace test;

class FrameworkRules : public ::testing::TestWithParam<RuleCase> {};

TEST_P(FrameworkRules, AreFoundWithFixesThatMendThem) {
    expectRule(GetParam());
}

const RuleCase kGrid[] = {
    {"LabelOfARecipe",
     kMegatron,
     8,
     "tp=1 pp=2 ep=4 etp=1",
     {"label=tp1_pp2_cp1_ep2_etp1"},
     "",
     "the label says ep 2, in force is 4 (given)",
     "label_differs"},
    {"EtpFallsBackToTp",
     kMegatron,
     16,
     "tp=4 ep=4",
     {},
     "",
     "16 ranks instead of 4",
     "etp_default"},
    {"ProductOfDegrees", kPlain, 2, "tp=2 dp=2", {}, "dense_grid", "= 4 ranks, the world has 2"},
    {"MultipleNotEquality", kMegatron, 64, "tp=2 pp=2 ep=8 etp=1", {}, "", ""},
    {"TorchtitanCutsExpertsFromData",
     kTorchtitan,
     8,
     "tp=2 ep=16 etp=1",
     {"num_experts=64"},
     "expert_grid",
     "dp_shard 4 x cp 1 x tp 2 = 8"},
    {"TorchtitanPartOfTheRegion",
     kTorchtitan,
     8,
     "tp=2 cp=2 ep=2 etp=1",
     {"num_experts=8"},
     "",
     ""},
    {"DeepSpeedNumExpertsAsEp",
     kDeepSpeed,
     8,
     "ep=16",
     {"num_experts=16"},
     "ep_divides_dp",
     "ep 16 equals num_experts"},
    {"DeepSpeedEpSize",
     kDeepSpeed,
     8,
     "ep=4",
     {"num_experts=16", "ep_size=16"},
     "ep_size_is_ep",
     "16 is num_experts"},
    {"DegreeAmongTheSettings",
     kMegatron,
     8,
     "pp=2",
     {"ep=8", "etp=1"},
     "expert_grid",
     "= 16 ranks"},
    {"OptimizerInstancesOfTheDenseGrid",
     kMegatron,
     6,
     "tp=1",
     {"num_distributed_optimizer_instances=4"},
     "dp_over_optimizer_instances",
     "dp 6 x cp 1 = 6"},
};

const RuleCase kModel[] = {
    {"MegatronSharesKeyValueHeads",
     kMegatron,
     8,
     "tp=8",
     {"num_heads=32", "num_kv_heads=4"},
     "",
     "each is held by 2 ranks",
     "kv_heads_replicated"},
    {"TorchtitanDoesNot",
     kTorchtitan,
     8,
     "tp=8",
     {"num_heads=32", "num_kv_heads=4"},
     "kv_heads_divide_tp",
     "4 key-value heads over tp 8"},
    {"GroupsOfHeads",
     kMegatron,
     1,
     "tp=1",
     {"num_attention_heads=32", "num_query_groups=5"},
     "heads_divide_kv_heads",
     "32 attention heads over 5 key-value heads leaves 2"},
    {"VocabularyIsPadded",
     kMegatron,
     8,
     "tp=8",
     {"vocab_size=32000"},
     "",
     "32000 to 32768",
     "vocab_padding"},
    {"ExpertWidthOverEtp",
     kMegatron,
     8,
     "tp=8 etp=8",
     {"num_experts=8", "moe_ffn_hidden_size=1412"},
     "expert_width_divides_etp",
     "1412"},
    {"MoreRanksThanExperts",
     kMegatron,
     16,
     "ep=16",
     {"num_experts=8"},
     "experts_divide_ep",
     "8 ranks are left without an expert"},
    {"SequenceParallelismForExperts",
     kMegatron,
     8,
     "tp=2 sp=0 ep=4 etp=1",
     {"num_experts=8"},
     "sequence_parallel",
     "tp 2 only under"},
    {"SequenceParallelismAtTp1", kMegatron, 8, "tp=1 sp=1", {}, "", "off", "sequence_parallel_off"},
    {"TopKOverExperts",
     kMegatron,
     1,
     "",
     {"num_experts=8", "router_topk=9"},
     "topk_within_experts",
     "9 of 8"},
    {"GroupLimitedRouting",
     kMegatron,
     8,
     "ep=8",
     {"num_experts=256", "moe_router_num_groups=8", "moe_router_group_topk=1", "router_topk=64"},
     "topk_within_groups",
     "64 from 1 groups of 32 experts"},
    {"SequenceOverContext",
     kMegatron,
     4,
     "cp=4",
     {"seq_len=4100"},
     "seq_len_divides_cp",
     "2 x cp 4 = 8 slices leaves 4"},
    {"TorchtitanSequence",
     kTorchtitan,
     4,
     "tp=4",
     {"seq_len=4100"},
     "seq_len_divides_tp",
     "tp 4 x 2 x cp 1 = 8 leaves 4"},
    {"TorchtitanLeavesOutPrediction",
     kTorchtitan,
     8,
     "ep=8",
     {"num_experts=64", "mtp_num_layers=1"},
     "",
     "1 layers are left out",
     "mtp_dropped"},
};

const RuleCase kStages[] = {
    {"SilentlyLostLayers",
     kMegatron,
     0,
     "pp=4",
     {"num_layers=30"},
     "layers_divide_stages",
     "builds 4 x 7 = 28 layers"},
    {"EmbeddingAndLossCounted",
     kMegatron,
     0,
     "pp=4",
     {"num_layers=30", "account_for_embedding_in_pipeline_split=1",
      "account_for_loss_in_pipeline_split=1"},
     "",
     ""},
    {"EmbeddingCountedAlone",
     kMegatron,
     0,
     "pp=4",
     {"num_layers=30", "account_for_embedding_in_pipeline_split=1"},
     "layers_divide_stages",
     "are 31"},
    {"OwnFirstAndLastStage",
     kMegatron,
     0,
     "pp=4",
     {"num_layers=46", "decoder_first_pipeline_num_layers=11",
      "decoder_last_pipeline_num_layers=11"},
     "",
     ""},
    {"OwnFirstStageAlone",
     kMegatron,
     0,
     "pp=4",
     {"num_layers=46", "num_layers_in_first_pipeline_stage=9"},
     "layers_divide_stages",
     "37 for 3 middle stages"},
    {"LayersOfAVirtualStage",
     kMegatron,
     0,
     "pp=4",
     {"num_layers=48", "num_layers_per_virtual_pipeline_stage=5"},
     "layers_divide_stages",
     "pp 4 x 5 layers"},
    {"LayersOfAVirtualStageDecideVpp",
     kMegatron,
     0,
     "pp=4",
     {"num_layers=48", "num_layers_per_virtual_pipeline_stage=3"},
     "",
     ""},
    {"InterleavedWithoutStages", kMegatron, 8, "vpp=2", {}, "interleaved_needs_pp", "pp above 1"},
    {"PredictionLayersOfTheString",
     kMegatron,
     0,
     "pp=2",
     {"num_layers=4", "mtp_num_layers=1", "layout_string=Ett|ttL"},
     "layout_mtp_layers",
     "0 multi-token prediction layers m, the model 1"},
    {"TwoLosses",
     kMegatron,
     0,
     "pp=2",
     {"num_layers=4", "layout_string=EttL|ttL"},
     "layout_string",
     "the loss L stands once"},
    {"WholeRoundsOfPp",
     kMegatron,
     0,
     "pp=4 vpp=2",
     {"num_layers=16", "global_batch_size=6"},
     "interleaved_needs_whole_rounds",
     "6 micro-batches over pp 4 leaves 2"},
    {"TorchtitanRounds",
     kTorchtitan,
     4,
     "pp=4 vpp=2",
     {"num_layers=16", "global_batch_size=6"},
     "",
     ""},
    {"TorchtitanFewMicroBatches",
     kTorchtitan,
     4,
     "pp=4",
     {"num_layers=16", "global_batch_size=3"},
     "microbatches_cover_stages",
     "3 micro-batches over 4 stages"},
    {"FewMicroBatches",
     kMegatron,
     4,
     "pp=4",
     {"num_layers=16", "global_batch_size=2"},
     "",
     "60 % of the step is bubble",
     "few_micro_batches"},
};

const RuleCase kBatch[] = {
    {"ValidationBatch",
     kMegatron,
     16,
     "ep=8",
     {"global_batch_size=64", "micro_batch_size=2", "eval_global_batch_size=24"},
     "validation_batch_divides",
     "24 over micro_batch_size 2 x dp 16 = 32 leaves 24"},
    {"ElasticOverModelParallel",
     kDeepSpeed,
     16,
     "tp=4",
     {"global_batch_size=64", "micro_batch_sizes=[8]"},
     "",
     ""},
    {"ElasticWithoutASize",
     kDeepSpeed,
     16,
     "tp=4",
     {"global_batch_size=64", "micro_batch_sizes=6,10"},
     "elastic_micro_batch",
     "global_batch_size 64 / dp 4"},
};

std::string nameOf(const ::testing::TestParamInfo<RuleCase>& info) {
    return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Grid, FrameworkRules, ::testing::ValuesIn(kGrid), nameOf);
INSTANTIATE_TEST_SUITE_P(Model, FrameworkRules, ::testing::ValuesIn(kModel), nameOf);
INSTANTIATE_TEST_SUITE_P(Stages, FrameworkRules, ::testing::ValuesIn(kStages), nameOf);
INSTANTIATE_TEST_SUITE_P(Batch, FrameworkRules, ::testing::ValuesIn(kBatch), nameOf);
TEST(FrameworkRules, ElasticBatchChoosesTheLargestSizeThatDivides) {
    CheckRequest request;
    request.framework = kDeepSpeed;
    request.world = 16;
    request.layout = "tp=4";
    request.settings = {"global_batch_size=64", "micro_batch_sizes=[2, 6, 8]"};
    const Json document = *checkJson(request);
    EXPECT_EQ(document["effective"]["micro_batch_size"], 8);
    EXPECT_EQ(document["effective"]["num_microbatches"], 2);
    EXPECT_NE(document["origins"]["micro_batch_size"].get<std::string>().find("/ dp 4 = 16"),
              std::string::npos);
}

TEST(FrameworkRules, CountedEndsMakeLighterStages) {
    CheckRequest request;
    request.framework = kMegatron;
    request.layout = "pp=4";
    request.settings = {"num_layers=30", "account_for_embedding_in_pipeline_split=1",
                        "account_for_loss_in_pipeline_split=1"};
    const Json document = *checkJson(request);
    EXPECT_EQ(document["stages"][0]["layers"], 7);
    EXPECT_EQ(document["stages"][1]["layers"], 8);
    EXPECT_EQ(document["stages"][3]["layers"], 7);
}

TEST(FrameworkRules, ADegreeGivenTwiceMustAgree) {
    CheckRequest request;
    request.layout = "ep=4";
    request.settings = {"ep=8"};
    const Result<Json> document = checkJson(request);
    ASSERT_FALSE(document.ok());
    EXPECT_NE(document.error().text().find("4 in the layout and 8"), std::string::npos);
}

}  // namespace
}  // namespace piper
