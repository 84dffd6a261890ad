// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/enum_text.h"
#include "core/base/json_fwd.h"
#include "core/base/result.h"

namespace piper {

/// Parses one JSON document. Errors: InvalidInput with line and column; `where` names the source.
[[nodiscard]] Result<Json> parseJson(std::string_view text, std::string_view where);

/// Reads one JSON object strictly: every key must be asked for, a wrong type or a missing key is an
/// error with the path of the key, an unknown key names the nearest known one. The first error
/// stays; the getters return a default after it, so that a reader checks once, in finish().
///
///     ObjectReader in(json, "plan.json: layout");
///     layout.tp = in.positiveInt("tp", 1);
///     PIPER_TRY(in.finish());
class ObjectReader {
public:
    ObjectReader(const Json& object, std::string where);

    [[nodiscard]] bool has(std::string_view key) const;
    /// Present and not null.
    [[nodiscard]] bool hasValue(std::string_view key) const;

    /// Required.
    std::int64_t integer(std::string_view key);
    std::int64_t positiveInt(std::string_view key);
    double number(std::string_view key);
    std::string string(std::string_view key);
    bool boolean(std::string_view key);
    /// Optional, null counts as absent.
    std::int64_t integer(std::string_view key, std::int64_t fallback);
    std::int64_t positiveInt(std::string_view key, std::int64_t fallback);
    double number(std::string_view key, double fallback);
    std::string string(std::string_view key, std::string fallback);
    bool boolean(std::string_view key, bool fallback);

    /// A child object or array; null Json when absent.
    const Json& child(std::string_view key);
    std::vector<std::int64_t> integers(std::string_view key);
    std::vector<double> numbers(std::string_view key);

    template <class E>
    E enumeration(std::string_view key, E fallback) {
        if (!hasValue(key)) {
            known(key);
            return fallback;
        }
        Result<E> parsed = parseEnum<E>(string(key), key);
        if (!parsed.ok()) {
            note(std::move(parsed).error().at(path(key)));
            return fallback;
        }
        return *parsed;
    }

    /// Marks a key as known without reading it (fields of foreign files that do not matter here).
    void known(std::string_view key);
    /// Foreign files carry keys of their own: do not refuse unknown ones.
    void allowUnknown() { m_allow_unknown = true; }
    void note(Error error);
    [[nodiscard]] std::string path(std::string_view key) const;
    [[nodiscard]] const std::string& where() const { return m_where; }

    /// The first error, or an error that names an unknown key and its nearest known one.
    [[nodiscard]] Status finish();

private:
    const Json* find(std::string_view key, bool required, std::string_view type);

    const Json& m_object;
    std::string m_where;
    std::vector<std::string> m_known;
    std::optional<Error> m_error;
    bool m_allow_unknown = false;
};

/// Checks `format_version` of a file of ours. Errors: InvalidInput when newer than `supported`.
[[nodiscard]] Status checkFormatVersion(ObjectReader& in, int supported);

}  // namespace piper
