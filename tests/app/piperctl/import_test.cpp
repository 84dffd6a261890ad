// SPDX-License-Identifier: Apache-2.0
// Logs, profiles and traces of others through import, stats and compare.
#include <fstream>

#include "tests/app/piperctl/piperctl.h"

namespace piper::test {
namespace {

class ImportedRuns : public testing::Test {
protected:
    std::string write(const std::string& name, const std::string& text) {
        std::ofstream(m_directory.path() / name) << text;
        return (m_directory.path() / name).string();
    }
    void import(const std::vector<std::string>& files) {
        std::vector<std::string> arguments{"import", "-o", workspace()};
        arguments.insert(arguments.end(), files.begin(), files.end());
        const CommandResult r = piperctl(arguments);
        ASSERT_EQ(r.exit_status, 0) << r.error_output;
    }
    Json compare(const std::string& a, const std::string& b) {
        return document(piperctl({"compare", workspace(), a, b, "--json"}));
    }
    [[nodiscard]] std::string workspace() const { return m_directory.path() / "w.piper"; }

    TemporaryDirectory m_directory;
};

std::string logOf(int milliseconds) {
    std::string text;
    for (int i = 1; i <= 3; ++i)
        text += "iteration " + std::to_string(i) +
                "/ 3 | elapsed time per iteration (ms): " + std::to_string(milliseconds) +
                " | lm loss: 2.0 |\n";
    return text;
}

TEST_F(ImportedRuns, RanksOfOneJobStandOnOneClock) {
    std::vector<std::string> files;
    for (int rank : {0, 1})
        files.push_back(write(
            fmt::format("worker{}.json", rank),
            fmt::format(
                R"({{"distributedInfo":{{"rank":{0},"world_size":2}},"traceEvents":[)"
                R"({{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{1},"dur":2}},)"
                R"({{"ph":"s","id":5,"cat":"ac2g","name":"ac2g","pid":0,"tid":7,"ts":{1}}},)"
                R"({{"ph":"f","id":{2},"cat":"ac2g","name":"ac2g","pid":0,"tid":7,"ts":{1}}}]}})",
                rank, 100 + 7 * rank, 5 + rank)));
    std::vector<std::string> arguments{"import", "--json", "-o", workspace()};
    arguments.insert(arguments.end(), files.begin(), files.end());
    const Json got = document(piperctl(arguments));
    ASSERT_EQ(got["ranks"].size(), 2U);
    EXPECT_EQ(got["ranks"][0]["run"], got["ranks"][1]["run"]);
    EXPECT_EQ(got["ranks"][0]["offset_ns"], 0);
    EXPECT_EQ(got["ranks"][1]["offset_ns"], 7000);
    EXPECT_EQ(got["ranks"][0]["arrows_without_begin"], 0);
    EXPECT_EQ(got["ranks"][1]["arrows_without_begin"], 1);  // 5 of rank 0 is not its begin
    EXPECT_TRUE(got["wall_seconds"].is_number());
    EXPECT_TRUE(got["cpu_seconds"].is_number());
}

TEST_F(ImportedRuns, TrainingLogsHaveSteps) {
    import({write("a.log", logOf(100)), write("b.log", logOf(150))});
    const Json stats = document(piperctl({"stats", workspace(), "--json"}));
    EXPECT_EQ(stats["runs"][0]["steps"], 2);
    EXPECT_EQ(stats["runs"][0]["step_seconds"], 0.1);
    EXPECT_TRUE(stats["runs"][0]["phases"].empty());
    const Json compared = compare("a", "b");
    EXPECT_NEAR(compared["attribution"]["difference_seconds"].get<double>(), 0.05, 1e-9);
    EXPECT_NE(compared["warnings"].dump().find("phases are not known"), std::string::npos);
    EXPECT_EQ(compared["warnings"].dump().find("no device work"), std::string::npos);
}

TEST_F(ImportedRuns, RankProfilesHavePhases) {
    import({write("a.json", R"({"avg_qkv_gemm": 1.5, "avg_experts_per_layer": 4})"),
            write("b.json", R"({"avg_qkv_gemm": 1.5, "avg_experts_per_layer": 6})")});
    const Json compared = compare("a", "b");
    bool found = false;
    for (const Json& row : compared["phases"]) {
        if (row["phase"] != "expert") continue;
        found = true;
        EXPECT_NEAR(row["difference_seconds"].get<double>(), 2e-3, 1e-9);
    }
    EXPECT_TRUE(found) << compared.dump();
    EXPECT_EQ(compared["warnings"].dump().find("not known"), std::string::npos);
}

TEST_F(ImportedRuns, TracesHaveTheStepsOfTheirProfiler) {
    const auto trace = [](int step) {
        std::string text = "[";
        for (int i = 0; i < 3; ++i)
            text += fmt::format(
                R"({{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{}","pid":1,"tid":1,"ts":{},"dur":{}}},)"
                R"({{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{},"dur":5}},)",
                i, i * step, step, i * step);
        return text + "]";
    };
    import({write("a.json", trace(1000)), write("b.json", trace(2000))});
    const Json stats = document(piperctl({"stats", workspace(), "--json"}));
    EXPECT_EQ(stats["runs"][0]["steps"], 2);
    EXPECT_EQ(stats["runs"][1]["step_seconds"], 0.002);
    EXPECT_EQ(stats["runs"][0]["kernels"], 3);
    const Json compared = compare("a", "b");
    EXPECT_EQ(compared["kernels"][0]["a_count"], 3);
    EXPECT_EQ(compared["a"]["steps"], 2);
    EXPECT_EQ(compared["b"]["step_seconds"], 0.002);
}

TEST_F(ImportedRuns, DamageOfComparedTracesIsPrinted) {
    std::string text = "[";
    for (int i = 0; i < 3000; ++i)
        text += fmt::format(
            R"({{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":{},"dur":{}}},)", 9 * i,
            i * 7919 % 9);
    import({write("a.json", text + "]")});
    std::string bytes = readText(workspace());
    // The zigzag varints of 3000 starts 9 us apart: somewhere in them.
    for (std::size_t at = bytes.size() / 2; at < bytes.size() / 2 + 64; ++at) bytes[at] ^= 0x10;
    std::ofstream(workspace(), std::ios::binary | std::ios::trunc) << bytes;
    const CommandResult r = piperctl({"compare", workspace(), "a", "a"});
    EXPECT_EQ(r.exit_status, 1) << r.output;
    EXPECT_NE(r.error_output.find("damaged: "), std::string::npos) << r.error_output;
}

}  // namespace
}  // namespace piper::test
