// SPDX-License-Identifier: Apache-2.0
#include "core/export/shell_script.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace piper {
namespace {

constexpr std::string_view kMark = "# piper-plan: ";

std::string quoted(const std::string& token) {
    const bool plain = !token.empty() && std::all_of(token.begin(), token.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("_./:,+-=@%").find(c) != std::string_view::npos;
    });
    if (plain) return token;
    std::string out = "'";
    for (const char c : token) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::string optionLine(const Setting& setting) {
    std::string line = "    " + setting.name;
    if (setting.value.is_boolean()) return line + "\n";
    if (setting.value.is_array())
        for (const Json& item : setting.value) line += " " + quoted(scalarText(item));
    else
        line += " " + quoted(scalarText(setting.value));
    return line + "\n";
}

std::string optionArray(std::string_view name, const Settings& settings) {
    std::string out = fmt::format("{}=(\n", name);
    std::string group;
    for (const Setting& setting : settings.list()) {
        if (setting.group != group && !setting.group.empty())
            out += "    # " + setting.group + "\n";
        group = setting.group;
        out += optionLine(setting);
    }
    return out + ")\n";
}

/// Words of a bash array from the character after its '(' to its ')'.
class WordReader {
public:
    WordReader(std::string_view text, std::size_t at,
               const std::map<std::string, std::string>& variables)
        : m_text(text), m_at(at), m_variables(variables) {}

    Result<std::vector<std::string>> words() {
        std::vector<std::string> out;
        while (true) {
            skipBlanks();
            if (m_at >= m_text.size()) return fail(ErrorCode::InvalidInput, "the array has no ')'");
            if (m_text[m_at] == ')') return out;
            Result<std::string> word = oneWord();
            if (!word.ok()) return word.error();
            out.push_back(std::move(word).value());
        }
    }
    [[nodiscard]] std::size_t end() const { return m_at; }

private:
    static bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

    void skipBlanks() {
        while (m_at < m_text.size()) {
            if (m_text[m_at] == '#')
                m_at = std::min(m_text.find('\n', m_at), m_text.size());
            else if (blank(m_text[m_at]))
                ++m_at;
            else if (m_text.substr(m_at, 2) == "\\\n")
                m_at += 2;
            else
                return;
        }
    }

    Result<std::string> oneWord() {
        std::string out;
        char quote = 0;
        for (; m_at < m_text.size(); ++m_at) {
            const char c = m_text[m_at];
            if (quote == 0 && (blank(c) || c == ')')) return out;
            if (c == '\'' || c == '"') {
                if (quote == 0) {
                    quote = c;
                    continue;
                }
                if (quote == c) {
                    quote = 0;
                    continue;
                }
            }
            if (c == '$' && quote != '\'') {
                PIPER_TRY(expand(out));
                continue;
            }
            if (c == '\\' && quote != '\'' && m_at + 1 < m_text.size()) ++m_at;
            out += m_text[m_at];
        }
        if (quote != 0) return fail(ErrorCode::InvalidInput, "an open quote in the array");
        return out;
    }

    Status expand(std::string& out) {
        std::size_t from = m_at + 1;
        const bool braces = from < m_text.size() && m_text[from] == '{';
        if (braces) ++from;
        std::size_t to = from;
        while (to < m_text.size() &&
               (std::isalnum(static_cast<unsigned char>(m_text[to])) != 0 || m_text[to] == '_'))
            ++to;
        const std::string name(m_text.substr(from, to - from));
        const auto found = m_variables.find(name);
        if (found == m_variables.end() || (braces && (to >= m_text.size() || m_text[to] != '}')))
            return fail(ErrorCode::InvalidInput,
                        "the value of '${}' is not known: write the value itself", name);
        out += found->second;
        m_at = braces ? to : to - 1;
        return {};
    }

    std::string_view m_text;
    std::size_t m_at;
    const std::map<std::string, std::string>& m_variables;
};

/// "NAME=${NAME:-value}" and "NAME=value" (also exported) at the start of a line.
std::map<std::string, std::string> assignments(std::string_view text) {
    std::map<std::string, std::string> out;
    std::istringstream in{std::string(text)};
    for (std::string line; std::getline(in, line);) {
        if (line.starts_with("export ")) line.erase(0, 7);
        const std::size_t equals = line.find('=');
        if (equals == std::string::npos || equals == 0) continue;
        const std::string name = line.substr(0, equals);
        if (!std::all_of(name.begin(), name.end(), [](char c) {
                return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
            }))
            continue;
        std::string value = line.substr(equals + 1);
        const std::string with_default = "${" + name + ":-";
        if (value.starts_with(with_default) && value.ends_with("}"))
            value = value.substr(with_default.size(), value.size() - with_default.size() - 1);
        if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
            value.back() == value.front())
            value = value.substr(1, value.size() - 2);
        if (!value.starts_with("(")) out[name] = value;
    }
    return out;
}

