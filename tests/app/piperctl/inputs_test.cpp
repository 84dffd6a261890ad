// SPDX-License-Identifier: Apache-2.0
// Bad input: each a clear message and the exit status of docs/commands.md.
#include <fstream>

#include "tests/app/piperctl/piperctl.h"

namespace piper::test {
namespace {

/// An example config with one field replaced by JSON text, or removed when the text is empty.
std::string changedConfig(const TemporaryDirectory& dir, const std::string& key,
                          const std::string& value) {
    Json json = Json::parse(readText(example("configs/Mixtral-8x7B-v0.1.json")));
    if (value.empty())
        json.erase(key);
    else
        json[key] = Json::parse(value);
    const auto path = dir.path() / "config.json";
    write(path, json.dump());
    return path.string();
}

TEST(Piperctl, WithoutACommandPrintsHelpAndFails) {
    const CommandResult r = piperctl({});
    EXPECT_EQ(r.exit_status, 2);
    EXPECT_NE(r.error_output.find("predict"), std::string::npos);
}

TEST(Piperctl, EveryCommandHasHelp) {
    for (const char* command :
         {"check", "predict", "search", "run", "jobs", "attach", "cancel", "fetch", "session",
          "calibrate", "compare", "stats", "export", "bench"}) {
        const CommandResult r = piperctl({command, "--help"});
        EXPECT_EQ(r.exit_status, 0) << command;
        EXPECT_NE(r.output.find("--json"), std::string::npos) << command;
    }
}

TEST(Piperctl, UnknownOptionIsUnusableInput) {
    EXPECT_EQ(piperctl({"predict", "--no-such-option"}).exit_status, 2);
}

TEST(Piperctl, MissingFieldOfAConfigIsNamed) {
    const TemporaryDirectory dir;
    const CommandResult r = piperctl({"predict", "--model", changedConfig(dir, "hidden_size", ""),
                                      "--cluster", "H100 SXM:8", "--layout", "ep=8"});
    EXPECT_EQ(r.exit_status, 2);
    EXPECT_NE(r.error_output.find("hidden_size"), std::string::npos) << r.error_output;
}

TEST(Piperctl, NegativeFieldOfAConfigIsNamedWithItsValue) {
    const TemporaryDirectory dir;
    const CommandResult r =
        piperctl({"predict", "--model", changedConfig(dir, "num_hidden_layers", "-32"), "--cluster",
                  "H100 SXM:8", "--layout", "ep=8"});
    EXPECT_EQ(r.exit_status, 2);
    EXPECT_NE(r.error_output.find("num_hidden_layers"), std::string::npos) << r.error_output;
    EXPECT_NE(r.error_output.find("-32"), std::string::npos) << r.error_output;
}

TEST(Piperctl, APlanThatDropsLayersIsRefusedWithLegalNeighbours) {
    const CommandResult r = piperctl(
        {"predict", "--model", example("configs/Mixtral-8x7B-v0.1.json"), "--cluster", "H100 SXM:6",
         "--world", "48", "--layout", "pp=6 ep=8", "--global-batch-size", "64"});
    EXPECT_EQ(r.exit_status, 1);
    EXPECT_NE(r.error_output.find("32 layers"), std::string::npos) << r.error_output;
}

TEST(Piperctl, AWorldThatDoesNotDivideIsRefused) {
    const CommandResult r = piperctl({"check", "--world", "8", "--layout", "pp=2 ep=8 etp=1",
                                      "--framework", "megatron", "--json"});
    EXPECT_EQ(r.exit_status, 1);
    const Json json = document(r);
    EXPECT_FALSE(json.at("ok").get<bool>());
    EXPECT_EQ(json.at("minimum_world").get<int>(), 16);
    EXPECT_FALSE(json.at("violations").empty());
}

TEST(Piperctl, AFoldedLayoutIsAccepted) {
    const CommandResult r = piperctl({"check", "--world", "64", "--layout", "tp=8 pp=8 ep=8 etp=1",
                                      "--framework", "megatron", "--json"});
    EXPECT_EQ(r.exit_status, 0) << r.output << r.error_output;
    EXPECT_TRUE(document(r).at("ok").get<bool>());
}

TEST(Piperctl, UnknownKeyOfAPlanNamesTheNearestKnown) {
    const TemporaryDirectory dir;
    Json plan = Json::parse(readText(example("plans/olmoe-tiny.json")));
    plan["micro_batch"] = 2;
    for (const char* key : {"model", "cluster"})
        if (plan[key].is_string())
            plan[key] =
                (std::filesystem::path(example("plans")) / plan[key].get<std::string>()).string();
    write(dir.path() / "plan.json", plan.dump());
    const CommandResult r = piperctl({"predict", (dir.path() / "plan.json").string()});
    EXPECT_EQ(r.exit_status, 2);
    EXPECT_NE(r.error_output.find("micro_batch_size"), std::string::npos) << r.error_output;
}

TEST(Piperctl, BrokenJsonNamesFileAndLine) {
    const TemporaryDirectory dir;
    write(dir.path() / "plan.json", "{\n  \"layout\": {\n");
    const CommandResult r = piperctl({"predict", (dir.path() / "plan.json").string()});
    EXPECT_EQ(r.exit_status, 2);
    EXPECT_NE(r.error_output.find("plan.json"), std::string::npos);
    EXPECT_NE(r.error_output.find("line"), std::string::npos) << r.error_output;
}

TEST(Piperctl, MissingFilesAreNamed) {
    const CommandResult plan = piperctl({"predict", "/nonexistent/plan.json"});
    EXPECT_EQ(plan.exit_status, 2);
    EXPECT_NE(plan.error_output.find("/nonexistent/plan.json"), std::string::npos);
    const CommandResult workspace = piperctl({"stats", "/nonexistent/run.piper"});
    EXPECT_EQ(workspace.exit_status, 2);
    EXPECT_NE(workspace.error_output.find("/nonexistent/run.piper"), std::string::npos);
}

TEST(Piperctl, AFileThatIsNoWorkspaceIsNamed) {
    const TemporaryDirectory dir;
    write(dir.path() / "run.piper",
          "this is no database, and long enough to have a header page ...");
    const CommandResult r = piperctl({"stats", (dir.path() / "run.piper").string()});
    EXPECT_EQ(r.exit_status, 2);
    EXPECT_NE(r.error_output.find("run.piper"), std::string::npos) << r.error_output;
}

TEST(Piperctl, UnknownSessionNamesTheKnownOnes) {
    const CommandResult r =
        piperctl({"run", example("plans/olmoe-tiny.json"), "--session", "nowhere"});
    EXPECT_EQ(r.exit_status, 2);
    EXPECT_NE(r.error_output.find("local"), std::string::npos) << r.error_output;
}

TEST(Piperctl, CheckSaysWhatTheFrameworkDoesWithoutAWord) {
    const CommandResult r =
        piperctl({"check", "--world", "16", "--layout", "tp=4 ep=4", "--framework", "megatron"});
    EXPECT_EQ(r.exit_status, 0) << r.error_output;
    EXPECT_NE(r.output.find("warning: etp_default"), std::string::npos) << r.output;
}

TEST(Piperctl, CheckRefusesSettingsThatCannotBeRead) {
    for (const char* setting :
         {"num_layer=4", "num_layers=-1", "num_layers=1e99", "num_layers=nan", "num_layers",
          "num_layers=99999999999999999999", "capacity_factor=x", "precision=fp7", "ep=0"}) {
        const CommandResult r =
            piperctl({"check", "--world", "8", "--layout", "pp=2", "--set", setting, "--json"});
        EXPECT_EQ(r.exit_status, 2) << setting << r.output;
        EXPECT_FALSE(r.error_output.empty()) << setting;
        EXPECT_TRUE(r.output.empty()) << setting << r.output;
    }
    EXPECT_EQ(piperctl({"check", "--world", "-8", "--layout", "pp=2"}).exit_status, 2);
    EXPECT_EQ(piperctl({"check", "--world", "99999999999", "--layout", "pp=2"}).exit_status, 2);
    EXPECT_EQ(piperctl({"check", "--world", "8", "--framework", "jax"}).exit_status, 2);
}

TEST(Piperctl, CheckOfAPlanTakesNothingBesideIt) {
    const CommandResult r =
        piperctl({"check", example("plans/mixtral-8x7b-h100.json"), "--layout", "pp=2"});
    EXPECT_EQ(r.exit_status, 2);
    EXPECT_NE(r.error_output.find("give the plan alone"), std::string::npos) << r.error_output;
}

TEST(Piperctl, EmptyAndForeignFilesAreNamed) {
    const TemporaryDirectory dir;
    const auto file = (dir.path() / "plan.json").string();
    for (const char* text : {"", "[]", "null", "{}", "\"text\"", "{\"format_version\": 99}"}) {
        write(file, text);
        for (const char* command : {"predict", "check"}) {
            const CommandResult r = piperctl({command, file});
            EXPECT_EQ(r.exit_status, 2) << command << " " << text;
            EXPECT_NE(r.error_output.find("plan.json"), std::string::npos) << r.error_output;
        }
    }
}

TEST(Piperctl, NumbersThatAreNoneAreRefused) {
    const TemporaryDirectory dir;
    for (const char* value : {"NaN", "-1", "0", "1e400", "\"8\"", "8.5"}) {
        std::string text = readText(example("plans/mixtral-8x7b-h100.json"));
        const std::string key = "\"micro_batch_size\": 1";
        text.replace(text.find(key), key.size(), "\"micro_batch_size\": " + std::string(value));
        for (const char* reference : {"../configs", "../clusters"}) {
            const std::string where = example(std::string(reference).substr(3));
            text.replace(text.find(reference), std::string(reference).size(), where);
        }
        const auto file = (dir.path() / "plan.json").string();
        write(file, text);
        const CommandResult r = piperctl({"predict", file});
        EXPECT_EQ(r.exit_status, 2) << value << r.output;
        EXPECT_FALSE(r.error_output.empty()) << value;
    }
}

TEST(Piperctl, OptionsBesideAPlanReplaceItsValues) {
    const std::string plan = example("plans/mixtral-8x7b-h100.json");
    const CommandResult as_it_is = piperctl({"predict", plan, "--json"});
    const CommandResult slower = piperctl({"predict", plan, "--cluster", "A100 SXM:8", "--json"});
    ASSERT_EQ(as_it_is.exit_status, 0) << as_it_is.error_output;
    ASSERT_LE(slower.exit_status, 1) << slower.error_output;
    EXPECT_GT(document(slower).at("step_seconds").get<double>(),
              document(as_it_is).at("step_seconds").get<double>());
    EXPECT_EQ(piperctl({"predict", plan, "--zero-stage", "7"}).exit_status, 1);
    EXPECT_EQ(piperctl({"predict", plan, "--recompute", "everything"}).exit_status, 1);
    EXPECT_EQ(piperctl({"predict", plan, "--stage-layers", "8/x"}).exit_status, 2);
}

TEST(Piperctl, APlanThatDoesNotFitIsGivenTheSmallestChange) {
    const CommandResult r = piperctl(
        {"predict", "--model", example("configs/Mixtral-8x7B-v0.1.json"), "--cluster", "H100 SXM:1",
         "--layout", "ep=8", "--seq-len", "4096", "--global-batch-size", "64", "--json"});
    EXPECT_EQ(r.exit_status, 1) << r.error_output;
    const Json fix = document(r).at("memory").at("fix");
    ASSERT_FALSE(fix.empty());
    EXPECT_NE(fix.at(0).at("verdict"), "does_not_fit");
}

}  // namespace
}  // namespace piper::test
