// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "kernels/ops/dataset.h"
#include "kernels/ops/initial_weights.h"
#include "tests/support/paths.h"

namespace piper {
namespace {

using ::testing::HasSubstr;

std::vector<std::uint8_t> counting(std::size_t n) {
    std::vector<std::uint8_t> out(n);
    for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<std::uint8_t>(i);
    return out;
}

TEST(InitialWeights, LookStandardNormal) {
    const WeightKey key{7, LayerId(2), WeightTensor::Query, {}};
    double sum = 0.0, squares = 0.0, fourth = 0.0;
    constexpr int kCount = 200000;
    for (int i = 0; i < kCount; ++i) {
        const auto x = static_cast<double>(initialWeight(key, i));
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
    }
    EXPECT_NEAR(sum / kCount, 0.0, 0.01);
    EXPECT_NEAR(squares / kCount, 1.0, 0.02);
    EXPECT_NEAR(fourth / kCount, 3.0, 0.15);
}

TEST(InitialWeights, EveryPartOfTheKeyMatters) {
    const WeightKey key{7, LayerId(2), WeightTensor::ExpertUp, ExpertId(3)};
    std::set<float> values{initialWeight(key, 5), initialWeight(key, 6)};
    WeightKey other = key;
    other.seed = 8;
    values.insert(initialWeight(other, 5));
    other = key;
    other.layer = LayerId(3);
    values.insert(initialWeight(other, 5));
    other = key;
    other.tensor = WeightTensor::ExpertDown;
    values.insert(initialWeight(other, 5));
    other = key;
    other.expert = ExpertId(4);
    values.insert(initialWeight(other, 5));
    EXPECT_EQ(values.size(), 6U);
}

TEST(InitialWeights, AShardEqualsItsPartOfTheWhole) {
    const WeightKey key{1, LayerId(0), WeightTensor::ExpertDown, ExpertId(9)};
    std::vector<float> whole(12 * 10), part(5 * 4);
    fillInitialWeights({whole.data(), 12, 10}, key, 0.02F, 10);
    fillInitialWeights({part.data(), 5, 4}, key, 0.02F, 10, 6, 3);
    for (std::size_t r = 0; r < 5; ++r)
        for (std::size_t c = 0; c < 4; ++c) EXPECT_EQ(part[r * 4 + c], whole[(r + 6) * 10 + c + 3]);
    EXPECT_EQ(whole[57], 0.02F * initialWeight(key, 57));
}

TEST(ByteDataset, TargetsAreTheNextBytesAndTheLastWindowWraps) {
    const auto data = ByteDataset::fromBytes(counting(100), 16, 3);
    ASSERT_TRUE(data.ok());
    EXPECT_EQ(data->samplesPerEpoch(), 7);
    std::vector<std::int32_t> tokens(16), targets(16);
    for (std::int64_t i = 0; i < 20; ++i) {
        data->sample(i, tokens, targets);
        for (std::size_t j = 0; j < 16; ++j) {
            EXPECT_EQ(targets[j], (tokens[j] + 1) % 100);
            if (j > 0) {
                EXPECT_EQ(tokens[j], targets[j - 1]);
            }
        }
    }
}

TEST(ByteDataset, AnEpochVisitsEachWindowOnceInAnOrderOfItsOwn) {
    for (const std::size_t bytes : {33U, 257U, 4096U}) {
        const auto data = ByteDataset::fromBytes(std::vector<std::uint8_t>(bytes, 'x'), 8, 3);
        ASSERT_TRUE(data.ok());
    }
    const auto data = ByteDataset::fromBytes(counting(240), 8, 3);
    ASSERT_TRUE(data.ok());
    std::vector<std::int32_t> tokens(8), targets(8);
    std::vector<std::vector<std::int32_t>> orders;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::int32_t> order;
        for (std::int64_t i = 0; i < 30; ++i) {
            data->sample(epoch * 30 + i, tokens, targets);
            order.push_back(tokens[0] / 8);
        }
        EXPECT_EQ(std::set<std::int32_t>(order.begin(), order.end()).size(), 30U);
        EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
        orders.push_back(order);
    }
    EXPECT_NE(orders[0], orders[1]);
    EXPECT_NE(orders[1], orders[2]);
}

TEST(ByteDataset, SampleDependsOnSeedAndNumberAlone) {
    const auto a = ByteDataset::fromBytes(counting(250), 8, 3);
    const auto b = ByteDataset::fromBytes(counting(250), 8, 3);
    const auto c = ByteDataset::fromBytes(counting(250), 8, 4);
    ASSERT_TRUE(a.ok() && b.ok() && c.ok());
    std::vector<std::int32_t> x(8), y(8), targets(8);
    int differ = 0;
    for (std::int64_t i = 40; i-- > 0;) {
        a->sample(i, x, targets);
        b->sample(i, y, targets);
        EXPECT_EQ(x, y);
        c->sample(i, y, targets);
        differ += x != y;
    }
    EXPECT_GT(differ, 20);
}

class DataFile : public ::testing::Test {
protected:
    void SetUp() override {
        m_path = std::filesystem::temp_directory_path() /
                 ("piper_data_test_" + std::to_string(::getpid()));
    }
    void TearDown() override { std::filesystem::remove_all(m_path); }
    void write(const std::string& text) { std::ofstream(m_path) << text; }
    std::filesystem::path m_path;
};

TEST_F(DataFile, ReadsTheBytesOfAFile) {
    write("To be, or not to be");
    const auto data = ByteDataset::open(m_path.string(), 18, 0);
    ASSERT_TRUE(data.ok());
    std::vector<std::int32_t> tokens(18), targets(18);
    std::set<char> first;
    for (std::int64_t i = 0; i < data->samplesPerEpoch(); ++i) {
        data->sample(i, tokens, targets);
        first.insert(static_cast<char>(tokens[0]));
    }
    EXPECT_EQ(first, (std::set<char>{'T', 'e'}));
}

TEST_F(DataFile, MissingEmptyAndShortAreClearErrors) {
    const std::string path = m_path.string();
    const auto missing = ByteDataset::open(path, 8, 0);
    ASSERT_FALSE(missing.ok());
    EXPECT_EQ(missing.error().code, ErrorCode::Io);
    EXPECT_EQ(missing.error().where, path);
    EXPECT_THAT(missing.error().message, HasSubstr("No such file"));
    write("");
    const auto empty = ByteDataset::open(path, 8, 0);
    ASSERT_FALSE(empty.ok());
    EXPECT_THAT(empty.error().text(), HasSubstr("empty"));
    write("12345678");
    const auto brief = ByteDataset::open(path, 8, 0);
    ASSERT_FALSE(brief.ok());
    EXPECT_THAT(brief.error().text(), HasSubstr("8 bytes; seq_len 8 needs at least 9"));
    EXPECT_FALSE(ByteDataset::open(path, 0, 0).ok());
}

TEST(DataFolder, EntriesThatLeadNowhereAreLeftOut) {
    const test::TemporaryDirectory directory;
    std::ofstream(directory.path() / "a.txt") << "a text of some bytes";
    std::filesystem::create_symlink("missing", directory.path() / "dangling");
    std::filesystem::create_symlink("loop", directory.path() / "loop");
    const auto data = ByteDataset::open(directory.path().string(), 4, 3);
    ASSERT_TRUE(data.ok()) << data.error().text();
    EXPECT_EQ(data->samplesPerEpoch(), 5);
}

TEST(DataFolder, IsItsFilesInTheOrderOfTheirPaths) {
    const test::TemporaryDirectory directory;
    const auto at = [&](const char* name) { return directory.path() / name; };
    const auto empty = ByteDataset::open(directory.path().string(), 4, 3);
    ASSERT_FALSE(empty.ok());
    EXPECT_THAT(empty.error().text(), HasSubstr("0 files and no text"));
    std::filesystem::create_directory(at("b"));
    std::ofstream(at("b/first.txt")) << "the second part";
    std::ofstream(at("a.txt")) << "the first part, ";
    std::ofstream(at("c.txt")) << "";
    const auto folder = ByteDataset::open(directory.path().string(), 4, 3);
    ASSERT_TRUE(folder.ok()) << folder.error().text();
    const std::string text = "the first part, the second part";
    const auto whole = ByteDataset::fromBytes({text.begin(), text.end()}, 4, 3);
    ASSERT_EQ(folder->samplesPerEpoch(), whole->samplesPerEpoch());
    for (std::int64_t i = 0; i < 2 * whole->samplesPerEpoch(); ++i) {
        std::vector<std::int32_t> got(4), next(4), expected(4), expected_next(4);
        folder->sample(i, got, next);
        whole->sample(i, expected, expected_next);
        EXPECT_EQ(got, expected);
        EXPECT_EQ(next, expected_next);
    }
}

}  // namespace
}  // namespace piper
