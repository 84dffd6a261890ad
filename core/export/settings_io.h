// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/export/export.h"
#include "core/export/option_list.h"

// Options with their values, in whatever file they stand; not for other folders.
namespace piper {

/// One option as it is written: a flag has the value true. `group` is a heading of its file.
struct Setting {
    std::string name;
    Json value;
    std::string group;
};

/// Options in file order.
class Settings {
public:
    void group(std::string heading) { m_group = std::move(heading); }
    void add(std::string_view name, Json value) {
        m_list.push_back({std::string(name), std::move(value), m_group});
    }
    void flag(std::string_view name, bool on = true) {
        if (on) add(name, true);
    }
    /// Replaces the value of an option that is there, adds it otherwise.
    void set(std::string_view name, Json value);
    [[nodiscard]] const Json* find(std::string_view name) const;
    [[nodiscard]] const std::vector<Setting>& list() const { return m_list; }

private:
    std::string m_group;
    std::vector<Setting> m_list;
};

/// Reads options by name with defaults. The first error stays; finish() gives it.
class SettingReader {
public:
    SettingReader(const Settings& settings, std::string where)
        : m_settings(settings), m_where(std::move(where)) {}

    [[nodiscard]] bool has(std::string_view name) const { return m_settings.find(name) != nullptr; }
    bool flag(std::string_view name, bool fallback = false);
    std::int64_t integer(std::string_view name, std::int64_t fallback);
    std::int64_t positive(std::string_view name, std::int64_t fallback);
    /// Required.
    std::int64_t positive(std::string_view name);
    double number(std::string_view name, double fallback);
    std::string text(std::string_view name, std::string fallback = "");
    std::vector<std::string> texts(std::string_view name);
    std::vector<std::int64_t> integers(std::string_view name);
    void note(Error error);
    [[nodiscard]] const std::string& where() const { return m_where; }
    [[nodiscard]] Status finish();

private:
    const Json* find(std::string_view name) const { return m_settings.find(name); }
    void wrong(std::string_view name, std::string_view expected, const Json& found);

    const Settings& m_settings;
    std::string m_where;
    std::optional<Error> m_error;
};

/// A command line token as the value its option takes. Errors: InvalidInput names both.
[[nodiscard]] Result<Json> tokenValue(const OptionEntry& entry,
                                      const std::vector<std::string>& tokens);
/// A number in its shortest exact form, text as it is.
[[nodiscard]] std::string scalarText(const Json& value);

/// Leaves of nested objects as "a.b.c"; an [object] of the list stays whole.
[[nodiscard]] Settings flatten(const Json& object, const OptionList& options);
/// The inverse.
[[nodiscard]] Json nest(const Settings& settings);
/// Every name is one of the list. Errors: the first that is not.
[[nodiscard]] Status requireAll(const Settings& settings, const OptionList& options,
                                std::string_view where);

/// The file of that name. Errors: InvalidInput names what is there.
[[nodiscard]] Result<const ExportedFile*> findFile(const std::vector<ExportedFile>& files,
                                                   std::string_view name);

}  // namespace piper
