// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/result.h"
#include "core/run/name_table.h"
#include "core/run/run.h"

namespace piper {

/// Where a rank's records go while it runs. The worker calls it from one thread; implementations
/// (collectors/live) buffer and write. A call never blocks on a disk longer than one buffer swap
/// and never throws; a full disk or a lost file is reported by status() and by finish().
class Recorder {
public:
    virtual ~Recorder() = default;

    /// The number of a name, for Event::name; the same text gets the same number.
    virtual std::int32_t name(std::string_view text) = 0;
    /// The number of a new track, for Event::track.
    virtual std::int32_t track(const Track& track) = 0;
    virtual void event(const Event& event) = 0;
    virtual void memory(const MemorySample& sample) = 0;
    virtual void clock(const ClockSample& sample) = 0;
    virtual void step(const StepRecord& record) = 0;
    virtual void expertLoad(const ExpertLoad& load) = 0;
    /// A named value of the run: "rss_bytes", "network.eth0.sent_bytes", "unavailable: reason".
    virtual void counter(std::string_view name, std::string_view value) = 0;
    /// Makes everything recorded so far durable (called between steps).
    virtual Status flush() = 0;
    /// The first fault since the start, ok without one.
    [[nodiscard]] virtual Status status() const = 0;
    virtual Status finish(RunOutcome outcome, std::string_view reason) = 0;
};

/// Keeps everything in memory: for tests, micro-benchmarks and predicted runs.
class MemoryRecorder final : public Recorder {
public:
    std::int32_t name(std::string_view text) override {
        const std::int32_t number = m_names.intern(text);
        if (m_names.size() > m_timeline.names.size()) m_timeline.names.emplace_back(text);
        return number;
    }
    std::int32_t track(const Track& track) override {
        m_timeline.tracks.push_back(track);
        return static_cast<std::int32_t>(m_timeline.tracks.size()) - 1;
    }
    void event(const Event& event) override { m_timeline.events.push_back(event); }
    void memory(const MemorySample& sample) override { m_timeline.memory.push_back(sample); }
    void clock(const ClockSample& sample) override { m_timeline.clock.push_back(sample); }
    void step(const StepRecord& record) override { m_timeline.steps.push_back(record); }
    void expertLoad(const ExpertLoad& load) override { m_timeline.expert_load.push_back(load); }
    void counter(std::string_view name, std::string_view value) override {
        m_timeline.counters[std::string(name)] = std::string(value);
    }
    Status flush() override { return {}; }
    [[nodiscard]] Status status() const override { return {}; }
    Status finish(RunOutcome, std::string_view) override { return {}; }
    [[nodiscard]] const RankTimeline& timeline() const { return m_timeline; }
    [[nodiscard]] RankTimeline& timeline() { return m_timeline; }

private:
    NameTable m_names;
    RankTimeline m_timeline;
};

}  // namespace piper
