// SPDX-License-Identifier: Apache-2.0
#include "core/validate/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "core/base/json.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Rows of tests/data/measured_runs_subset.csv.
std::string subset() {
    return test::readText(test::sourceDir() / "tests/data/measured_runs_subset.csv");
}

Validation validated(const std::string& csv) {
    Result<Validation> out = validateRuns(csv, {});
    EXPECT_TRUE(out.ok()) << (out.ok() ? "" : out.error().text());
    return std::move(out).value();
}

const std::string kHeader =
    "source,model,gpu,n_gpus,gpus_per_node,seq,gbs,mbs,tp,sp,pp,vpp,ep,etp,cp,zero,recompute,"
    "precision,overlap,tflops_per_gpu,mfu,tokens_s_gpu,step_s,mem_gb,mem_unit,mem_kind,notes\n";
const std::string kRow =
    "dgxc-benchmarking,Llama3.1 8B,H100,8,8,8192,128,1,1,0,1,1,1,1,2,ZeRO-1,none,BF16,"
    "DP grad/param,,59.37,10152.75,12.91,60,GiB,peak_allocated,x\n";

std::string changed(std::string_view from, std::string_view to) {
    std::string row = kRow;
    row.replace(row.find(from), from.size(), to);
    return kHeader + row + kRow;
}

TEST(Validate, PredictsThePublishedSubset) {
    const Validation v = validated(subset());
    EXPECT_GE(v.rows.size() * 10, static_cast<std::size_t>(v.in_scope) * 9);
    EXPECT_EQ(v.rows.size() + v.skipped.size(), 33u);
    for (const SkippedRow& row : v.skipped) EXPECT_FALSE(row.reason.empty());
    for (const ValidatedRow& row : v.rows) {
        ASSERT_TRUE(row.run.step) << row.run.line;
        EXPECT_LT(std::abs(row.timeError()), 0.6) << row.run.line << " " << row.run.model;
    }
    EXPECT_LT(v.time.median, 0.25);
    EXPECT_EQ(v.time.n, v.time_fit.n + v.time_held_out.n);
    ASSERT_GE(v.tables.size(), 1u);
    for (const OrderTable& t : v.tables) {
        EXPECT_GE(t.pick_loss, 0.0);
        if (t.kendall_tau == 1.0) {
            EXPECT_EQ(t.pick_loss, 0.0) << t.model;
        }
    }
}

TEST(Validate, RowsOutOfScopeAndWithGapsSayWhy) {
    const Validation v = validated(changed("Llama3.1 8B", "Nemotron_3_Nano"));
    ASSERT_EQ(v.skipped.size(), 1u);
    EXPECT_THAT(v.skipped[0].reason, HasSubstr("hybrid Mamba"));
    EXPECT_FALSE(v.skipped[0].unusable);
    EXPECT_EQ(v.skipped[0].line, 2u);
    EXPECT_EQ(v.in_scope, 1);
    const Validation gap = validated(changed(",8192,128,1,", ",8192,,,"));
    EXPECT_THAT(gap.skipped.at(0).reason, HasSubstr("not given: gbs, mbs"));
}

struct Bad {
    const char* from;
    const char* to;
    const char* expected;
};

class BadRow : public ::testing::TestWithParam<Bad> {};

TEST_P(BadRow, IsSkippedWithColumnAndValue) {
    const Validation v = validated(changed(GetParam().from, GetParam().to));
    ASSERT_EQ(v.skipped.size(), 1u);
    EXPECT_TRUE(v.skipped[0].unusable);
    EXPECT_THAT(v.skipped[0].reason, HasSubstr(GetParam().expected));
    EXPECT_EQ(v.rows.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Validate, BadRow,
    ::testing::Values(Bad{",8192,128,", ",long,128,", "seq: 'long' is not a whole number"},
                      Bad{",12.91,", ",fast,", "step_s: 'fast' is not a number"},
                      Bad{",12.91,", ",-1,", "step_s: -1 is not positive"},
                      Bad{",GiB,", ",pages,", "mem_unit: 'pages' is no known unit"},
                      Bad{",BF16,", ",int3,", "'int3' is no known precision"},
                      Bad{",H100,8,8,", ",H100,6,8,", "no multiple of mbs"},
                      Bad{",H100,", ",Z9,", "unknown device 'Z9'"},
                      Bad{"Llama3.1 8B", "Llama3.1 9B", "nearest known: 'Llama3.1 8B'"},
                      Bad{"ZeRO-1", "halves", "'halves' is no known sharding"},
                      Bad{",none,", ",a bit,", "'a bit' is no known recompute"}));

TEST(Validate, UnusableTablesAreErrors) {
    EXPECT_THAT(validateRuns("model,gpu\na,b\n", {}).error().text(),
                HasSubstr("missing columns: source, n_gpus"));
    EXPECT_FALSE(validateRuns(kHeader, {}).ok());
    std::string row = kRow;
    row.replace(row.find("H100"), 4, "Z9");
    const Result<Validation> none = validateRuns(kHeader + row, {});
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().code, ErrorCode::InvalidInput);
    EXPECT_THAT(none.error().text(), HasSubstr("line 2"));
}

