// SPDX-License-Identifier: Apache-2.0
// The option lists, and the refusal of what is not on them.
#include <gmock/gmock.h>

#include <set>

#include "core/export/option_list.h"
#include "core/export/settings_io.h"
#include "tests/core/export/example_plans.h"

namespace piper {
namespace {

using test::examplePlan;
using test::fileOf;
using test::replaceIn;
using ::testing::HasSubstr;

constexpr OptionSet kSets[] = {OptionSet::MegatronArguments,          OptionSet::MegatronYaml,
                               OptionSet::MegatronDeepSpeedArguments, OptionSet::DeepSpeedConfig,
                               OptionSet::TorchtitanConfig,           OptionSet::SbatchOptions};

TEST(OptionLists, NameTheirSourceAndHoldEachOptionOnce) {
    for (const OptionSet set : kSets) {
        const OptionList& list = optionList(set);
        EXPECT_FALSE(list.name().empty());
        EXPECT_THAT(list.repository(), HasSubstr("/"));
        EXPECT_FALSE(list.commit().empty());
        EXPECT_FALSE(list.source().empty());
        EXPECT_GT(list.entries().size(), 80U) << list.name();
        std::set<std::string> names;
        for (const OptionEntry& entry : list.entries())
            EXPECT_TRUE(names.insert(entry.name).second) << list.name() << ": " << entry.name;
    }
}

TEST(OptionLists, KnowTheKindOfAnOption) {
    const OptionList& list = optionList(OptionSet::MegatronArguments);
    EXPECT_EQ(list.find("--num-layers")->kind, OptionKind::Int);
    EXPECT_EQ(list.find("--swiglu")->kind, OptionKind::Flag);
    EXPECT_EQ(list.find("--norm-epsilon")->kind, OptionKind::Float);
    EXPECT_EQ(list.find("--recompute-modules")->kind, OptionKind::List);
    EXPECT_EQ(list.find("--no-such"), nullptr);
    EXPECT_TRUE(optionList(OptionSet::DeepSpeedConfig).require("optimizer.params.lr").ok());
    EXPECT_FALSE(optionList(OptionSet::DeepSpeedConfig).require("optimizer.parms").ok());
}

// A key in two sections would stop Megatron-LM's reader.
TEST(OptionLists, NoYamlKeyStandsInTwoSections) {
    std::set<std::string> keys;
    for (const OptionEntry& entry : optionList(OptionSet::MegatronYaml).entries())
        EXPECT_TRUE(keys.insert(entry.name.substr(entry.name.rfind('.') + 1)).second) << entry.name;
}

TEST(CheckOptions, EveryExportIsOnTheListAndAWrongNameIsNot) {
    const Plan plan = examplePlan("mixtral-8x7b-h100");
    const struct {
        ExportTarget target;
        const char* file;
        const char* from;
        const char* to;
        const char* nearest;
    } rows[] = {
        {ExportTarget::Megatron, "megatron.sh", "--hidden-size", "--hiden-size", "--hidden-size"},
        {ExportTarget::MegatronYaml, "megatron.yaml",
         "  hidden_size:", "  hiden_size:", "language_model.hidden_size"},
        {ExportTarget::DeepSpeed, "ds_config.json", "train_batch_size", "train_batch_sise",
         "train_batch_size"},
        {ExportTarget::XMoe, "xmoe.sh", "--use-pft", "--use-pfd", "--use-pft"},
        {ExportTarget::Torchtitan, "torchtitan.toml", "tensor_parallel_degree",
         "tensor_paralel_degree", "parallelism.tensor_parallel_degree"},
        {ExportTarget::Slurm, "job.sbatch", "--ntasks-per-node", "--ntask-per-node",
         "--ntasks-per-node"},
    };
    for (const auto& row : rows) {
        Result<Export> out = exportPlan(plan, row.target);
        ASSERT_TRUE(out.ok()) << out.error().text();
        EXPECT_TRUE(checkOptions(out->files).ok()) << row.file;
        replaceIn(fileOf(*out, row.file), row.from, row.to);
        const Status checked = checkOptions(out->files);
        ASSERT_FALSE(checked.ok()) << row.file;
        EXPECT_THAT(checked.error().text(),
                    HasSubstr(std::string("nearest known: '") + row.nearest + "'"));
        EXPECT_THAT(checked.error().text(), HasSubstr(row.file));
        EXPECT_FALSE(importPlan(row.target, out->files, plan).ok());
    }
}

TEST(CheckOptions, AValueOfTheWrongKindIsNamed) {
    const Plan plan = examplePlan("mixtral-8x7b-h100");
    const std::pair<const char*, const char*> rows[] = {
        {"--hidden-size 4096", "--hidden-size 4096.5"},
        {"--hidden-size 4096", "--hidden-size"},
        {"--hidden-size 4096", "--hidden-size four"},
        {"--hidden-size 4096", "--hidden-size $UNKNOWN"},
        {"--hidden-size 4096", "--hidden-size 0"},
        {"--hidden-size 4096", "--hidden-size '4096"},
        {"--swiglu", "--swiglu yes"},
        {"--num-layers 32", ""},
        {"--num-layers 32", "--num-layers 99999999"},
        {"--num-layers 32", "--num-layers 99999999999999999999"},
        {"--swiglu", "--swiglu --window-size wide"},
        {"--swiglu", "--swiglu --moe-layer-freq '([0]*2+[1]*'"},
        {"--swiglu", "--swiglu --moe-layer-freq '[0]*999999999'"},
        {"--moe-aux-loss-coeff 0.001", "--moe-aux-loss-coeff some"},
        {"--micro-batch-size 1", "--micro-batch-size 999999999999"},
        {"NNODES:-8", "NNODES:-eight"},
        {"--pipeline-model-parallel-size 4", "--pipeline-model-parallel-size 7"},
    };
    for (const auto& [from, to] : rows) {
        Result<Export> out = exportPlan(plan, ExportTarget::Megatron);
        ASSERT_TRUE(out.ok());
        replaceIn(fileOf(*out, "megatron.sh"), from, to);
        const Result<Plan> back = importPlan(ExportTarget::Megatron, out->files, plan);
        ASSERT_FALSE(back.ok()) << to;
        EXPECT_EQ(back.error().code, ErrorCode::InvalidInput) << to;
        EXPECT_THAT(back.error().text(), HasSubstr("megatron.sh")) << to;
    }
}

TEST(CheckOptions, BrokenFilesAreErrorsNotCrashes) {
    const Plan plan = examplePlan("mixtral-8x7b-h100");
    for (const auto& row : enumNames<ExportTarget>()) {
        EXPECT_FALSE(importPlan(row.value, {}, plan).ok());
        Result<Export> out = exportPlan(plan, row.value);
        ASSERT_TRUE(out.ok());
        for (std::size_t cut = 0; cut < 40; ++cut) {
            std::vector<ExportedFile> files = out->files;
            std::string& content = files.front().content;
            content.resize(content.size() * cut / 40);
            const Result<Plan> back = importPlan(row.value, files, plan);
            EXPECT_TRUE(back.ok() || !back.error().message.empty());
        }
    }
}

}  // namespace
}  // namespace piper
