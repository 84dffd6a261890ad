// SPDX-License-Identifier: Apache-2.0
#include "core/run/run_labels.h"

#include <algorithm>

#include "core/base/result.h"

namespace piper {
namespace {

constexpr std::size_t kLongestTag = 60;  ///< bytes, as a cell of a table shows

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\n");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

Status checkTag(std::string_view tag) {
    if (tag.size() > kLongestTag)
        return fail(ErrorCode::InvalidInput, "tag '{}…' has {} bytes; {} are allowed",
                    tag.substr(0, 20), tag.size(), kLongestTag);
    const bool odd = std::ranges::any_of(
        tag, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f' || c == '#'; });
    if (!odd) return {};
    return fail(ErrorCode::InvalidInput,
                "tag '{}' holds '#' or a control character; write words, between tags a comma",
                tag);
}

}  // namespace

Result<std::vector<std::string>> parseTags(std::string_view text) {
    std::vector<std::string> tags;
    while (!text.empty()) {
        const std::size_t comma = std::min(text.find(','), text.size());
        const std::string_view tag = trimmed(text.substr(0, comma));
        text.remove_prefix(std::min(comma + 1, text.size()));
        if (tag.empty()) continue;
        PIPER_TRY(checkTag(tag));
        tags.emplace_back(tag);
    }
    std::ranges::sort(tags);
    const auto twice = std::ranges::unique(tags);
    tags.erase(twice.begin(), twice.end());
    return tags;
}

std::string tagsText(const std::vector<std::string>& tags) {
    return fmt::format("{}", fmt::join(tags, ", "));
}

std::string noteOf(const Run& run, std::string_view name) {
    const auto found = run.notes.find(std::string(name));
    return found == run.notes.end() ? std::string() : found->second;
}

RunLabels labelsOf(const Run& run) {
    RunLabels out{noteOf(run, kUserNote), {}};
    if (Result<std::vector<std::string>> tags = parseTags(noteOf(run, kUserTags)); tags.ok())
        out.tags = std::move(tags).value();
    return out;
}

}  // namespace piper
