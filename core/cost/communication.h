// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/evidence.h"
#include "core/cost/published_calls.h"
#include "core/plan/placement.h"
#include "core/resources/work.h"

namespace piper {

/// A time with where it comes from.
struct Cost {
    Seconds time;
    Evidence evidence;  ///< low and high in seconds
};

/// Seconds of collectives on the plan's cluster, by the first of these that there is:
/// 1. curves measured on this very cluster (cluster.curves);
/// 2. the published curves of the device's family over the model of link_model.h;
/// 3. that model alone, where no published curve is of such a group;
/// 4. alpha-beta with the numbers that the cluster states for its links.
/// Evidence says which, and what lies outside of what was measured.
class CommunicationModel {
public:
    explicit CommunicationModel(const Plan& plan);
    /// Layout, rank order or exchange of the plan are others now.
    void layoutChanged();

    [[nodiscard]] Cost cost(const CommunicationWork& work) const;
    [[nodiscard]] GroupSpread spreadOf(std::string_view dimension) const;

private:
    struct SizeRatio {
        double log_size = 0.0;
        double ratio = 1.0;
    };
    /// One measured curve of a collective over message size.
    struct MeasuredCurve {
        CollectiveKind kind = CollectiveKind::AllToAll;
        std::int64_t ranks = 1, ranks_per_node = 1;
        std::vector<SizeRatio> points;  ///< by size; ratio: seconds over the alpha-beta model's
    };
    static constexpr std::size_t kCollectives = 5;
    /// A dimension's groups with their nearest curves, so that a look-up allocates nothing.
    struct Dimension {
        std::string_view name;
        GroupAxes axes;
        GroupSpread spread;
        CallPlace place;
        std::array<const MeasuredCurve*, kCollectives> measured{};
        std::array<PublishedCurves::Match, kCollectives> published{};
        PublishedCurves::Match combine;  ///< expert-parallel libraries' way back
        double sent_share = 1.0;         ///< of a flat exchange's rows between nodes
    };

    [[nodiscard]] Dimension dimension(std::string_view name, const GroupAxes& axes) const;
    [[nodiscard]] CallPlace placeOf(const GroupSpread& spread, std::int64_t active) const;
    [[nodiscard]] CallKind callKind(CollectiveKind kind, bool combine,
                                    const CallPlace& place) const;
    [[nodiscard]] PublishedCurves::Match publishedMatch(CallKind kind,
                                                        const CallPlace& place) const;
    [[nodiscard]] Cost alphaBeta(CollectiveKind kind, const GroupSpread& spread,
                                 double payload) const;
    [[nodiscard]] Cost measuredCost(CollectiveKind kind, const Dimension& at, double payload) const;
    [[nodiscard]] double sentShare(const GroupSpread& spread) const;
    [[nodiscard]] Cost publishedCost(const CommunicationWork& work, const Dimension& at,
                                     double payload) const;
    [[nodiscard]] const MeasuredCurve* nearestCurve(CollectiveKind kind,
                                                    const GroupSpread& spread) const;
    void indexMeasured();

    const Plan& m_plan;
    LinkFamily m_family = LinkFamily::Unknown;
    std::vector<MeasuredCurve> m_measured;
    std::optional<AllToAllAlgorithm> m_indexed;  ///< whose curves m_measured has
    std::vector<Dimension> m_dimensions;         ///< of m_exchange
    std::optional<AllToAllChoice> m_exchange;
};

}  // namespace piper
