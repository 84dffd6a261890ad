// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"

#include <algorithm>

namespace piper {

Result<Json> parseJson(std::string_view text, std::string_view where) {
    try {
        return Json::parse(text);
    } catch (const nlohmann::json::parse_error& e) {
        const std::size_t end = std::min<std::size_t>(e.byte, text.size());
        const std::string_view before = text.substr(0, end);
        const auto line = 1 + std::count(before.begin(), before.end(), '\n');
        const std::size_t line_start = before.rfind('\n');
        const std::size_t column =
            line_start == std::string_view::npos ? end : end - line_start - 1;
        Error error =
            fail(ErrorCode::InvalidInput, "not valid JSON at line {}, column {}", line, column);
        error.where = std::string(where);
        error.context = text.empty() ? "the file is empty" : "";
        return error;
    } catch (const nlohmann::json::exception& e) {
        // A number such as 1e400 is good grammar and no number.
        return fail(ErrorCode::InvalidInput, "{}", e.what()).at(std::string(where));
    }
}

ObjectReader::ObjectReader(const Json& object, std::string where)
    : m_object(object), m_where(std::move(where)) {
    if (!object.is_object()) {
        Error error =
            fail(ErrorCode::InvalidInput, "expected an object, found {}", object.type_name());
        error.where = m_where;
        m_error = std::move(error);
    }
}

std::string ObjectReader::path(std::string_view key) const {
    return m_where.empty() ? std::string(key) : m_where + "." + std::string(key);
}

void ObjectReader::known(std::string_view key) {
    m_known.emplace_back(key);
}

void ObjectReader::note(Error error) {
    if (!m_error) m_error = std::move(error);
}

bool ObjectReader::has(std::string_view key) const {
    return m_object.is_object() && m_object.contains(std::string(key));
}

bool ObjectReader::hasValue(std::string_view key) const {
    return has(key) && !m_object.at(std::string(key)).is_null();
}

const Json* ObjectReader::find(std::string_view key, bool required, std::string_view type) {
    known(key);
    if (!hasValue(key)) {
        if (required) {
            Error error = fail(ErrorCode::InvalidInput, "missing; expected {}", type);
            error.where = path(key);
            note(std::move(error));
        }
        return nullptr;
    }
    const Json& value = m_object.at(std::string(key));
    const bool fits = type == "an integer"  ? value.is_number_integer()
                      : type == "a number"  ? value.is_number()
                      : type == "a string"  ? value.is_string()
                      : type == "a boolean" ? value.is_boolean()
                      : type == "an array"  ? value.is_array()
                                            : true;
    if (!fits) {
        Error error = fail(ErrorCode::InvalidInput, "expected {}, found {}", type, value.dump());
        error.where = path(key);
        note(std::move(error));
        return nullptr;
    }
    return &value;
}

std::int64_t ObjectReader::integer(std::string_view key) {
    const Json* v = find(key, true, "an integer");
    return v ? v->get<std::int64_t>() : 0;
}

std::int64_t ObjectReader::positiveInt(std::string_view key) {
    const Json* v = find(key, true, "an integer");
    if (!v) return 1;
    const auto value = v->get<std::int64_t>();
    if (value >= 1) return value;
    Error error = fail(ErrorCode::InvalidInput, "{} must be at least 1", value);
    error.where = path(key);
    note(std::move(error));
    return 1;
}

double ObjectReader::number(std::string_view key) {
    const Json* v = find(key, true, "a number");
    return v ? v->get<double>() : 0.0;
}

std::string ObjectReader::string(std::string_view key) {
    const Json* v = find(key, true, "a string");
    return v ? v->get<std::string>() : std::string();
}

bool ObjectReader::boolean(std::string_view key) {
    const Json* v = find(key, true, "a boolean");
    return v && v->get<bool>();
}

std::int64_t ObjectReader::integer(std::string_view key, std::int64_t fallback) {
    const Json* v = find(key, false, "an integer");
    return v ? v->get<std::int64_t>() : fallback;
}

std::int64_t ObjectReader::positiveInt(std::string_view key, std::int64_t fallback) {
    if (hasValue(key)) return positiveInt(key);
    known(key);
    return fallback;
}

double ObjectReader::number(std::string_view key, double fallback) {
    const Json* v = find(key, false, "a number");
    return v ? v->get<double>() : fallback;
}

std::string ObjectReader::string(std::string_view key, std::string fallback) {
    const Json* v = find(key, false, "a string");
    return v ? v->get<std::string>() : std::move(fallback);
}

bool ObjectReader::boolean(std::string_view key, bool fallback) {
    const Json* v = find(key, false, "a boolean");
    return v ? v->get<bool>() : fallback;
}

const Json& ObjectReader::child(std::string_view key) {
    static const Json absent;
    const Json* v = find(key, false, "");
    return v ? *v : absent;
}

std::vector<std::int64_t> ObjectReader::integers(std::string_view key) {
    std::vector<std::int64_t> out;
    const Json* v = find(key, false, "an array");
    if (!v) return out;
    for (const Json& item : *v) {
        if (!item.is_number_integer()) {
            Error error = fail(ErrorCode::InvalidInput, "expected integers, found {}", item.dump());
            error.where = path(key);
            note(std::move(error));
            return {};
        }
        out.push_back(item.get<std::int64_t>());
    }
    return out;
}

std::vector<double> ObjectReader::numbers(std::string_view key) {
    std::vector<double> out;
    const Json* v = find(key, false, "an array");
    if (!v) return out;
    for (const Json& item : *v) {
        if (!item.is_number()) {
            Error error = fail(ErrorCode::InvalidInput, "expected numbers, found {}", item.dump());
            error.where = path(key);
            note(std::move(error));
            return {};
        }
        out.push_back(item.get<double>());
    }
    return out;
}

Status ObjectReader::finish() {
    if (m_error) return *m_error;
    if (m_allow_unknown) return {};
    for (const auto& [key, value] : m_object.items()) {
        if (std::find(m_known.begin(), m_known.end(), key) != m_known.end()) continue;
        const std::vector<std::string_view> words(m_known.begin(), m_known.end());
        Error error = fail(ErrorCode::InvalidInput, "unknown key '{}'; nearest known key: '{}'",
                           key, nearestWord(key, words));
        error.where = m_where;
        error.hint = fmt::format("known keys: {}", joinWords(words));
        return error;
    }
    return {};
}

Status checkFormatVersion(ObjectReader& in, int supported) {
    const std::int64_t version = in.positiveInt("format_version", supported);
    if (version <= supported) return {};
    Error error = fail(ErrorCode::InvalidInput,
                       "format_version {} is newer than {}, the newest known", version, supported);
    error.where = in.where();
    error.hint = "open it with a newer version of the program";
    return error;
}

}  // namespace piper
