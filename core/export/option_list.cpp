// SPDX-License-Identifier: Apache-2.0
#include "core/export/option_list.h"

#include <array>
#include <sstream>

#include "core/base/enum_text.h"

namespace piper {
namespace {

OptionKind kindOf(std::string_view word) {
    if (word == "flag") return OptionKind::Flag;
    if (word == "int") return OptionKind::Int;
    if (word == "float") return OptionKind::Float;
    if (word == "text") return OptionKind::Text;
    if (word == "list") return OptionKind::List;
    if (word == "object") return OptionKind::Object;
    return OptionKind::Any;
}

}  // namespace

OptionList::OptionList(std::string_view text) {
    std::istringstream in{std::string(text)};
    OptionKind kind = OptionKind::Any;
    std::string prefix;
    bool defaults = false;
    for (std::string line; std::getline(in, line);) {
        if (line.empty() || line.front() == '#') continue;
        std::istringstream words(line);
        std::string word;
        words >> word;
        const auto rest = [&] {
            const std::size_t at = line.find(' ');
            return at == std::string::npos ? std::string() : line.substr(at + 1);
        };
        if (word == "[defaults" || word == "[defaults]") {
            defaults = true;
            std::string section;
            if (words >> section) section.pop_back();
            prefix = section.empty() ? "" : section + ".";
        } else if (word.front() == '[') {
            kind = kindOf(std::string_view(word).substr(1, word.size() - 2));
        } else if (defaults) {
            m_entries.push_back({prefix + word, OptionKind::Any, rest()});
        } else if (word == "name") {
            m_name = rest();
        } else if (word == "repository") {
            m_repository = rest();
        } else if (word == "commit") {
            m_commit = rest();
        } else if (word == "source") {
            m_source = rest();
        } else {
            do m_entries.push_back({word, kind, ""});
            while (words >> word);
        }
    }
    for (std::size_t i = 0; i < m_entries.size(); ++i) m_index.emplace(m_entries[i].name, i);
}

const OptionEntry* OptionList::find(std::string_view name) const {
    const auto found = m_index.find(name);
    if (found != m_index.end()) return &m_entries[found->second];
    for (std::size_t dot = name.rfind('.'); dot != std::string_view::npos && dot > 0;
         dot = name.rfind('.', dot - 1)) {
        const auto parent = m_index.find(name.substr(0, dot));
        if (parent != m_index.end() && m_entries[parent->second].kind == OptionKind::Object)
            return &m_entries[parent->second];
    }
    return nullptr;
}

Status OptionList::require(std::string_view name) const {
    if (find(name) != nullptr) return {};
    std::vector<std::string_view> names;
    for (const OptionEntry& entry : m_entries) names.push_back(entry.name);
    Error error = fail(ErrorCode::InvalidInput, "{} has no option '{}'; nearest known: '{}'",
                       m_name, name, nearestWord(name, names));
    error.hint = fmt::format("the list is that of {} {} ({})", m_repository, m_commit, m_source);
    return error;
}

const OptionList& optionList(OptionSet set) {
    static const std::array<OptionList, 6> kLists = {
        OptionList(embeddedOptions("megatron_arguments")),
        OptionList(embeddedOptions("megatron_yaml")),
        OptionList(embeddedOptions("megatron_deepspeed_arguments")),
        OptionList(embeddedOptions("deepspeed_config")),
        OptionList(embeddedOptions("torchtitan_config")),
        OptionList(embeddedOptions("sbatch_options"))};
    return kLists[static_cast<std::size_t>(set)];
}

}  // namespace piper
