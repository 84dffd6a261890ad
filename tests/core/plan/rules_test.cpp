// SPDX-License-Identifier: Apache-2.0
// One broken rule a row: what is changed in a sound plan, and what the violation must say.
#include <functional>
#include <limits>

#include "tests/core/plan/plans.h"

namespace piper {
namespace {

struct Case {
    std::string name;
    std::string rule;
    std::function<void(Plan&)> change;
    std::vector<std::string> says;  ///< parts of the message
    std::vector<std::string> fix;   ///< among the fixes
};

/// Mixtral-8x7B on 64 H100, pp 4, ep 8, dp 16: sound.
Plan sound() {
    return test::plan("mixtral-8x7b-h100");
}

class BrokenRule : public ::testing::TestWithParam<Case> {};

TEST_P(BrokenRule, IsFoundWithItsNumbersAndNeighbours) {
    Plan plan = sound();
    GetParam().change(plan);
    const std::vector<Violation> violations = validatePlan(plan);
    const Violation* v = test::find(violations, GetParam().rule);
    ASSERT_NE(v, nullptr) << test::rules(violations);
    for (const std::string& part : GetParam().says)
        EXPECT_NE(v->message.find(part), std::string::npos) << part << " not in: " << v->message;
    for (const std::string& fix : GetParam().fix)
        EXPECT_NE(std::find(v->fix.begin(), v->fix.end(), fix), v->fix.end())
            << fix << " not in: " << fmt::format("{}", fmt::join(v->fix, " | "));
}

void layers(Plan& p, std::int64_t n) {
    p.model.num_layers = n;
    p.model.layers.resize(static_cast<std::size_t>(n), LayerKind::Moe);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const Case kGridCases[] = {
    {"DegreeBelow1", "degree_at_least_1", [](Plan& p) { p.layout.tp = 0; }, {"tp 0"}, {"tp=1"}},
    {"ExpertGrid",
     "expert_grid",
     [](Plan& p) {
         p.layout.etp = 4;
         p.layout.dp = 2;
         p.layout.tp = 1;
     },
     {"etp 4 x ep 8 x pp 4 = 128 ranks", "8 given"},
     {"world=128"}},
    {"BeyondCluster",
     "ranks_within_cluster",
     [](Plan& p) { p.layout.dp = 32; },
     {"128 ranks", "64 devices (8 nodes of 8)"},
     {"dp=16", "nodes=16"}},
    {"RankOrderToken",
     "rank_order",
     [](Plan& p) { p.rank_order = "tp-cp-ep-dp-qq"; },
     {"'qq'"},
     {"rank_order=tp-cp-ep-dp-pp"}},
    {"StagesOfBothGridsDiffer",
     "rank_order",
     [](Plan& p) { p.rank_order = "ep-pp-tp-cp-dp"; },
     {"1 ranks apart", "8 in the expert grid"},
     {}},
    {"DeepSpeedCutsExpertsFromData",
     "ep_divides_dp",
     [](Plan& p) {
         p.framework = Framework::DeepSpeed;
         p.layout.dp = 4;
     },
     {"ep 8", "4 data-parallel ranks", "legal ep: 1, 2, 4"},
     {"ep=4"}},
    {"TorchtitanEtp",
     "etp_is_1_or_tp",
     [](Plan& p) {
         p.framework = Framework::Torchtitan;
         p.layout.tp = 4;
         p.layout.etp = 2;
         p.layout.dp = 4;
     },
     {"tp 4, not 2"},
     {"etp=1", "etp=4"}},
};

const Case kModelCases[] = {
    {"LayersOverStages",
     "layers_divide_stages",
     [](Plan& p) {
         layers(p, 60);
         p.layout.pp = 16;
         p.layout.dp = 4;
         p.layout.ep = 4;
     },
     {"60 layers over pp 16 leaves 12; legal pp near it: 12, 15, 20"},
     {"pp=15"}},
    {"LayersOverChunks",
     "layers_divide_stages",
     [](Plan& p) { p.layout.vpp = 3; },
     {"32 layers over pp 4 is 8 a rank", "legal vpp: 1, 2, 4, 8"},
     {"vpp=2"}},
    {"MoreStagesThanLayers",
     "layers_divide_stages",
     [](Plan& p) { layers(p, 2); },
     {"2 layers over pp 4 leaves 2"},
     {"pp=2"}},
    {"StageLayersCount",
     "stage_layers_count",
     [](Plan& p) {
         p.stage_layers = {16, 16};
     },
     {"2 entries", "4 stage chunks"},
     {"stage_layers=8/8/8/8"}},
    {"StageLayersSum",
     "stage_layers_sum",
     [](Plan& p) {
         p.stage_layers = {7, 7, 7, 7};
     },
     {"28", "32", "4 layers are lost"},
     {}},
    {"StageLayersTooMany",
     "stage_layers_sum",
     [](Plan& p) {
         p.stage_layers = {9, 9, 9, 9};
     },
     {"36", "only 32"},
     {}},
    {"EmptyMiddleStage",
     "empty_stage",
     [](Plan& p) {
         p.stage_layers = {16, 0, 8, 8};
     },
     {"stage_layers[1] is 0"},
     {}},
    {"ExpertsOverEp",
     "experts_divide_ep",
     [](Plan& p) { p.layout.ep = 16; },
     {"8 experts over ep 16"},
     {"ep=8"}},
    {"EpWithoutExperts",
     "ep_needs_experts",
     [](Plan& p) {
         p.model.moe.reset();
         p.model.ffn_hidden_size = 14336;
         p.model.layers.assign(32, LayerKind::Dense);
     },
     {"ep 8", "dense"},
     {"ep=1"}},
    {"HeadsOverTp",
     "heads_divide_tp",
     [](Plan& p) {
         p.layout.tp = 3;
         p.layout.sp = true;
     },
     {"32 attention heads over tp 3 leaves 2"},
     {"tp=2", "tp=4"}},
    {"KeyValueHeadsOverTp",
     "kv_heads_divide_tp",
     [](Plan& p) {
         p.framework = Framework::Plain;
         p.layout.tp = 16;
         p.layout.sp = true;
         p.layout.dp = 1;
     },
     {"8 key-value heads over tp 16"},
     {"tp=8"}},
    {"WidthOverEtp",
     "expert_width_divides_etp",
     [](Plan& p) {
         p.model.moe->moe_ffn_hidden_size = 14335;
         p.layout.etp = 2;
     },
     {"14335"},
     {}},
    {"MegatronNeedsSequenceParallel",
     "sequence_parallel",
     [](Plan& p) {
         p.layout.tp = 2;
         p.layout.dp = 8;
     },
     {"tp 2"},
     {"sp=1"}},
    {"SequenceOverCp",
     "seq_len_divides_cp",
     [](Plan& p) {
         p.layout.cp = 4;
         p.layout.dp = 4;
         p.seq_len = 4100;
     },
     {"2 x cp 4", "leaves 4"},
     {"seq_len=4104"}},
    {"SequenceOverTp",
     "seq_len_divides_tp",
     [](Plan& p) {
         p.layout.tp = 8;
         p.layout.sp = true;
         p.layout.dp = 2;
         p.seq_len = 4100;
     },
     {"tp 8 leaves 4"},
     {}},
    {"ModelItself", "model", [](Plan& p) { p.model.moe->router_topk = 9; }, {"9 > "}, {}},
    {"ClusterItself", "cluster", [](Plan& p) { p.cluster.levels.pop_back(); }, {"64"}, {}},
};

const Case kOptionCases[] = {
    {"BatchOverReplicas",
     "batch_divides",
     [](Plan& p) { p.global_batch_size = 250; },
     {"250", "dp 16", "leaves 10"},
     {"global_batch_size=240", "global_batch_size=256"}},
    {"MicroBatchNeighbours",
     "batch_divides",
     [](Plan& p) { p.micro_batch_size = 3; },
     {"micro_batch_size 3"},
     {"micro_batch_size=2", "micro_batch_size=4"}},
    {"InterleavedWithoutVpp",
     "interleaved_needs_vpp",
     [](Plan& p) { p.schedule = ScheduleKind::InterleavedOneF1B; },
     {},
     {"vpp=2"}},
    {"VppWithoutInterleaved",
     "vpp_needs_interleaved",
     [](Plan& p) { p.layout.vpp = 2; },
     {"vpp 2 under 1f1b"},
     {"schedule=interleaved_1f1b"}},
    {"InterleavedRounds",
     "interleaved_needs_whole_rounds",
     [](Plan& p) {
         p.layout.vpp = 2;
         p.schedule = ScheduleKind::InterleavedOneF1B;
         p.global_batch_size = 16 * 6;
     },
     {"6 micro-batches over pp 4 leaves 2"},
     {"global_batch_size=128"}},
    {"DualPipeMicroBatches",
     "dualpipe_needs_microbatches",
     [](Plan& p) {
         p.framework = Framework::Plain;
         p.schedule = ScheduleKind::DualPipe;
         p.global_batch_size = 64;
     },
     {"2 x pp = 8", "has 4"},
     {"global_batch_size=128"}},
    {"ZbVChunks",
     "v_schedule_needs_two_chunks",
     [](Plan& p) {
         p.framework = Framework::Plain;
         p.schedule = ScheduleKind::ZbV;
     },
     {"vpp 1"},
     {"vpp=2"}},
    {"FrameworkSchedule",
     "framework_has_schedule",
     [](Plan& p) { p.schedule = ScheduleKind::ZbH1; },
     {"megatron", "zb_h1"},
     {"schedule=1f1b"}},
    {"PrecisionOfDevice",
     "precision_of_device",
     [](Plan& p) { p.precision = Precision::Mxfp8; },
     {"H100 SXM", "mxfp8"},
     {"precision=fp8"}},
    {"CapacityFactor",
     "capacity_factor_positive",
     [](Plan& p) { p.capacity_factor = -1.0; },
     {"-1"},
     {}},
    {"CapacityNotANumber",
     "capacity_factor_positive",
     [](Plan& p) { p.capacity_factor = kNan; },
     {},
     {}},
    {"CapacityOfTorchtitan",
     "capacity_of_framework",
     [](Plan& p) {
         p.framework = Framework::Torchtitan;
         p.capacity_factor = 1.25;
     },
     {"dropless"},
     {}},
    {"Chunks",
     "all_to_all_chunks",
     [](Plan& p) { p.all_to_all.chunks = 0; },
     {"chunks 0"},
     {"chunks=1"}},
    {"ChunksBeyondTokens",
     "all_to_all_chunks",
     [](Plan& p) { p.all_to_all.chunks = 5000; },
     {"4096 tokens"},
     {}},
    {"NodeLimit",
     "all_to_all_node_limit",
     [](Plan& p) { p.all_to_all.node_limit = 9; },
     {"8 nodes"},
     {}},
    {"PlacementSize",
     "expert_placement",
     [](Plan& p) {
         p.expert_placement = {0, 1};
     },
     {"2 entries"},
     {}},
    {"PlacementRank",
     "expert_placement",
     [](Plan& p) { p.expert_placement = {0, 1, 2, 3, 4, 5, 6, 8}; },
     {"ep rank 8", "0..7"},
     {}},
    {"PlacementUneven",
     "expert_placement",
     [](Plan& p) { p.expert_placement = {0, 0, 2, 3, 4, 5, 6, 7}; },
     {"0 experts", "2 on another"},
     {}},
    {"HistogramWidth",
     "routing_load",
     [](Plan& p) {
         p.routing_load.kind = RoutingLoadKind::Histogram;
         p.routing_load.histogram = {{1, 2}};
     },
     {"8 shares"},
     {}},
    {"HistogramRows",
     "routing_load",
     [](Plan& p) {
         p.routing_load.kind = RoutingLoadKind::Histogram;
         p.routing_load.histogram.assign(5, std::vector<double>(8, 1.0));
     },
     {"5 rows", "32"},
     {}},
    {"PeakLoads",
     "routing_load",
     [](Plan& p) {
         p.routing_load.peaks = {{1.0, 1.0}, {0.0, 2.0}};
     },
     {"[0, 2]", "positive"},
     {}},
    {"ZipfExponent",
     "routing_load",
     [](Plan& p) {
         p.routing_load.kind = RoutingLoadKind::Zipf;
         p.routing_load.zipf_exponent = -1;
     },
     {"-1"},
     {}},
    {"RecomputeModule",
     "recompute",
     [](Plan& p) { p.recompute.modules = {"core_atn"}; },
     {"'core_atn'"},
     {"recompute.modules=core_attn"}},
    {"RecomputeWithoutModules",
     "recompute",
     [](Plan& p) { p.recompute.modules.clear(); },
     {"without modules"},
     {}},
    {"ZeroStage", "zero_stage", [](Plan& p) { p.zero_stage = 4; }, {"4"}, {}},
    {"ZeroWithPipeline",
     "zero_with_pipeline",
     [](Plan& p) {
         p.framework = Framework::DeepSpeed;
         p.zero_stage = 2;
     },
     {"pp 4"},
     {"zero_stage=1"}},
    {"OffloadFraction", "offload_fraction", [](Plan& p) { p.offload.fraction = 1.5; }, {"1.5"}, {}},
};

std::string caseName(const ::testing::TestParamInfo<Case>& info) {
    return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Grid, BrokenRule, ::testing::ValuesIn(kGridCases), caseName);
INSTANTIATE_TEST_SUITE_P(Model, BrokenRule, ::testing::ValuesIn(kModelCases), caseName);
INSTANTIATE_TEST_SUITE_P(Options, BrokenRule, ::testing::ValuesIn(kOptionCases), caseName);

TEST(Rules, EveryBrokenRuleAtOnce) {
    Plan p = sound();
    p.layout.pp = 5;
    p.layout.dp = 12;
    p.global_batch_size = 7;
    p.precision = Precision::Nvfp4;
    p.rank_order = "x";
    p.zero_stage = 9;
    const std::vector<Violation> violations = validatePlan(p);
    for (const char* rule : {"layers_divide_stages", "expert_grid", "batch_divides",
                             "precision_of_device", "rank_order", "zero_stage"})
        EXPECT_NE(test::find(violations, rule), nullptr) << rule;
}

TEST(Rules, UnevenSplitsThatFrameworksMakeThemselves) {
    Plan p = sound();
    p.layout.pp = 8;
    p.layout.dp = 8;
    layers(p, 30);
    EXPECT_NE(test::find(validatePlan(p), "layers_divide_stages"), nullptr);
    p.framework = Framework::Torchtitan;
    EXPECT_EQ(test::find(validatePlan(p), "layers_divide_stages"), nullptr);
    p.framework = Framework::Plain;
    p.stage_layers = balancedStageLayers(30, 8);
    EXPECT_EQ(test::rules(validatePlan(p)), "");
}

TEST(Rules, EveryFixOfTheExpertGridIsLegal) {
    // V01 of tests/data/user_cases.csv, each fix applied.
    CheckRequest request;
    request.layout = "pp=2 ep=8 etp=1";
    request.world = 8;
    const Json document = *checkJson(request);
    ASSERT_FALSE(document["ok"].get<bool>());
    for (const Json& fix : document["violations"][0]["fix"]) {
        CheckRequest fixed = request;
        const std::string text = fix.get<std::string>();
        if (text == "ep=4") fixed.layout = "pp=2 ep=4 etp=1";
        if (text == "pp=1") fixed.layout = "pp=1 ep=8 etp=1";
        if (text == "world=16") fixed.world = 16;
        EXPECT_TRUE((*checkJson(fixed))["ok"].get<bool>()) << text;
    }
}

TEST(Rules, FirstOrLastChunkOfMegatronMayHoldNoLayer) {
    Plan p = sound();
    p.stage_layers = {11, 11, 10, 0};
    EXPECT_EQ(test::rules(validatePlan(p)), "");
    p.framework = Framework::Plain;
    EXPECT_NE(test::find(validatePlan(p), "empty_stage"), nullptr);
}

}  // namespace
}  // namespace piper
