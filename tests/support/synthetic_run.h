// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>
#include <random>

#include "core/run/run.h"

namespace piper::test {

inline Event event(std::int64_t start, std::int64_t duration, Lane lane = Lane::Compute,
                   Phase phase = Phase::Expert) {
    Event e;
    e.start_ns = start;
    e.duration_ns = duration;
    e.lane = lane;
    e.phase = phase;
    return e;
}

/// A rank with `events` random events over `steps` steps, sorted as a workspace file returns them,
/// with awkward values (NaN, negative, huge) among them.
inline RankTimeline syntheticRank(int rank, int events, int steps, unsigned seed) {
    std::mt19937 random(seed + static_cast<unsigned>(rank));
    const auto below = [&](int n) {
        return static_cast<std::int32_t>(random() % static_cast<unsigned>(n));
    };
    RankTimeline out;
    out.rank = RankId(rank);
    out.stage = StageId(rank / 2);
    out.host = "node" + std::to_string(rank / 4);
    out.offset_ns = rank * 1000 - 1500;
    std::int64_t now = 0;
    for (int i = 0; i < events; ++i) {
        Event e;
        now += below(2000);
        e.start_ns = now;
        e.duration_ns = below(50000);
        e.kind = static_cast<OperationKind>(below(12));
        e.phase = static_cast<Phase>(below(13));
        e.pass = static_cast<Pass>(below(3));
        e.pipeline_phase = static_cast<PipelinePhase>(below(3));
        e.lane = static_cast<Lane>(below(7));
        e.step = static_cast<std::int32_t>(static_cast<std::int64_t>(i) * steps / events);
        e.layer = LayerId(below(9) - 1);
        e.micro_batch = MicroBatchId(below(5) - 1);
        e.chunk = ChunkId(below(3) - 1);
        e.model_chunk = ModelChunkId(below(2) - 1);
        e.operation = below(3000) - 1;
        e.bytes = below(1 << 30);
        e.flops = i % 97 == 0 ? 0.1 * below(1000) : 2.0 * below(1 << 30);
        e.cpu_ns = i % 3 == 0 ? -1 : below(100000);
        if (e.lane == Lane::Stream) {
            e.category = static_cast<EventCategory>(below(16));
            e.track = below(3);
            e.sub_lane = static_cast<std::uint16_t>(below(2));
            e.name = below(3) - 1;
            e.correlation = below(1 << 30);
        }
        out.events.push_back(e);
    }
    std::stable_sort(out.events.begin(), out.events.end(), startsBefore);
    for (int i = 0; i < events / 4; ++i)
        out.memory.push_back({i * 137,
                              static_cast<MemoryTerm>(below(static_cast<int>(kNumMemoryTerms))),
                              static_cast<std::int64_t>(below(1 << 30)) * 64});
    for (int i = 0; i < 5; ++i) out.clock.push_back({i * 1000, below(2000) - 1000, below(300) + 1});
    for (int i = 0; i < steps; ++i) {
        out.steps.push_back({i, now * i / steps, now * (i + 1) / steps, 5.0 - 0.01 * i,
                             i == 0 ? std::numeric_limits<double>::max() : 1.5, 4096});
        ExpertLoad load{i, LayerId(i % 4), {}};
        for (int e = 0; e < 16; ++e) load.tokens.push_back(below(512));
        out.expert_load.push_back(load);
    }
    out.names = {"void gemm<float>(int)", "ncclDevKernel_\n'quoted'"};
    out.tracks = {
        {"stream 7", "0", "7", 0, 7}, {"stream 8", "0", "8", 0, 8}, {"thread 1", "9", "1"}};
    out.counters = {{"rss_bytes", std::to_string(below(1 << 30))},
                    {"energy", "unavailable: no permission"}};
    return out;
}

inline Run syntheticRun(int ranks, int events_per_rank, int steps, unsigned seed = 1) {
    Run run;
    run.name = "synthetic";
    run.plan_json = R"({"format_version": 1, "layout": {"pp": 2, "ep": 2}})";
    run.started_at = "2025-01-02T03:04:05Z";
    run.program_version = "0.1.0";
    run.notes["who"] = "a note with 'quotes', \u00fc and a\nnew line";
    for (int r = 0; r < ranks; ++r)
        run.ranks.push_back(syntheticRank(r, events_per_rank, steps, seed));
    return run;
}

inline bool sameRecords(const RankTimeline& a, const RankTimeline& b) {
    return a.events == b.events && a.memory == b.memory && a.clock == b.clock &&
           a.steps == b.steps && a.expert_load == b.expert_load && a.counters == b.counters &&
           a.names == b.names && a.tracks == b.tracks;
}

inline bool sameRun(const Run& a, const Run& b) {
    if (a.name != b.name || a.kind != b.kind || a.outcome != b.outcome ||
        a.outcome_reason != b.outcome_reason || a.plan_json != b.plan_json ||
        a.started_at != b.started_at || a.program_version != b.program_version ||
        a.notes != b.notes || a.ranks.size() != b.ranks.size())
        return false;
    for (std::size_t i = 0; i < a.ranks.size(); ++i)
        if (a.ranks[i].rank != b.ranks[i].rank || a.ranks[i].stage != b.ranks[i].stage ||
            a.ranks[i].host != b.ranks[i].host || a.ranks[i].offset_ns != b.ranks[i].offset_ns ||
            !sameRecords(a.ranks[i], b.ranks[i]))
            return false;
    return true;
}

}  // namespace piper::test
