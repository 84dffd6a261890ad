// SPDX-License-Identifier: Apache-2.0
#include "collectors/import/align.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/run/time_range.h"

namespace piper {
namespace {

/// The step of the trace that a moment lies in; -1 outside.
std::int32_t stepAt(const std::vector<StepRecord>& steps, std::int64_t time) {
    for (const StepRecord& s : steps)
        if (time >= s.start_ns && time < s.end_ns) return s.step;
    return -1;
}

Result<std::vector<CollectiveRecord>> collectivesOf(Workspace& workspace, const Run& run,
                                                    const RankTimeline& rank,
                                                    const CommunicationRule& rule) {
    std::vector<bool> communicates;
    for (const std::string& name : rank.names) communicates.push_back(rule.matches(name));
    std::vector<CollectiveRecord> out;
    PIPER_TRY(workspace.visitEvents(run.name, rank.rank, [&](std::span<const Event> events) {
        for (const Event& e : events) {
            const auto name = static_cast<std::size_t>(e.name);
            if (e.category != EventCategory::Kernel || e.name < 0 || name >= communicates.size() ||
                !communicates[name] || e.duration_ns < 0 || !inTimeRange(e.start_ns) ||
                !inTimeRange(e.duration_ns))
                continue;
            out.push_back({fmt::format("{} {}", stepAt(rank.steps, e.start_ns), rank.names[name]),
                           e.start_ns, e.end_ns()});
        }
    }));
    return out;
}

RankAlignment resultOf(const Run& run, std::size_t r, const AlignedRank& found) {
    RankAlignment out;
    out.rank = run.ranks[r].rank;
    out.reference = run.ranks[found.reference].rank;
    out.offset_before_ns = out.offset_ns = run.ranks[r].offset_ns;
    out.found = found;
    if (!found.aligned || found.samples.empty()) return out;
    const std::int64_t middle =
        std::midpoint(found.samples.front().time_ns, found.samples.back().time_ns);
    out.offset_ns = std::llround(found.fit.offsetAt(middle));
    return out;
}

}  // namespace

Result<std::vector<RankAlignment>> alignRun(Workspace& workspace, std::string_view run_name,
                                            const CommunicationRule& rule) {
    PIPER_ASSIGN(const Run run, workspace.readWithoutEvents(run_name));
    if (run.ranks.size() < 2)
        return fail(ErrorCode::InvalidInput,
                    "run '{}' has {} rank: there is no other clock to align it with", run_name,
                    run.ranks.size());
    std::vector<std::vector<CollectiveRecord>> records;
    for (const RankTimeline& rank : run.ranks) {
        PIPER_ASSIGN(auto found, collectivesOf(workspace, run, rank, rule));
        records.push_back(std::move(found));
    }
    const std::vector<AlignedRank> aligned = alignClocks(records, run.ranks.front().offset_ns);
    std::vector<RankAlignment> out;
    for (std::size_t r = 0; r < run.ranks.size(); ++r) {
        out.push_back(resultOf(run, r, aligned[r]));
        if (r == 0 || !aligned[r].aligned) continue;
        PIPER_TRY(workspace.setClock(run_name, out[r].rank, out[r].offset_ns, aligned[r].samples));
    }
    return out;
}

}  // namespace piper
