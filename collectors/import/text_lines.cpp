// SPDX-License-Identifier: Apache-2.0
#include "collectors/import/text_lines.h"

#include <charconv>
#include <cmath>

#include "collectors/import/byte_source.h"

namespace piper {
namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 16;
constexpr std::string_view kBlanks = " \t\r\n";

/// Takes out control sequences of terminals: "ESC [", parameters, one of @ to ~.
void dropColours(std::string& line) {
    std::size_t at = line.find('\x1b');
    if (at == std::string::npos) return;
    std::size_t kept = at;
    while (at < line.size()) {
        if (line[at] != '\x1b') {
            line[kept++] = line[at++];
            continue;
        }
        ++at;
        if (at == line.size() || line[at] != '[') continue;
        for (++at; at < line.size() && (line[at] < '@' || line[at] > '~');) ++at;
        if (at < line.size()) ++at;
    }
    line.resize(kept);
}

std::string_view withoutTag(std::string_view line) {
    if (!line.starts_with('[')) return line;
    const std::size_t tag = line.find(">:");
    if (tag == std::string_view::npos || line.find("<std") > tag) return line;
    return line.substr(tag + 2);
}

void give(std::string& line, std::int64_t number,
          const std::function<void(std::int64_t, std::string_view)>& take) {
    dropColours(line);
    std::string_view text = withoutTag(line);
    if (text.ends_with('\r')) text.remove_suffix(1);
    take(number, text);
    line.clear();
}

}  // namespace

Result<std::string> eachLine(const std::filesystem::path& path,
                             const std::function<void(std::int64_t, std::string_view)>& line) {
    PIPER_ASSIGN(ByteSource source, ByteSource::open(path));
    std::string block(std::size_t{1} << 16, '\0'), rest;
    std::int64_t number = 0;
    while (const std::size_t got = source.read(block.data(), block.size())) {
        std::string_view text(block.data(), got);
        for (std::size_t end; (end = text.find('\n')) != std::string_view::npos;) {
            rest.append(text.substr(0, std::min(end, kLongestLine)));
            give(rest, ++number, line);
            text.remove_prefix(end + 1);
        }
        if (rest.size() < kLongestLine) rest.append(text);
    }
    if (!rest.empty()) give(rest, ++number, line);
    return source.fault();
}

std::vector<std::string_view> wordsOf(std::string_view line) {
    std::vector<std::string_view> words;
    std::size_t at = line.find_first_not_of(kBlanks);
    while (at != std::string_view::npos) {
        const std::size_t end = line.find_first_of(kBlanks, at);
        words.push_back(line.substr(at, end == std::string_view::npos ? end : end - at));
        at = end == std::string_view::npos ? end : line.find_first_not_of(kBlanks, end);
    }
    return words;
}

std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool numberAfter(std::string_view line, std::string_view label, double& value) {
    for (std::size_t at = line.find(label); at != std::string_view::npos;
         at = line.find(label, at + 1)) {
        const std::size_t begin = line.find_first_not_of(" :=\t", at + label.size());
        if (begin == std::string_view::npos) return false;
        // "step 5" must not be read out of "steps 5".
        if (begin == at + label.size() &&
            std::string_view(" =:").find(label.back()) == std::string_view::npos)
            continue;
        std::string digits;
        for (std::size_t i = begin; i < line.size() && digits.size() < 40; ++i) {
            const char c = line[i];
            const bool thousands = c == ',' && i + 1 < line.size() && line[i + 1] >= '0' &&
                                   line[i + 1] <= '9' && !digits.empty();
            if (thousands) continue;
            if ((c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E')
                break;
            digits.push_back(c);
        }
        const char* end = digits.data() + digits.size();
        const auto [stop, fault] = std::from_chars(digits.data(), end, value);
        if (fault == std::errc() && std::isfinite(value)) return true;
    }
    return false;
}

}  // namespace piper
