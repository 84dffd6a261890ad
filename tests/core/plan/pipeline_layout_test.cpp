// SPDX-License-Identifier: Apache-2.0
#include "tests/core/plan/plans.h"

namespace piper {
namespace {

std::vector<std::int64_t> layersOf(std::string_view text) {
    const Result<std::vector<PipelineChunk>> chunks = parsePipelineLayout(text);
    EXPECT_TRUE(chunks.ok()) << (chunks.ok() ? "" : chunks.error().text());
    std::vector<std::int64_t> layers;
    if (chunks.ok())
        for (const PipelineChunk& c : *chunks) layers.push_back(c.layers);
    return layers;
}

TEST(PipelineLayout, RepeatsAndBars) {
    EXPECT_EQ(layersOf("Ett|(tt|)*6mL"), (std::vector<std::int64_t>{2, 2, 2, 2, 2, 2, 2, 0}));
    EXPECT_EQ(parsePipelineLayout("Ett|(tt|)*6mL")->back().mtp_layers, 1);
    EXPECT_TRUE(parsePipelineLayout("Ett|(tt|)*6mL")->front().embedding);
    EXPECT_EQ(layersOf("Et*3|t*2,tL"), (std::vector<std::int64_t>{3, 3}));
    EXPECT_EQ(layersOf("Et|((t|)*2tt|)*2L"), (std::vector<std::int64_t>{1, 1, 1, 2, 1, 1, 2, 0}));
}

TEST(PipelineLayout, FaultsNameTheirPlace) {
    const auto message = [](std::string_view text) {
        const auto r = parsePipelineLayout(text);
        return r.ok() ? std::string() : r.error().message;
    };
    EXPECT_NE(message("Et|x|L").find("character 4: 'x'"), std::string::npos) << message("Et|x|L");
    EXPECT_NE(message("Et||tL").find("chunk 2 of 3 is empty"), std::string::npos);
    EXPECT_NE(message("Et|tL|").find("chunk 3 of 3 is empty"), std::string::npos);
    EXPECT_NE(message("tt|tL").find("embedding E"), std::string::npos);
    EXPECT_NE(message("Et|t").find("loss L"), std::string::npos);
    EXPECT_NE(message("EtL|tL").find("loss L"), std::string::npos);
    EXPECT_NE(message("Et|EtL").find("embedding E"), std::string::npos);
    EXPECT_NE(message("Et|mtL").find("before the multi-token"), std::string::npos);
    EXPECT_NE(message("Et|m|tL").find("chunk 3 of 3 has layers t after"), std::string::npos);
    EXPECT_NE(message("Et|(tL").find("without ')'"), std::string::npos);
    EXPECT_NE(message("Et|t)L").find("without '('"), std::string::npos);
    EXPECT_NE(message("Et*0|tL").find("count"), std::string::npos);
    EXPECT_NE(message("Et*|tL").find("count"), std::string::npos);
    EXPECT_NE(message("E((t*60000)*60000)*60000|L").find("65536"), std::string::npos);
    EXPECT_FALSE(message("").empty());
    EXPECT_FALSE(message(std::string(100, '(')).empty());
}

TEST(PipelineLayout, TextOfASplitReadsBack) {
    for (const std::vector<std::int64_t>& layers : {std::vector<std::int64_t>{1, 2, 2, 2, 0},
                                                    {5},
                                                    {3, 3},
                                                    {12, 11, 11, 12},
                                                    {4, 1, 1, 4, 4}}) {
        const std::string text = pipelineLayoutText(layers, 1);
        EXPECT_EQ(layersOf(text), layers) << text;
        EXPECT_EQ(parsePipelineLayout(text)->back().mtp_layers, 1);
    }
    EXPECT_EQ(pipelineLayoutText({2, 2, 2, 2, 2, 2, 2, 0}, 1), "Ett|(tt|)*6mL");
    // The last two chunks hold prediction and loss alone, where there is prediction.
    EXPECT_EQ(pipelineLayoutText({3, 2, 2, 0, 0}, 1), "Ettt|(tt|)*2m|L");
    EXPECT_EQ(parsePipelineLayout("Ettt|(tt|)*2m|L")->at(3).mtp_layers, 1);
}

}  // namespace
}  // namespace piper
