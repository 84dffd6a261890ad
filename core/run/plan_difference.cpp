// SPDX-License-Identifier: Apache-2.0
#include "core/run/plan_difference.h"

#include "core/base/json.h"

namespace piper {
namespace {

constexpr std::size_t kLongestValue = 40;

std::string shown(const Json& object, const std::string& key) {
    if (!object.contains(key)) return "absent";
    std::string text = object.at(key).dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > kLongestValue) text = text.substr(0, kLongestValue) + "...";
    return text;
}

void compare(const Json& a, const Json& b, const std::string& path, int depth,
             std::vector<std::string>& out) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : a.items()) keys.push_back(key);
    for (const auto& [key, value] : b.items())
        if (!a.contains(key)) keys.push_back(key);
    for (const std::string& key : keys) {
        const std::string where = path.empty() ? key : path + "." + key;
        const bool both = a.contains(key) && b.contains(key);
        if (both && a.at(key) == b.at(key)) continue;
        if (both && depth > 0 && a.at(key).is_object() && b.at(key).is_object())
            compare(a.at(key), b.at(key), where, depth - 1, out);
        else
            out.push_back(fmt::format("plans differ: {} is {} against {}", where, shown(a, key),
                                      shown(b, key)));
    }
}

}  // namespace

std::vector<std::string> planDifferences(std::string_view a, std::string_view b) {
    if (a == b) return {};
    std::vector<std::string> out;
    const Result<Json> json_a = parseJson(a, "plan"), json_b = parseJson(b, "plan");
    for (const auto& [json, which] : {std::pair{&json_a, "first"}, std::pair{&json_b, "second"}})
        if (!json->ok() || !json->value().is_object())
            out.push_back(
                fmt::format("the {} run has no readable plan: whether they differ is "
                            "unknown",
                            which));
    if (out.empty()) compare(*json_a, *json_b, "", 1, out);
    return out;
}

}  // namespace piper
