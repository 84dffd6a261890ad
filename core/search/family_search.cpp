// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "core/search/shortfall.h"

namespace piper {
namespace {

/// Sizes that the fixed degrees divide, and sizes that those still open divide too, up to the
/// cluster's: among the latter a larger model never takes less.
struct SizeSteps {
    std::int64_t unit = 1, coarse = 1;
};

/// The largest power of two up to both.
std::int64_t powerOfTwo(std::int64_t a, std::int64_t b) {
    std::int64_t out = 1;
    while (out * 2 <= std::min(a, b)) out *= 2;
    return out;
}

SizeSteps sizeSteps(const SearchSpace& space, GrowBy by) {
    const Plan& base = space.base;
    const auto fixed = [&space](const char* key) {
        return std::ranges::find(space.fixed, key) != space.fixed.end();
    };
    const std::int64_t size = familySize(base.model, by), devices = base.cluster.numDevices();
    const std::int64_t unit = familyStep(base.model, by);
    const auto stepsOf = [&](const char* degree, std::int64_t value, std::int64_t most) {
        if (fixed(degree)) return SizeSteps{std::lcm(unit, value), std::lcm(unit, value)};
        return SizeSteps{unit, std::lcm(unit, powerOfTwo(size, most))};
    };
    if (by == GrowBy::Experts) return stepsOf("ep", base.layout.ep, devices);
    if (by == GrowBy::Hidden) return stepsOf("tp", base.layout.tp, base.cluster.devices_per_node);
    // Uneven stages take any number of layers; every chunk of several a rank takes as many.
    const std::int64_t vpp = base.layout.vpp;
    if (!fixed("vpp") || vpp == 1 || fixed("stage_layers")) return {};
    if (fixed("pp")) return {vpp * base.layout.pp, vpp * base.layout.pp};
    return {2 * vpp, vpp * std::max<std::int64_t>(2, powerOfTwo(size / vpp, devices))};
}

std::int64_t roundedUp(std::int64_t value, std::int64_t step) {
    return (value + step - 1) / step * step;
}

// Concept: bisection over the coarse sizes asks the frugal part of the space; the sizes up to the
// next coarse one are asked one by one. The whole space then confirms what was refused.
class FamilySearch {
public:
    FamilySearch(const SearchSpace& space, GrowBy by, const SearchRun& run)
        : m_space(space), m_steps(sizeSteps(space, by)), m_run(run) {
        m_out.by = by;
        m_least = roundedUp(familyLeast(space.base.model, by), m_steps.unit);
    }

    Result<LargestModel> run() {
        PIPER_TRY(climb());
        const auto whole = [this](std::int64_t size) { return fitsAnyhow(size); };
        // The frugal part may need a little more than the best of the whole space.
        std::int64_t good = m_good, step = m_steps.unit;
        PIPER_ASSIGN(bool more, whole(nextOf(good)));
        if (more) {
            good = nextOf(good);
            while (more) {
                m_good = good;
                good += step;
                step *= 2;
                PIPER_ASSIGN(more, whole(good));
            }
            PIPER_TRY(bisect(good, m_steps.unit, whole));
        }
        return answer();
    }

private:
    [[nodiscard]] std::int64_t nextOf(std::int64_t size) const {
        return size == 0 ? m_least : size + m_steps.unit;
    }
    [[nodiscard]] Result<SearchSpace> spaceOf(std::int64_t size) const {
        SearchSpace space = m_space;
        space.top = 1;
        PIPER_ASSIGN(space.base.model, familyMember(m_space.base.model, m_out.by, size));
        return space;
    }
    Result<bool> fits(std::int64_t size) {
        ++m_out.sizes_tried;
        PIPER_ASSIGN(const SearchSpace space, spaceOf(size));
        if (leastDevices(space.base) > space.base.cluster.numDevices()) return false;
        PIPER_ASSIGN(SearchResult found,
                     searchPlans(frugalSpace(space), m_run.parallel_for, m_run.stop));
        if (found.plans.empty()) return false;
        m_frugal = std::move(found.plans.front());
        return true;
    }
    Result<bool> fitsAnyhow(std::int64_t size) {
        ++m_out.sizes_tried;
        PIPER_ASSIGN(const SearchSpace space, spaceOf(size));
        PIPER_ASSIGN(SearchResult found, searchPlans(space, m_run.parallel_for, m_run.stop));
        if (!found.plans.empty()) {
            m_best = std::move(found.plans.front());
            m_best_size = size;
            return true;
        }
        m_refusal = std::move(found);
        return false;
    }

