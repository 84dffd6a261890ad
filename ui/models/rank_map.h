// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <array>
#include <string_view>
#include <vector>

#include "core/plan/plan.h"

namespace piper::ui {

/// Ranks that are drawn as one small table, row by row.
struct RankBlock {
    QString title;  ///< "node 3", "stage 0"
    int columns = 1;
    std::vector<RankId> ranks;
};

struct RankPicture {
    QString title;
    QString axes;  ///< what goes down and across inside a block
    std::vector<RankBlock> blocks;
};

/// Where each rank of a plan is: on which node, and where in the dense and in the expert grid.
class RankMap {
public:
    static constexpr std::array<std::string_view, 7> kDimensions = {"tp",  "cp",  "dp", "ep",
                                                                    "etp", "edp", "pp"};

    /// A plan without a broken rule.
    explicit RankMap(const Plan& plan);

    [[nodiscard]] std::int64_t world() const { return m_grid.world(); }
    /// Nodes, dense grid, expert grid.
    [[nodiscard]] const std::array<RankPicture, 3>& pictures() const { return m_pictures; }
    [[nodiscard]] std::int64_t stage(RankId rank) const { return m_grid.coordinates(rank).pp; }
    [[nodiscard]] std::int64_t numStages() const { return m_layout.pp; }
    /// The ranks of its group in one of kDimensions, itself among them.
    [[nodiscard]] std::vector<RankId> group(RankId rank, std::string_view dimension) const {
        return m_grid.group(rank, dimension);
    }
    /// "rank 9: node 1, device 1; tp 0 of 1, …; its ep group: 8 ranks on 1 node".
    [[nodiscard]] QString describe(RankId rank, std::string_view dimension) const;
    /// The pictures with their ranks as text.
    [[nodiscard]] QString dump() const;

private:
    [[nodiscard]] RankPicture nodes() const;
    [[nodiscard]] RankPicture grid(bool expert) const;

    Layout m_layout;
    std::int64_t m_devices_per_node = 1;
    ProcessGrid m_grid;
    std::array<RankPicture, 3> m_pictures;
};

}  // namespace piper::ui
