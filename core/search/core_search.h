// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/predict/plan_estimator.h"
#include "core/search/choices.h"

namespace piper {

/// A plan that fits and breaks no rule.
struct FoundPlan {
    SearchPoint point;
    PlanEstimate estimate;
};

/// What came of the plans that were looked at.
struct SearchTally {
    struct Broken {
        std::string layout, message;
        std::size_t rules = 0;  ///< broken at once: the nearest example breaks the fewest
    };
    struct TooLarge {
        SearchPoint point;
        Bytes total;
        StageId stage;
    };
    std::int64_t evaluated = 0;  ///< estimated, or refused by a rule
    std::int64_t feasible = 0;
    std::map<std::string, Broken> broken;  ///< by rule
    std::optional<TooLarge> too_large;     ///< the one that lacks least memory
    std::optional<TooLarge> beyond;        ///< of those that need `total` at least

    void add(const SearchTally& other);
    static void keepSmaller(std::optional<TooLarge>& known, const SearchPoint& point,
                            const DeviceFloor& needed);
};

/// Of one number of chunks, what no plan falls below (CoreSearch::loopFloors).
struct ChunkFloor {
    std::int64_t chunks = 1, ns = 0;
};

/// What a core promises before it is refined.
struct CoreOutlook {
    std::int64_t floor_ns = 0;            ///< no plan of the core has a shorter step
    std::int64_t expected_ns = 0;         ///< a guess, to look first where good plans are
    std::optional<PlanEstimate> whole;    ///< CoreSearch::wholeSlots
    std::vector<ChunkFloor> loop_floors;  ///< of schedules on the stages of 1f1b
};

/// Looks for the best plans of one core at a time. Bounds decide what is not looked at.
class CoreSearch {
public:
    static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

    /// `moments`: of all searchers of a search; null: this one works out its own.
    CoreSearch(const SearchSpace& space, const SearchChoices& choices,
               const SlotMomentsTable* moments);

    /// nullopt: no plan of the core breaks no rule.
    [[nodiscard]] std::optional<CoreOutlook> outlook(const SearchCore& core);
    /// Of each pipeline the fastest plan that fits, where its bound is not above `limit_ns`.
    void refine(const SearchCore& core, const CoreOutlook& outlook, std::int64_t limit_ns,
                std::vector<FoundPlan>& out);

    [[nodiscard]] const SearchTally& tally() const { return m_tally; }

private:
    using Best = std::optional<FoundPlan>;

    void keepWithinMemory();
    [[nodiscard]] std::vector<int> legalZeroStages(SearchPoint point);
    [[nodiscard]] bool legal(const SearchPoint& point);
    /// nullopt also for pairs that lead to nothing below the limit, unless `slow_too`.
    [[nodiscard]] std::optional<PlanEstimate> estimate(const SearchPoint& point,
                                                       bool slow_too = false);
    [[nodiscard]] bool fits(const PlanEstimate& estimate) const {
        return estimate.device_total <= m_limit;
    }
    [[nodiscard]] bool pairsAreSlower(SearchPoint point);
    [[nodiscard]] Result<PlanEstimate> answer();
    [[nodiscard]] std::optional<PlanEstimate> wholeSlots(const SearchCore& core);
    [[nodiscard]] std::int64_t sharedFloorNs(const PlanEstimate& whole) const;
    [[nodiscard]] std::vector<ChunkFloor> loopFloors(const SearchCore& core) const;
    [[nodiscard]] std::int64_t slotsFloorNs(const SearchPoint& point,
                                            const CoreOutlook& outlook) const;
    void refinePipeline(SearchPoint point, const std::vector<int>& zero_stages,
                        std::int64_t limit_ns, Best& best);
    void dropSlow(SearchPoint point, int zero_stage, std::int64_t limit_ns,
                  std::vector<AllToAllChoice>& exchanges);
    [[nodiscard]] bool needsMore(const SearchPoint& point, Bytes than);
    void dropTooLarge(SearchPoint point, const std::vector<AllToAllChoice>& exchanges,
                      std::vector<int>& zero_stages);
    [[nodiscard]] SavingChoice mostSaved(int zero_stage) const;
    void chooseSaving(SearchPoint point, Best& best);
    [[nodiscard]] bool offer(const SearchPoint& point, const PlanEstimate& estimate, Best& best);
    void fewestRecomputed(SearchPoint point, Best& best);
    void smallest(SearchPoint point, const std::vector<int>& zero_stages, Best& best);
    void refuse(const SearchPoint& point, const std::vector<Violation>& violations);
    void tooLarge(const SearchPoint& point, const PlanEstimate& estimate);

    const SearchSpace& m_space;
    const SearchChoices& m_choices;
    std::vector<Violation> m_base_faults;  ///< of the model and the cluster that all plans share
    PlanEstimator m_estimator;
    Bytes m_limit;
    std::int64_t m_limit_ns = kNoLimit;  ///< of the core at hand
    SearchTally m_tally;
};

}  // namespace piper
