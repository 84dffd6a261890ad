// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/rank_map.h"

#include <QStringList>
#include <algorithm>
#include <set>

#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

constexpr std::int64_t kMostInARow = 8;  ///< devices of a node

RankId rankAt(std::int64_t rank) {
    return RankId(static_cast<std::int32_t>(rank));
}

}  // namespace

RankMap::RankMap(const Plan& plan)
    : m_layout(plan.layout),
      m_devices_per_node(std::max<std::int64_t>(1, plan.cluster.devices_per_node)),
      m_grid(plan.layout, plan.rank_order),
      m_pictures{nodes(), grid(false), grid(true)} {}

RankPicture RankMap::nodes() const {
    RankPicture out{QStringLiteral("Nodes"), QStringLiteral("devices of a node"), {}};
    for (std::int64_t first = 0; first < world(); first += m_devices_per_node) {
        RankBlock block{QStringLiteral("node %1").arg(first / m_devices_per_node),
                        static_cast<int>(std::min(m_devices_per_node, kMostInARow)),
                        {}};
        const std::int64_t end = std::min(world(), first + m_devices_per_node);
        for (std::int64_t rank = first; rank < end; ++rank) block.ranks.push_back(rankAt(rank));
        out.blocks.push_back(std::move(block));
    }
    return out;
}

/// A block a stage: dp down, tp and cp across; of experts edp down, etp and ep across.
RankPicture RankMap::grid(bool expert) const {
    const Layout& l = m_layout;
    RankPicture out;
    out.title = expert ? QStringLiteral("Expert grid: etp %1 × ep %2 × edp %3 × pp %4")
                             .arg(l.etp)
                             .arg(l.ep)
                             .arg(l.edp())
                             .arg(l.pp)
                       : QStringLiteral("Dense grid: tp %1 × cp %2 × dp %3 × pp %4")
                             .arg(l.tp)
                             .arg(l.cp)
                             .arg(l.dp)
                             .arg(l.pp);
    out.axes = expert ? QStringLiteral("edp down, ep and etp across")
                      : QStringLiteral("dp down, cp and tp across");
    const std::int64_t columns = expert ? l.ep * l.etp : l.cp * l.tp;
    const std::int64_t rows = expert ? l.edp() : l.dp;
    out.blocks.resize(static_cast<std::size_t>(l.pp));
    for (std::int64_t stage = 0; stage < l.pp; ++stage) {
        RankBlock& block = out.blocks[static_cast<std::size_t>(stage)];
        block.title = QStringLiteral("stage %1").arg(stage);
        block.columns = static_cast<int>(columns);
        block.ranks.resize(static_cast<std::size_t>(columns * rows));
    }
    for (std::int64_t rank = 0; rank < world(); ++rank) {
        const RankCoordinates c = m_grid.coordinates(rankAt(rank));
        const std::int64_t row = expert ? c.edp : c.dp;
        const std::int64_t column = expert ? c.ep * l.etp + c.etp : c.cp * l.tp + c.tp;
        out.blocks[static_cast<std::size_t>(c.pp)]
            .ranks[static_cast<std::size_t>(row * columns + column)] = rankAt(rank);
    }
    return out;
}

QString RankMap::describe(RankId rank, std::string_view dimension) const {
    const RankCoordinates c = m_grid.coordinates(rank);
    const Layout& l = m_layout;
    const auto place = [](const char* name, std::int64_t at, std::int64_t of) {
        return QStringLiteral("%1 %2 of %3").arg(QString::fromLatin1(name)).arg(at).arg(of);
    };
    const QStringList dense = {place("tp", c.tp, l.tp), place("cp", c.cp, l.cp),
                               place("dp", c.dp, l.dp), place("pp", c.pp, l.pp)};
    const QStringList expert = {place("etp", c.etp, l.etp), place("ep", c.ep, l.ep),
                                place("edp", c.edp, l.edp())};
    std::set<std::int64_t> nodes;
    const std::vector<RankId> members = group(rank, dimension);
    for (const RankId member : members) nodes.insert(member.value / m_devices_per_node);
    return QStringLiteral("Rank %1: node %2, device %3 · %4 · %5 · its %6 group: %7 ranks on %8 %9")
        .arg(rank.value)
        .arg(rank.value / m_devices_per_node)
        .arg(rank.value % m_devices_per_node)
        .arg(dense.join(QStringLiteral(", ")), expert.join(QStringLiteral(", ")), text(dimension))
        .arg(members.size())
        .arg(nodes.size())
        .arg(nodes.size() == 1 ? QStringLiteral("node") : QStringLiteral("nodes"));
}

QString RankMap::dump() const {
    QString out;
    for (const RankPicture& picture : m_pictures) {
        out += picture.title + QStringLiteral(" (") + picture.axes + QStringLiteral(")\n");
        for (const RankBlock& block : picture.blocks) {
            out += QStringLiteral("  ") + block.title + u':';
            for (std::size_t i = 0; i < block.ranks.size(); ++i) {
                const bool new_row = i > 0 && i % static_cast<std::size_t>(block.columns) == 0;
                out += (new_row ? QStringLiteral(" / ") : QStringLiteral(" ")) +
                       QString::number(block.ranks[i].value);
            }
            out += u'\n';
        }
    }
    return out;
}

}  // namespace piper::ui