TEST(Validate, TablesOfOnesOwnReplaceTheBundled) {
    ReferenceTexts texts;
    texts.gpus =
        "gpu,bf16_dense_tflops,fp8_dense_tflops,hbm_gb,hbm_gb_s,nvlink_gb_s_per_dir,"
        "nic_gbit_s_per_gpu,gpus_per_node,source\nZ9,500,,64,1000,100,200,8,own\n";
    texts.gpu_alias = "name,gpu\nZ9 board,Z9\nH100,H100 SXM\n";
    const Result<Validation> v = validateRuns(changed("H100", "Z9 board"), texts);
    ASSERT_TRUE(v.ok()) << v.error().text();
    ASSERT_EQ(v->rows.size(), 2u);
    EXPECT_EQ(v->rows[0].run.plan.cluster.device.name, "Z9");
    EXPECT_GT(v->rows[0].prediction.step, v->rows[1].prediction.step);
}

TEST(Validate, BlankCellsTakeTheSourcesDefaultAndSaySo) {
    const Validation v = validated(changed(",ZeRO-1,none,BF16,DP grad/param,", ",,,BF16,,"));
    const MeasuredRun& run = v.rows.at(0).run;
    EXPECT_EQ(run.plan.zero_stage, 1);
    EXPECT_THAT(run.assumed,
                ElementsAre("recompute none", "zero_stage 1", "overlap of the profile"));
    EXPECT_THAT(v.rows.at(1).run.assumed, ElementsAre());
    EXPECT_EQ(run.profile->name, "dgxc");
}

TEST(Validate, StepTimeComesFromTheMostDirectPublishedFigure) {
    const Validation v = validated(changed(",12.91,", ",,"));
    EXPECT_EQ(v.rows[0].run.step_from, "tokens_s_gpu");
    EXPECT_NEAR(v.rows[0].run.step->value, 128 * 8192 / (10152.75 * 8), 1e-6);
    EXPECT_EQ(v.rows[1].run.step_from, "step_s");
    const Validation mfu = validated(changed(",59.37,10152.75,12.91,", ",59.37,,,"));
    EXPECT_EQ(mfu.rows[0].run.step_from, "mfu");
    // The three agree within what the source rounds.
    EXPECT_NEAR(mfu.rows[0].run.step->value, 12.91, 0.15);
}

TEST(Validate, UnevenLayersLeaveTheEndsLighter) {
    EXPECT_THAT(unevenStageLayers(22, 8), ElementsAre(2, 3, 3, 3, 3, 3, 3, 2));
    EXPECT_THAT(unevenStageLayers(61, 16),
                ElementsAre(4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1));
    EXPECT_THAT(unevenStageLayers(31, 4), ElementsAre(8, 8, 8, 7));
    for (std::int64_t layers : {5, 17, 61, 94, 126})
        for (std::int64_t chunks : {2, 3, 7, 16, 24, 40}) {
            const auto split = unevenStageLayers(layers, chunks);
            EXPECT_EQ(std::accumulate(split.begin(), split.end(), std::int64_t{0}), layers);
        }
}

TEST(Validate, KendallTauOfKnownOrders) {
    EXPECT_DOUBLE_EQ(kendallTau({1, 2, 3, 4}, {10, 20, 30, 40}), 1.0);
    EXPECT_DOUBLE_EQ(kendallTau({1, 2, 3, 4}, {4, 3, 2, 1}), -1.0);
    EXPECT_NEAR(kendallTau({1, 2, 3, 4}, {1, 3, 2, 4}), 4.0 / 6.0, 1e-12);
    EXPECT_DOUBLE_EQ(kendallTau({1}, {1}), 0.0);
}

TEST(Validate, SummaryOfKnownErrors) {
    const ErrorSummary s = summarize({-0.1, 0.2, 0.05, -0.3, 0.0});
    EXPECT_EQ(s.n, 5);
    EXPECT_DOUBLE_EQ(s.median, 0.1);
    EXPECT_NEAR(s.p90, 0.26, 1e-12);
    EXPECT_DOUBLE_EQ(s.bias, 0.0);
    EXPECT_EQ(summarize({}).n, 0);
}

TEST(Validate, JsonHasTheStableKeys) {
    const Json json = validationJson(validated(kHeader + kRow));
    for (const char* key : {"rows", "skipped", "summary", "tables"})
        EXPECT_TRUE(json.contains(key));
    for (const char* key : {"time", "time_blackwell", "memory", "memory_other", "flops"})
        EXPECT_TRUE(json.at("summary").contains(key)) << key;
    EXPECT_EQ(json.at("summary").at("time").at("n"), 1);
    EXPECT_TRUE(json.at("summary").at("time_blackwell").at("median_abs_rel_err").is_null());
    const Json& row = json.at("rows").at(0);
    EXPECT_EQ(row.at("row"), 2);
    EXPECT_NEAR(row.at("error").at("time").get<double>(),
                row.at("predicted").at("step_seconds").get<double>() / 12.91 - 1.0, 1e-12);
    EXPECT_TRUE(row.at("evidence").contains("step_seconds"));
}

}  // namespace
}  // namespace piper
