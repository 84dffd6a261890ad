// SPDX-License-Identifier: Apache-2.0
#include "core/run/critical_path.h"

#include <algorithm>
#include <limits>

namespace piper {
namespace {

/// An event on rank 0's clock.
struct Placed {
    std::int64_t begin = 0, end = 0;
    std::size_t event = 0;
};

bool endsBefore(const Placed& a, const Placed& b) {
    return a.end != b.end ? a.end < b.end : a.begin < b.begin;
}

/// What one rank did in one step, each list by end.
struct RankStep {
    std::vector<Placed> compute, communication;
};

/// The last of `list` that ends at or before `time` and begins before it; null without one.
const Placed* lastEnding(const std::vector<Placed>& list, std::int64_t time) {
    auto at = std::partition_point(list.begin(), list.end(),
                                   [&](const Placed& p) { return p.end <= time; });
    while (at != list.begin()) {
        --at;
        if (at->begin < time) return &*at;
    }
    return nullptr;
}

class PathFinder {
public:
    PathFinder(const Run& run, const CommunicationMatch& match, std::vector<RankStep> ranks,
               CriticalPath& out)
        : m_run(run), m_match(match), m_ranks(std::move(ranks)), m_out(out) {}

    void find(std::size_t last_rank) {
        m_rank = last_rank;
        m_now = m_out.end_ns;
        // Each round goes back in time or along a communication of the same moment.
        std::size_t standing = 0;
        while (m_now > m_out.begin_ns && standing <= m_ranks.size()) {
            const std::int64_t before = m_now;
            goBack();
            standing = m_now < before ? 0 : standing + 1;
        }
        push(m_out.begin_ns, -1, Phase::Idle);
        std::reverse(m_out.segments.begin(), m_out.segments.end());
    }

private:
    /// The path from `begin` to now lies on this rank; it goes on before.
    void push(std::int64_t begin, std::int64_t event, Phase phase) {
        begin = std::max(begin, m_out.begin_ns);
        if (begin >= m_now) return;
        m_out.segments.push_back({m_rank, begin, m_now, event, phase});
        m_now = begin;
    }

    void goBack() {
        const Placed* compute = lastEnding(m_ranks[m_rank].compute, m_now);
        if (compute != nullptr && compute->end == m_now) {
            pushEvent(compute->begin, *compute);
            return;
        }
        const std::int64_t busy_until =
            compute == nullptr ? std::numeric_limits<std::int64_t>::min() : compute->end;
        const Placed* released = lastEnding(m_ranks[m_rank].communication, m_now);
        if (released == nullptr || released->end <= busy_until) {
            push(busy_until, -1, Phase::Idle);
            return;
        }
        push(released->end, -1, Phase::Idle);
        const Arrival last = lastArrival(*released);
        if (last.rank != m_rank && last.time > busy_until) {
            pushEvent(last.time, *released);
            m_rank = last.rank;
            return;
        }
        pushEvent(std::max(busy_until, released->begin), *released);
    }

    void pushEvent(std::int64_t begin, const Placed& placed) {
        push(begin, static_cast<std::int64_t>(placed.event),
             m_run.ranks[m_rank].events[placed.event].phase);
    }

    struct Arrival {
        std::size_t rank;
        std::int64_t time;
    };
    /// Who came last to a communication of this rank, and when.
    [[nodiscard]] Arrival lastArrival(const Placed& placed) const {
        Arrival out{m_rank, placed.begin};
        const std::int32_t collective = m_match.collective_of[m_rank][placed.event];
        const std::int32_t message = m_match.message_of[m_rank][placed.event];
        if (collective >= 0) {
            const Collective& c = m_match.collectives[static_cast<std::size_t>(collective)];
            out = {c.members[c.last].place.rank, c.lastStart()};
        } else if (message >= 0) {
            const Message& m = m_match.messages[static_cast<std::size_t>(message)];
            out = {m.send.rank, m.send_start_ns};
        }
        out.time = std::min(out.time, placed.end);
        return out;
    }

    const Run& m_run;
    const CommunicationMatch& m_match;
    std::vector<RankStep> m_ranks;
    CriticalPath& m_out;
    std::size_t m_rank = 0;
    std::int64_t m_now = 0;
};

std::int64_t lastEnd(const RankStep& rank) {
    std::int64_t last = std::numeric_limits<std::int64_t>::min();
    for (const std::vector<Placed>* list : {&rank.compute, &rank.communication})
        if (!list->empty()) last = std::max(last, list->back().end);
    return last;
}

using StepsOfRanks = std::map<std::int32_t, std::vector<RankStep>>;

StepsOfRanks sortByStep(const Run& run, const std::vector<RankClock>& clocks,
                        const std::vector<std::int32_t>& steps) {
    StepsOfRanks out;
    for (const std::int32_t step : steps) out[step].resize(run.ranks.size());
    for (std::size_t r = 0; r < run.ranks.size(); ++r)
        for (std::size_t i = 0; i < run.ranks[r].events.size(); ++i) {
            const Event& e = run.ranks[r].events[i];
            const auto step = out.find(e.step);
            if (step == out.end() || isMark(e.category) || e.phase == Phase::Idle) continue;
            const Placed placed{clocks[r].toCommon(e.start_ns), clocks[r].toCommon(e.end_ns()), i};
            RankStep& rank = step->second[r];
            if (isCompute(e)) rank.compute.push_back(placed);
            if (isCommunication(e.phase)) rank.communication.push_back(placed);
        }
    for (auto& [step, ranks] : out)
        for (RankStep& rank : ranks)
            for (std::vector<Placed>* list : {&rank.compute, &rank.communication})
                std::sort(list->begin(), list->end(), endsBefore);
    return out;
}

}  // namespace

std::vector<CriticalPath> criticalPaths(const Run& run, const CommunicationMatch& match,
                                        const std::vector<RankClock>& clocks,
                                        const std::vector<StepWindows>& windows,
                                        const std::vector<std::int32_t>& steps) {
    std::vector<CriticalPath> out;
    for (auto& [step, ranks] : sortByStep(run, clocks, steps)) {
        CriticalPath path;
        path.step = step;
        path.begin_ns = std::numeric_limits<std::int64_t>::max();
        path.end_ns = std::numeric_limits<std::int64_t>::min();
        std::size_t last = 0;
        std::pair<std::int64_t, std::int64_t> latest{path.end_ns, path.end_ns};
        for (std::size_t r = 0; r < run.ranks.size(); ++r) {
            const auto window = windows[r].find(step);
            if (window == windows[r].end() || run.ranks[r].events.empty()) continue;
            path.begin_ns = std::min(path.begin_ns, clocks[r].toCommon(window->second.begin));
            const std::int64_t end = clocks[r].toCommon(window->second.end);
            path.end_ns = std::max(path.end_ns, end);
            // Of ranks whose steps end at once, the one that worked last.
            const std::pair ends{end, lastEnd(ranks[r])};
            if (ends > latest) last = r;
            latest = std::max(latest, ends);
        }
        if (path.end_ns <= path.begin_ns) continue;
        PathFinder(run, match, ranks, path).find(last);
        out.push_back(std::move(path));
    }
    return out;
}

}  // namespace piper
