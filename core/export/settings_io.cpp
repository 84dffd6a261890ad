// SPDX-License-Identifier: Apache-2.0
#include "core/export/settings_io.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace piper {
namespace {

/// Two of them still multiply without overflow.
constexpr std::int64_t kMost = std::int64_t{1} << 31;

template <class T>
std::optional<T> parsed(std::string_view text) {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || at != end) return std::nullopt;
    return value;
}

/// A list's items are numbers where they read as such.
Json itemValue(const std::string& token) {
    if (const auto whole = parsed<std::int64_t>(token)) return *whole;
    if (const auto real = parsed<double>(token)) return *real;
    return token;
}

void flattenInto(const Json& object, const std::string& prefix, const OptionList& options,
                 Settings& out) {
    for (const auto& [key, value] : object.items()) {
        const std::string name = prefix.empty() ? key : prefix + "." + key;
        const OptionEntry* const entry = options.find(name);
        const bool whole = entry != nullptr && entry->kind == OptionKind::Object;
        if (value.is_object() && !value.empty() && !whole)
            flattenInto(value, name, options, out);
        else
            out.add(name, value);
    }
}

}  // namespace

void Settings::set(std::string_view name, Json value) {
    for (Setting& setting : m_list)
        if (setting.name == name) {
            setting.value = std::move(value);
            return;
        }
    add(name, std::move(value));
}

const Json* Settings::find(std::string_view name) const {
    // As in argparse the last one counts.
    const auto found = std::find_if(m_list.rbegin(), m_list.rend(),
                                    [&](const Setting& s) { return s.name == name; });
    if (found == m_list.rend() || found->value.is_null()) return nullptr;
    return &found->value;
}

void SettingReader::wrong(std::string_view name, std::string_view expected, const Json& found) {
    note(fail(ErrorCode::InvalidInput, "{} takes {}, found {}", name, expected, found.dump())
             .at(m_where));
}

void SettingReader::note(Error error) {
    if (!m_error) m_error = std::move(error);
}

Status SettingReader::finish() {
    if (m_error) return *m_error;
    return {};
}

bool SettingReader::flag(std::string_view name, bool fallback) {
    const Json* const value = find(name);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) {
        wrong(name, "true or false", *value);
        return fallback;
    }
    return value->get<bool>();
}

std::int64_t SettingReader::integer(std::string_view name, std::int64_t fallback) {
    const Json* const value = find(name);
    if (value == nullptr) return fallback;
    if (!value->is_number_integer()) {
        wrong(name, "a whole number", *value);
        return fallback;
    }
    return value->get<std::int64_t>();
}

std::int64_t SettingReader::positive(std::string_view name, std::int64_t fallback) {
    const std::int64_t value = integer(name, fallback);
    if (value >= 1 && value <= kMost) return value;
    note(fail(ErrorCode::InvalidInput, "{} must be between 1 and {}, found {}", name, kMost, value)
             .at(m_where));
    return fallback;
}

std::int64_t SettingReader::positive(std::string_view name) {
    if (!has(name))
        note(fail(ErrorCode::InvalidInput, "{} is missing: without it there is no plan", name)
                 .at(m_where));
    return positive(name, 1);
}

double SettingReader::number(std::string_view name, double fallback) {
    const Json* const value = find(name);
    if (value == nullptr) return fallback;
    if (!value->is_number()) {
        wrong(name, "a number", *value);
        return fallback;
    }
    return value->get<double>();
}

std::string SettingReader::text(std::string_view name, std::string fallback) {
    const Json* const value = find(name);
    if (value == nullptr) return fallback;
    return scalarText(*value);
}

std::vector<std::string> SettingReader::texts(std::string_view name) {
    std::vector<std::string> out;
    const Json* const value = find(name);
    if (value == nullptr) return out;
    if (!value->is_array()) {
        wrong(name, "a list", *value);
        return out;
    }
    for (const Json& item : *value) out.push_back(scalarText(item));
    return out;
}

std::vector<std::int64_t> SettingReader::integers(std::string_view name) {
    std::vector<std::int64_t> out;
    const Json* const value = find(name);
    if (value == nullptr) return out;
    const bool sound = value->is_array() && std::all_of(value->begin(), value->end(), [](auto& v) {
                           return v.is_number_integer();
                       });
    if (!sound) {
        wrong(name, "whole numbers", *value);
        return out;
    }
    for (const Json& item : *value) out.push_back(item.get<std::int64_t>());
    return out;
}

Result<Json> tokenValue(const OptionEntry& entry, const std::vector<std::string>& tokens) {
    const auto expected = [&](std::string_view what) {
        std::string found;
        for (const std::string& token : tokens) found += (found.empty() ? "" : " ") + token;
        return fail(ErrorCode::InvalidInput, "{} takes {}, found '{}'", entry.name, what, found);
    };
    if (entry.kind == OptionKind::Flag)
        return tokens.empty() ? Result<Json>(Json(true)) : expected("no value");
    if (entry.kind == OptionKind::List) {
        if (tokens.empty()) return expected("one or more values");
        Json out = Json::array();
        for (const std::string& token : tokens) out.push_back(itemValue(token));
        return out;
    }
    if (tokens.size() != 1) return expected("one value");
    if (entry.kind == OptionKind::Int) {
        const auto value = parsed<std::int64_t>(tokens.front());
        if (!value) return expected("a whole number");
        return Json(*value);
    }
    if (entry.kind == OptionKind::Float) {
        const auto value = parsed<double>(tokens.front());
        if (!value || !std::isfinite(*value)) return expected("a number");
        return Json(*value);
    }
    return Json(tokens.front());
}

std::string scalarText(const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
}

Settings flatten(const Json& object, const OptionList& options) {
    Settings out;
    if (object.is_object()) flattenInto(object, "", options, out);
    return out;
}

Json nest(const Settings& settings) {
    Json out = Json::object();
    for (const Setting& setting : settings.list()) {
        Json* at = &out;
        std::string_view name = setting.name;
        for (std::size_t dot = name.find('.'); dot != std::string_view::npos;
             dot = name.find('.')) {
            at = &(*at)[std::string(name.substr(0, dot))];
            name.remove_prefix(dot + 1);
        }
        (*at)[std::string(name)] = setting.value;
    }
    return out;
}

Status requireAll(const Settings& settings, const OptionList& options, std::string_view where) {
    for (const Setting& setting : settings.list()) {
        Status known = options.require(setting.name);
        if (!known.ok()) return Error(known.error()).at(std::string(where));
    }
    return {};
}

Result<const ExportedFile*> findFile(const std::vector<ExportedFile>& files,
                                     std::string_view name) {
    std::string there;
    for (const ExportedFile& file : files) {
        if (file.name == name) return &file;
        there += (there.empty() ? "" : ", ") + file.name;
    }
    return fail(ErrorCode::InvalidInput, "no {} among the files ({})", name,
                there.empty() ? "none" : there);
}

}  // namespace piper
