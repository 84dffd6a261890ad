// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"

#include <gtest/gtest.h>

#include "core/base/evidence.h"

namespace piper {
namespace {

TEST(Json, ParseErrorNamesLineAndColumn) {
    const Result<Json> r = parseJson("{\n  \"a\": 1,\n  oops\n}", "plan.json");
    ASSERT_FALSE(r.ok());
    EXPECT_EQ(r.error().where, "plan.json");
    EXPECT_NE(r.error().message.find("line 3"), std::string::npos) << r.error().message;
}

TEST(Json, UnknownKeyNamesTheNearestKnownOne) {
    const Json json = Json::parse(R"({"micro_batch": 2})");
    ObjectReader in(json, "plan.json");
    EXPECT_EQ(in.integer("micro_batch_size", 1), 1);
    const Status s = in.finish();
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().message.find("'micro_batch_size'"), std::string::npos) << s.error().text();
}

TEST(Json, MissingAndWrongTypesAreErrorsWithAPath) {
    const Json json = Json::parse(R"({"tp": "two"})");
    ObjectReader wrong(json, "plan.json: layout");
    (void)wrong.positiveInt("tp");
    ASSERT_FALSE(wrong.finish().ok());
    EXPECT_EQ(wrong.finish().error().where, "plan.json: layout.tp");

    ObjectReader missing(json, "plan.json: layout");
    missing.known("tp");
    (void)missing.positiveInt("pp");
    ASSERT_FALSE(missing.finish().ok());
    EXPECT_EQ(missing.finish().error().where, "plan.json: layout.pp");
}

TEST(Json, NegativeIsNotPositive) {
    const Json json = Json::parse(R"({"pp": -4})");
    ObjectReader in(json, "p");
    (void)in.positiveInt("pp");
    ASSERT_FALSE(in.finish().ok());
    EXPECT_NE(in.finish().error().message.find("-4"), std::string::npos);
}

TEST(Json, EnumerationNamesLegalValues) {
    const Json json = Json::parse(R"({"kind": "measurd"})");
    ObjectReader in(json, "p");
    (void)in.enumeration<EvidenceKind>("kind", EvidenceKind::Assumed);
    const Status s = in.finish();
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().message.find("'measured'"), std::string::npos) << s.error().text();
}

TEST(Json, NewerFormatVersionIsRefused) {
    const Json json = Json::parse(R"({"format_version": 9})");
    ObjectReader in(json, "p");
    const Status s = checkFormatVersion(in, 1);
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.error().message.find("newer"), std::string::npos);
}

TEST(Json, ANumberTooLargeIsAnErrorNotAnException) {
    const Result<Json> json = parseJson("{\"a\": 1e400}", "plan.json");
    ASSERT_FALSE(json.ok());
    EXPECT_NE(json.error().text().find("plan.json"), std::string::npos) << json.error().text();
    EXPECT_NE(json.error().text().find("1e400"), std::string::npos) << json.error().text();
}

}  // namespace
}  // namespace piper
