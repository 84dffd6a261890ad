// SPDX-License-Identifier: Apache-2.0
#include "core/run/pipeline_statistics.h"

#include <algorithm>
#include <map>

#include "core/run/merged_length.h"

namespace piper {
namespace {

/// Sums of one rank by layer and phase.
class LayersOfRank {
public:
    void add(const Event& e) {
        if (isMark(e.category) || e.phase == Phase::Idle) return;
        const Interval span{e.start_ns, e.end_ns()};
        if (isCompute(e)) m_compute.push_back(span);
        if (!e.layer.valid()) return;
        Sum& sum = m_sums[{e.layer, e.phase}];
        sum.spans.push_back(span);
        ++sum.total.count;
        sum.total.sum_ns += e.duration_ns;
        sum.total.flops += e.flops;
        sum.total.bytes += static_cast<double>(e.bytes);
    }

    void sumInto(std::map<std::pair<LayerId, Phase>, LayerTotal>& totals) {
        const auto compute = mergeIntervals(std::move(m_compute));
        for (auto& [key, sum] : m_sums) {
            const auto merged = mergeIntervals(std::move(sum.spans));
            LayerTotal& total = totals[key];
            total.layer = key.first;
            total.phase = key.second;
            total.count += sum.total.count;
            total.sum_ns += sum.total.sum_ns;
            total.flops += sum.total.flops;
            total.bytes += sum.total.bytes;
            total.ranks += 1;
            total.union_ns += mergedLength(merged);
            if (isCommunication(key.second))
                total.exposed_ns += mergedLength(merged) - intersectionLength(merged, compute);
        }
    }

private:
    struct Sum {
        LayerTotal total;
        std::vector<Interval> spans;
    };
    std::map<std::pair<LayerId, Phase>, Sum> m_sums;
    std::vector<Interval> m_compute;
};

std::vector<LayerTotal> layersOf(const Run& run, const std::vector<std::int32_t>& steps) {
    std::map<std::pair<LayerId, Phase>, LayerTotal> totals;
    for (const RankTimeline& rank : run.ranks) {
        LayersOfRank own;
        for (const Event& e : rank.events)
            if (std::binary_search(steps.begin(), steps.end(), e.step)) own.add(e);
        own.sumInto(totals);
    }
    std::vector<LayerTotal> out;
    for (auto& [key, total] : totals) out.push_back(total);
    return out;
}

std::vector<CollectiveTotal> collectivesOf(const Run& run, const CommunicationMatch& match,
                                           const std::vector<std::int32_t>& steps) {
    std::map<Phase, CollectiveTotal> totals;
    for (const Collective& c : match.collectives) {
        if (!std::binary_search(steps.begin(), steps.end(), c.step)) continue;
        CollectiveTotal& total = totals[c.phase];
        total.phase = c.phase;
        total.last.resize(run.ranks.size());
        total.caused_ns.resize(run.ranks.size());
        ++total.count;
        total.skew_sum_ns += c.skew();
        total.skew_max_ns = std::max(total.skew_max_ns, c.skew());
        const std::size_t straggler = c.members[c.last].place.rank;
        if (c.skew() > 0) ++total.last[straggler];
        for (const Collective::Member& m : c.members) {
            const std::int64_t wait =
                std::clamp<std::int64_t>(c.lastStart() - m.start_ns, 0, m.end_ns - m.start_ns);
            ++total.members;
            total.member_ns += m.end_ns - m.start_ns;
            total.wait_ns += wait;
            total.caused_ns[straggler] += wait;
        }
    }
    std::vector<CollectiveTotal> out;
    for (auto& [phase, total] : totals) out.push_back(std::move(total));
    return out;
}

PathTotal pathOf(const Run& run, const std::vector<CriticalPath>& paths) {
    PathTotal out;
    out.rank_ns.resize(run.ranks.size());
    for (const CriticalPath& path : paths) {
        out.ns += path.end_ns - path.begin_ns;
        for (std::size_t i = 0; i < path.segments.size(); ++i) {
            const PathSegment& s = path.segments[i];
            out.phase_ns[static_cast<std::size_t>(s.phase)] += s.end_ns - s.begin_ns;
            out.rank_ns[s.rank] += s.end_ns - s.begin_ns;
            out.changes += i > 0 && s.rank != path.segments[i - 1].rank ? 1 : 0;
        }
    }
    return out;
}

}  // namespace

PipelineStatistics pipelineStatistics(const Run& run, const CommunicationGroups& groups,
                                      int skip_steps) {
    PipelineStatistics out;
    std::vector<RankClock> clocks;
    for (const RankTimeline& rank : run.ranks) {
        clocks.emplace_back(rank);
        out.clocks.push_back(clocks.back().fit());
    }
    const std::vector<StepWindows> windows = stepWindows(run);
    out.steps = countedSteps(windows, skip_steps);
    const CommunicationMatch match = matchCommunication(run, groups, clocks);
    out.messages = std::ssize(match.messages);
    out.unmatched_receives = match.unmatched_receives;
    out.ranks = waitsByCause(run, match, clocks, windows, out.steps);
    out.layers = layersOf(run, out.steps);
    out.collectives = collectivesOf(run, match, out.steps);
    out.path = pathOf(run, criticalPaths(run, match, clocks, windows, out.steps));
    return out;
}

}  // namespace piper
