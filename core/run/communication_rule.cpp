// SPDX-License-Identifier: Apache-2.0
#include "core/run/communication_rule.h"

#include <algorithm>
#include <regex>

#include "core/base/check.h"

namespace piper {
namespace {

/// Names of templates grow to many kilobytes; the matcher's depth grows with the text. So they are
/// matched in pieces that overlap by more than a word.
constexpr std::size_t kMatchedLength = 4096, kOverlap = 1024;

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

struct CommunicationRule::Compiled {
    std::regex expression;
};

Result<CommunicationRule> CommunicationRule::parse(std::string_view expression) {
    CommunicationRule out;
    out.m_expression = std::string(expression);
    try {
        out.m_compiled = std::make_shared<const Compiled>(Compiled{std::regex(
            out.m_expression, std::regex::ECMAScript | std::regex::icase | std::regex::optimize)});
    } catch (const std::regex_error& fault) {
        Error error = fail(ErrorCode::InvalidInput,
                           "the communication rule '{}' is no regular expression: {}", expression,
                           fault.what());
        error.hint = "for example: nccl|deep_ep|my_all_to_all";
        return error;
    }
    return out;
}

CommunicationRule CommunicationRule::standard() {
    Result<CommunicationRule> rule = parse(kDefault);
    PIPER_CHECK(rule.ok());
    return std::move(rule).value();
}

bool CommunicationRule::matches(std::string_view name) const {
    namespace rx = std::regex_constants;
    try {
        for (std::size_t at = 0;; at += kMatchedLength - kOverlap) {
            const std::string_view piece = name.substr(at, kMatchedLength);
            const auto flags =
                (at > 0 ? rx::match_prev_avail : rx::match_default) |
                (at + piece.size() < name.size() ? rx::match_not_eol | rx::match_not_eow
                                                 : rx::match_default);
            if (std::regex_search(piece.begin(), piece.end(), m_compiled->expression, flags))
                return true;
            if (at + piece.size() >= name.size()) return false;
        }
    } catch (const std::regex_error&) {
        return false;  // too complex for this name
    }
}

bool isNcclName(std::string_view name) {
    static constexpr std::string_view kPrefix = "nccl";
    return name.size() >= kPrefix.size() &&
           std::equal(kPrefix.begin(), kPrefix.end(), name.begin(),
                      [](char p, char c) { return p == lower(c); });
}

}  // namespace piper
