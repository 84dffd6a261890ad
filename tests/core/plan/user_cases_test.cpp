// SPDX-License-Identifier: Apache-2.0
// What users met, by id of tests/data/user_cases.csv (each row names its public thread), and
// what `check` says to it.
#include "tests/core/plan/plans.h"

namespace piper {
namespace {

struct UserCase {
    std::string id;
    Framework framework;
    std::int64_t world;
    std::string layout;
    std::vector<std::string> settings;
    bool ok;
    std::string rule;               ///< among the violations, "" when ok
    std::vector<std::string> says;  ///< in the whole document
};

class UserCases : public ::testing::TestWithParam<UserCase> {};

TEST_P(UserCases, GetTheRightAnswer) {
    const UserCase& c = GetParam();
    // The row must be there: the table and the test go together.
    const std::string table = test::readText(test::sourceDir() / "tests/data/user_cases.csv");
    EXPECT_NE(table.find("\n" + c.id.substr(0, 3) + ","), std::string::npos);
    CheckRequest request;
    request.framework = c.framework;
    request.world = c.world;
    request.layout = c.layout;
    request.settings = c.settings;
    const Result<Json> document = checkJson(request);
    ASSERT_TRUE(document.ok()) << document.error().text();
    const std::string text = document->dump(1);
    EXPECT_EQ((*document)["ok"].get<bool>(), c.ok) << text;
    bool found = c.rule.empty();
    for (const Json& v : (*document)["violations"]) found = found || v["rule"] == c.rule;
    EXPECT_TRUE(found) << c.rule << " not in " << text;
    for (const std::string& part : c.says)
        EXPECT_NE(text.find(part), std::string::npos) << part << " not in " << text;
}

constexpr auto kMegatron = Framework::Megatron;

const UserCase kCases[] = {
    {"V01",
     kMegatron,
     8,
     "pp=2 ep=8 etp=1",
     {},
     false,
     "expert_grid",
     {"= 16 ranks", "8 given", "\"ep=4\"", "\"pp=1\"", "\"world=16\""}},
    {"V02",
     kMegatron,
     4,
     "tp=1 pp=2 cp=1 ep=2 etp=1",
     {"micro_batch_size=1", "global_batch_size=512"},
     true,
     "",
     {"\"etp\": \"given\"", "\"num_microbatches\": 256"}},
    {"V02_EtpInForce",
     kMegatron,
     4,
     "tp=1 pp=2 ep=2 etp=2",
     {},
     false,
     "expert_grid",
     {"etp 2 x ep 2 x pp 2 = 8 ranks", "4 given", "etp 2: given"}},
    {"V03",
     kMegatron,
     4,
     "tp=4 pp=1 ep=4",
     {},
     false,
     "expert_grid",
     {"= 16 ranks", "etp 4: default of megatron: tp", "\"etp=1\""}},
    {"V03_EtpGiven", kMegatron, 4, "tp=4 pp=1 ep=4 etp=1", {}, true, "", {}},
    {"V04",
     kMegatron,
     0,
     "pp=4",
     {"num_layers=30"},
     false,
     "layers_divide_stages",
     {"30 layers over pp 4 leaves 2", "stage_layers=8/7/7/8", "(30 + 2) / 4 = 8"}},
    {"V05",
     kMegatron,
     0,
     "pp=16 vpp=2",
     {"num_layers=80"},
     false,
     "layers_divide_stages",
     {"80 layers over pp 16 is 5 a rank", "legal vpp: 1, 5"}},
    {"V06",
     kMegatron,
     64,
     "tp=8 pp=4 cp=1 etp=1 ep=16",
     {"num_layers=46", "micro_batch_size=2", "global_batch_size=16"},
     false,
     "layers_divide_stages",
     {"stage_layers=12/11/11/12", "\"minimum_world\": 64"}},
    {"V06_World",
     kMegatron,
     32,
     "tp=8 pp=4 cp=1 etp=1 ep=16",
     {"num_layers=46"},
     false,
     "expert_grid",
     {"= 64 ranks", "32 given", "world=64"}},
    {"V07_Accepted",
     kMegatron,
     0,
     "pp=16 vpp=2",
     {"num_layers=61", "layout_string=Et|(tt|)*30L"},
     true,
     "",
     {"\"layout_layers\": 61", "\"layout_chunks\": 32"}},
    {"V07_EmptyChunk",
     kMegatron,
     0,
     "pp=16 vpp=2",
     {"num_layers=61", "layout_string=Et|(tt|)*29L|"},
     false,
     "layout_string",
     {"chunk 32 of 32 is empty", "\"layout_layers\": 59"}},
    {"V07_LostLayers",
     kMegatron,
     0,
     "pp=16 vpp=2",
     {"num_layers=61", "layout_string=Et|(tt|)*28t|t|L"},
     false,
     "stage_layers_sum",
     {"add up to 59", "2 layers are lost"}},
    // The same model's published recipe: prediction and loss in chunks of their own.
    {"V07_PredictionAlone",
     kMegatron,
     1024,
     "tp=2 pp=8 vpp=4 ep=64 etp=1",
     {"num_layers=61", "mtp_num_layers=1", "layout_string=Et*3|(tt|)*29m|L"},
     true,
     "",
     {"\"layout_layers\": 61", "\"layout_chunks\": 32"}},
    {"V07_PredictionByTheStringAlone",
     kMegatron,
     0,
     "pp=8 vpp=4",
     {"num_layers=61", "layout_string=Et*3|(tt|)*29m|L"},
     true,
     "",
     {}},
    {"V07_PredictionTooEarly",
     kMegatron,
     0,
     "pp=2 vpp=2",
     {"num_layers=6", "layout_string=Et*3|t*3m||L"},
     false,
     "layout_string",
     {"chunk 3 of 4 is empty", "chunk 2 of 4 has multi-token layers m", "chunks 3 to 4"}},
    {"V08",
     kMegatron,
     0,
     "tp=4 pp=8 vpp=5",
     {"num_layers=80", "layout_string=Et*2|(t*2|)*34,t*3|(t*2|)*3,tL"},
     true,
     "",
     {"\"layout_layers\": 80", "\"layout_chunks\": 40"}},
    {"V09", kMegatron, 64, "tp=8 pp=8 cp=1 ep=8 etp=1", {}, true, "", {"\"dp\": 1", "\"edp\": 1"}},
    {"V10",
     kMegatron,
     32,
     "pp=6 ep=8 etp=1",
     {},
     false,
     "expert_grid",
     {"= 48 ranks", "\"minimum_world\": 48", "world=48"}},
    {"V11", kMegatron, 0, "tp=6 ep=8 etp=1", {}, true, "", {"\"minimum_world\": 24"}},
    {"V12", Framework::DeepSpeed, 4, "ep=8", {}, false, "ep_divides_dp", {"legal ep: 1, 2, 4"}},
    {"V13",
     kMegatron,
     192,
     "ep=192",
     {"dispatcher=deepep"},
     false,
     "dispatcher_ranks",
     {"160 ranks", "ep 192", "\"ep=96\"", "dispatcher=alltoall"}},
    {"V14",
     Framework::Torchtitan,
     8,
     "ep=8",
     {"precision=mxfp8"},
     false,
     "row_alignment",
     {"multiples of 32", "44 rows -> 64", "\"row_alignment\": 32"}},
    {"V14_Rows",
     Framework::Torchtitan,
     8,
     "ep=8",
     {"precision=mxfp8", "group_rows=44"},
     false,
     "row_alignment",
     {"pad 44 -> 64", "45.5 % more rows"}},
    {"V14_Fp8",
     Framework::Torchtitan,
     8,
     "ep=8",
     {"precision=fp8", "group_rows=16333"},
     false,
     "row_alignment",
     {"pad 16333 -> 16336"}},
    {"V14_Padded",
     Framework::Torchtitan,
     8,
     "ep=8",
     {"precision=mxfp8", "group_rows=64"},
     true,
     "",
     {}},
    {"V15",
     kMegatron,
     4,
     "tp=2 ep=2",
     {"num_experts=8", "num_distributed_optimizer_instances=2"},
     false,
     "edp_over_optimizer_instances",
     {"edp = 4 / (etp 2 x ep 2 x pp 1) = 1"}},
    {"V16",
     Framework::DeepSpeed,
     16,
     "tp=4",
     {"global_batch_size=64", "micro_batch_size=8"},
     true,
     "",
     {"\"batch_per_dp_rank\": 16", "\"num_microbatches\": 2"}},
};

INSTANTIATE_TEST_SUITE_P(Table, UserCases, ::testing::ValuesIn(kCases),
                         [](const ::testing::TestParamInfo<UserCase>& info) {
                             return info.param.id;
                         });

TEST(UserCases, UnevenLayoutShowsTheLayersOfEachPhysicalStage) {
    CheckRequest request;
    request.framework = kMegatron;
    request.layout = "tp=4 pp=8 vpp=5";
    request.settings = {"num_layers=80", "layout_string=Et*2|(t*2|)*34,t*3|(t*2|)*3,tL"};
    const Json document = *checkJson(request);
    ASSERT_EQ(document["stages"].size(), 8u);
    EXPECT_EQ(document["stages"][0]["layers"], 10);
    // The stage with the loss is lighter, one before it heavier.
    EXPECT_EQ(document["stages"][7]["layers"], 9);
    EXPECT_EQ(document["stages"][3]["layers"], 11);
    EXPECT_EQ(document["stages"][7]["loss"], true);
}

}  // namespace
}  // namespace piper