    /// Narrows between m_good, which fits or is 0, and `bad`.
    template <class Fits>
    Status bisect(std::int64_t bad, std::int64_t step, const Fits& fits_at) {
        while (bad - m_good > step) {
            const std::int64_t middle = m_good + std::max(step, (bad - m_good) / 2 / step * step);
            PIPER_ASSIGN(const bool fits_middle, fits_at(middle));
            (fits_middle ? m_good : bad) = middle;
        }
        return {};
    }

    /// The largest size of which the frugal part says that it fits.
    Status climb() {
        const std::int64_t step = m_steps.coarse;
        std::int64_t high = roundedUp(familySize(m_space.base.model, m_out.by), step);
        PIPER_ASSIGN(bool fits_here, fits(high));
        while (fits_here) {  // memory ends it
            m_good = high;
            high *= 2;
            PIPER_ASSIGN(fits_here, fits(high));
        }
        const std::int64_t least = roundedUp(m_least, step);
        if (m_good == 0 && least < high) {
            PIPER_ASSIGN(const bool smallest, fits(least));
            (smallest ? m_good : high) = least;
        }
        if (m_good > 0) PIPER_TRY(bisect(high, step, [this](std::int64_t n) { return fits(n); }));
        const std::int64_t end = m_good > 0 ? m_good + step : high;
        const std::int64_t floor = std::max(m_good, m_least - m_steps.unit);
        for (std::int64_t size = end - m_steps.unit; size > floor; size -= m_steps.unit) {
            PIPER_ASSIGN(const bool between, fits(size));
            if (between) {
                m_good = size;
                break;
            }
        }
        return {};
    }

    Result<LargestModel> answer() {
        m_out.size = m_good;
        m_out.next_size = nextOf(m_good);
        PIPER_ASSIGN(const SearchSpace larger, spaceOf(m_out.next_size));
        PIPER_ASSIGN(m_out.stopped, shortfallOf(larger, m_refusal, m_run));
        m_out.model = larger.base.model;
        if (m_good == 0) return std::move(m_out);
        PIPER_ASSIGN(const SearchSpace here, spaceOf(m_good));
        m_out.model = here.base.model;
        if (m_best_size != m_good) {
            PIPER_ASSIGN(SearchResult found, searchPlans(here, m_run.parallel_for, m_run.stop));
            m_best = found.plans.empty() ? std::move(m_frugal) : std::move(found.plans.front());
        }
        m_out.best = std::move(m_best);
        return std::move(m_out);
    }

    const SearchSpace& m_space;
    SizeSteps m_steps;
    const SearchRun& m_run;
    std::int64_t m_least = 0, m_good = 0;
    std::optional<RankedPlan> m_best;    ///< of m_best_size
    std::optional<RankedPlan> m_frugal;  ///< of m_good, from the frugal part
    SearchResult m_refusal;              ///< of the smallest size that the whole space refused
    std::int64_t m_best_size = 0;
    LargestModel m_out;
};

}  // namespace

Result<LargestModel> largestModel(const SearchSpace& space, GrowBy by, const SearchRun& run) {
    if (by == GrowBy::Experts && !space.base.model.moe)
        return fail(ErrorCode::InvalidInput, "{} is dense: it has no experts to grow",
                    space.base.model.name);
    return FamilySearch(space, by, run).run();
}

}  // namespace piper
