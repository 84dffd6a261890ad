// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace piper {

/// What a framework is told with: its command line, or a file.
enum class OptionSet {
    MegatronArguments,
    MegatronYaml,
    MegatronDeepSpeedArguments,
    DeepSpeedConfig,
    TorchtitanConfig,
    SbatchOptions
};

enum class OptionKind { Flag, Int, Float, Text, List, Object, Any };

struct OptionEntry {
    std::string name;  ///< "--num-layers", "zero_optimization.stage"
    OptionKind kind = OptionKind::Any;
    std::string fallback;  ///< the default as YAML text, where the list holds it
};

/// Every option a version of a framework knows, kept in options/*.txt with its source.
class OptionList {
public:
    explicit OptionList(std::string_view text);

    [[nodiscard]] const std::string& name() const { return m_name; }
    [[nodiscard]] const std::string& repository() const { return m_repository; }
    [[nodiscard]] const std::string& commit() const { return m_commit; }
    [[nodiscard]] const std::string& source() const { return m_source; }
    [[nodiscard]] const std::vector<OptionEntry>& entries() const { return m_entries; }
    /// Null when there is none of that name; a key below an [object] is that object's.
    [[nodiscard]] const OptionEntry* find(std::string_view name) const;
    /// Errors: InvalidInput names the option, the framework and the nearest known one.
    [[nodiscard]] Status require(std::string_view name) const;

private:
    std::string m_name, m_repository, m_commit, m_source;
    std::vector<OptionEntry> m_entries;
    std::map<std::string, std::size_t, std::less<>> m_index;
};

[[nodiscard]] const OptionList& optionList(OptionSet set);

/// The content of options/<file>.txt; in a source file made at build time.
[[nodiscard]] std::string_view embeddedOptions(std::string_view file);

}  // namespace piper
