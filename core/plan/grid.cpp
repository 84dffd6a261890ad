// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "core/plan/plan.h"

namespace piper {
namespace {

constexpr std::array<std::string_view, 5> kTokens = {"tp", "cp", "ep", "dp", "pp"};

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    while (true) {
        const std::size_t at = text.find(separator);
        parts.emplace_back(text.substr(0, at));
        if (at == std::string_view::npos) return parts;
        text.remove_prefix(at + 1);
    }
}

std::int64_t& field(RankCoordinates& c, std::string_view dimension) {
    if (dimension == "tp") return c.tp;
    if (dimension == "cp") return c.cp;
    if (dimension == "dp") return c.dp;
    if (dimension == "pp") return c.pp;
    if (dimension == "etp") return c.etp;
    if (dimension == "ep") return c.ep;
    PIPER_CHECK(dimension == "edp");
    return c.edp;
}

/// Dimensions of one grid with their sizes, fastest first.
struct Axis {
    std::string_view dimension;
    std::int64_t size;
};

std::vector<Axis> denseAxes(const Layout& layout, const std::vector<std::string>& order) {
    std::vector<Axis> axes;
    for (const std::string& token : order) {
        if (token == "tp") axes.push_back({"tp", layout.tp});
        if (token == "cp") axes.push_back({"cp", layout.cp});
        if (token == "dp") axes.push_back({"dp", layout.dp});
        if (token == "pp") axes.push_back({"pp", layout.pp});
    }
    return axes;
}

std::vector<Axis> expertAxes(const Layout& layout, const std::vector<std::string>& order) {
    std::vector<Axis> axes;
    for (const std::string& token : order) {
        if (token == "tp") axes.push_back({"etp", layout.etp});
        if (token == "ep") axes.push_back({"ep", layout.ep});
        if (token == "dp") axes.push_back({"edp", layout.edp()});
        if (token == "pp") axes.push_back({"pp", layout.pp});
    }
    return axes;
}

void place(RankCoordinates& c, std::int64_t rank, const std::vector<Axis>& axes) {
    for (const Axis& axis : axes) {
        field(c, axis.dimension) = rank % axis.size;
        rank /= axis.size;
    }
}

bool sameGroup(RankCoordinates a, RankCoordinates b, std::string_view dimension) {
    static constexpr std::array<std::string_view, 4> dense = {"tp", "cp", "dp", "pp"};
    static constexpr std::array<std::string_view, 4> expert = {"etp", "ep", "edp", "pp"};
    const bool in_expert = dimension == "etp" || dimension == "ep" || dimension == "edp";
    for (const std::string_view other : in_expert ? expert : dense)
        if (other != dimension && field(a, other) != field(b, other)) return false;
    return true;
}

}  // namespace

Result<std::vector<std::string>> parseRankOrder(std::string_view rank_order) {
    std::vector<std::string> tokens = split(rank_order, '-');
    for (const std::string& token : tokens) {
        if (std::find(kTokens.begin(), kTokens.end(), token) == kTokens.end())
            return fail(ErrorCode::InvalidInput,
                        "rank order '{}' holds '{}'; nearest known token: '{}'", rank_order, token,
                        nearestWord(token, kTokens));
        if (std::count(tokens.begin(), tokens.end(), token) > 1)
            return fail(ErrorCode::InvalidInput, "rank order '{}' holds '{}' twice", rank_order,
                        token);
    }
    for (const std::string_view token : kTokens)
        if (std::find(tokens.begin(), tokens.end(), token) == tokens.end())
            return fail(ErrorCode::InvalidInput,
                        "rank order '{}' lacks '{}'; each of tp, cp, ep, dp, pp stands in it once",
                        rank_order, token);
    return tokens;
}

ProcessGrid::ProcessGrid(const Layout& layout, std::string_view rank_order) : m_layout(layout) {
    const Result<std::vector<std::string>> order = parseRankOrder(rank_order);
    PIPER_CHECK(order.ok());
    PIPER_CHECK(layout.edp() * layout.pp * layout.ep * layout.etp == layout.world());
    const std::vector<Axis> expert = expertAxes(layout, *order);
    const std::vector<Axis> dense = denseAxes(layout, *order);
    m_coordinates.resize(static_cast<std::size_t>(layout.world()));
    for (std::size_t rank = 0; rank < m_coordinates.size(); ++rank) {
        RankCoordinates& c = m_coordinates[rank];
        place(c, static_cast<std::int64_t>(rank), expert);
        const std::int64_t expert_pp = c.pp;
        place(c, static_cast<std::int64_t>(rank), dense);
        PIPER_CHECK(c.pp == expert_pp);
    }
}

RankCoordinates ProcessGrid::coordinates(RankId rank) const {
    PIPER_CHECK(rank.valid() && rank.index() < m_coordinates.size());
    return m_coordinates[rank.index()];
}

std::vector<RankId> ProcessGrid::group(RankId rank, std::string_view dimension) const {
    const RankCoordinates own = coordinates(rank);
    std::vector<RankId> members;
    for (std::size_t other = 0; other < m_coordinates.size(); ++other)
        if (sameGroup(own, m_coordinates[other], dimension)) members.emplace_back(other);
    return members;
}

}  // namespace piper