Status addOptions(std::vector<std::string> words, const OptionList& options, Settings& out) {
    for (std::size_t i = 0; i < words.size();) {
        std::string name = words[i++];
        if (!name.starts_with("--"))
            return fail(ErrorCode::InvalidInput, "'{}' is neither an option nor a value of one",
                        name);
        std::vector<std::string> values;
        const std::size_t equals = name.find('=');
        if (equals != std::string::npos) {
            values.push_back(name.substr(equals + 1));
            name.resize(equals);
        }
        while (i < words.size() && !words[i].starts_with("--")) values.push_back(words[i++]);
        PIPER_TRY(options.require(name));
        PIPER_ASSIGN(Json value, tokenValue(*options.find(name), values));
        out.add(name, std::move(value));
    }
    return {};
}

}  // namespace

std::string residualLine(const Json& residual) {
    if (!residual.is_object() || residual.empty()) return "";
    return std::string(kMark) + residual.dump() + "\n";
}

Result<Json> readResidualLine(std::string_view text, std::string_view where) {
    const std::size_t at = text.find(kMark);
    if (at == std::string_view::npos) return Json(nullptr);
    const std::size_t from = at + kMark.size();
    const std::string_view line = text.substr(from, text.find('\n', from) - from);
    PIPER_ASSIGN(Json residual, parseJson(line, fmt::format("{}: piper-plan", where)));
    if (!residual.is_object())
        return fail(ErrorCode::InvalidInput, "the piper-plan line holds no object")
            .at(std::string(where));
    return residual;
}

std::string writeShellScript(const ShellScript& script) {
    const OptionList& options = optionList(script.options);
    std::string out = fmt::format(
        "#!/bin/bash\n# {}\n# Options of {} {} ({}).\n{}set -euo pipefail\n\n", script.title,
        options.repository(), options.commit(), options.source(), residualLine(script.residual));
    out += fmt::format(
        "NNODES=${{NNODES:-{}}}\nGPUS_PER_NODE=${{GPUS_PER_NODE:-{}}}\n"
        "NODE_RANK=${{NODE_RANK:-${{SLURM_NODEID:-0}}}}\n"
        "MASTER_ADDR=${{MASTER_ADDR:-localhost}}\nMASTER_PORT=${{MASTER_PORT:-29500}}\n",
        script.shape.nodes, script.shape.ranks_per_node);
    for (const auto& [name, value] : script.environment)
        out += fmt::format("export {}={}\n", name, value);
    out += "\n# What the plan says.\n" + optionArray("PLAN_ARGUMENTS", script.plan);
    out += "\n# Not of the plan: data, learning rate, length of the run.\n" +
           optionArray("RUN_ARGUMENTS", script.run);
    out += fmt::format(
        "\nexec torchrun \\\n    --nnodes \"$NNODES\" --nproc-per-node \"$GPUS_PER_NODE\" \\\n"
        "    --node-rank \"$NODE_RANK\" --master-addr \"$MASTER_ADDR\" --master-port "
        "\"$MASTER_PORT\" \\\n    {} \"${{PLAN_ARGUMENTS[@]}}\" \"${{RUN_ARGUMENTS[@]}}\" "
        "\"$@\"\n",
        script.program);
    return out;
}

Result<ParsedScript> parseShellScript(std::string_view text, const OptionList& options,
                                      std::string_view where) {
    ParsedScript out;
    out.variables = assignments(text);
    PIPER_ASSIGN(out.residual, readResidualLine(text, where));
    constexpr std::string_view kArray = "_ARGUMENTS=(";
    std::size_t at = text.find(kArray);
    if (at == std::string_view::npos)
        return fail(ErrorCode::InvalidInput, "no option array (NAME_ARGUMENTS=( ... ))")
            .at(std::string(where));
    while (at != std::string_view::npos) {
        WordReader reader(text, at + kArray.size(), out.variables);
        Result<std::vector<std::string>> words = reader.words();
        const auto line =
            1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
        const std::string place = fmt::format("{}: array of line {}", where, line);
        if (!words.ok()) return std::move(words).error().at(place);
        const Status added = addOptions(std::move(words).value(), options, out.settings);
        if (!added.ok()) return Error(added.error()).at(place);
        at = text.find(kArray, reader.end());
    }
    return out;
}

Result<LaunchShape> scriptShape(const ParsedScript& script, std::string_view where) {
    LaunchShape shape;
    for (const auto& [name, value] :
         {std::pair("NNODES", &shape.nodes), std::pair("GPUS_PER_NODE", &shape.ranks_per_node)}) {
        const auto found = script.variables.find(name);
        if (found == script.variables.end())
            return fail(ErrorCode::InvalidInput, "{} is not set: without it there is no world",
                        name)
                .at(std::string(where));
        const std::string& text = found->second;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
        if (error != std::errc() || end != text.data() + text.size() || *value < 1 ||
            *value > (1 << 24))
            return fail(ErrorCode::InvalidInput, "{} must be a number above 0, found '{}'", name,
                        text)
                .at(std::string(where));
    }
    return shape;
}

}  // namespace piper
