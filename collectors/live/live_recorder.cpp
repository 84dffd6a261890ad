// SPDX-License-Identifier: Apache-2.0
#include "collectors/live/live_recorder.h"

namespace piper {

std::filesystem::path rankFile(const std::filesystem::path& job_directory, RankId rank) {
    return job_directory / fmt::format("rank-{}.piper", rank.value);
}

LiveRecorder::LiveRecorder(Workspace file, std::size_t buffer_rows)
    : m_file(std::move(file)), m_buffer_rows(buffer_rows) {}

LiveRecorder::~LiveRecorder() {
    if (!m_finished) (void)flush();
}

Result<std::unique_ptr<LiveRecorder>> LiveRecorder::create(LiveOptions options) {
    const std::filesystem::path path = rankFile(options.job_directory, options.rank);
    std::error_code ignored;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"})
        std::filesystem::remove(path.string() + suffix, ignored);
    Result<Workspace> file = Workspace::create(path);
    if (!file.ok())
        return std::move(file).error().withContext(
            fmt::format("making the file of rank {}", options.rank.value));
    auto recorder = std::unique_ptr<LiveRecorder>(
        new LiveRecorder(std::move(file).value(), options.buffer_rows));

    Run header;
    header.name = options.run_name;
    header.kind = RunKind::Measured;
    header.outcome = RunOutcome::Running;
    header.plan_json = std::move(options.plan_json);
    header.started_at = std::move(options.started_at);
    header.program_version = std::move(options.program_version);
    header.notes["world"] = fmt::format("{}", options.world);
    PIPER_ASSIGN(recorder->m_run_id, recorder->m_file.beginRun(header));

    RankTimeline& rank = recorder->m_buffer;
    rank.rank = options.rank;
    rank.stage = options.stage;
    rank.host = std::move(options.host);
    PIPER_ASSIGN(recorder->m_rank_id, recorder->m_file.addRank(recorder->m_run_id, rank));
    return recorder;
}

void LiveRecorder::counted() {
    if (++m_waiting >= m_buffer_rows) (void)flush();
}

std::int32_t LiveRecorder::name(std::string_view text) {
    const std::size_t before = m_names.size();
    const std::int32_t number = m_names.intern(text);
    if (m_names.size() > before) m_buffer.names.emplace_back(text);
    return number;
}

std::int32_t LiveRecorder::track(const Track& track) {
    m_buffer.tracks.push_back(track);
    return m_tracks++;
}

void LiveRecorder::event(const Event& event) {
    m_buffer.events.push_back(event);
    counted();
}

void LiveRecorder::memory(const MemorySample& sample) {
    m_buffer.memory.push_back(sample);
    counted();
}

void LiveRecorder::clock(const ClockSample& sample) {
    m_buffer.clock.push_back(sample);
    counted();
}

void LiveRecorder::step(const StepRecord& record) {
    m_buffer.steps.push_back(record);
    counted();
}

void LiveRecorder::expertLoad(const ExpertLoad& load) {
    m_buffer.expert_load.push_back(load);
    counted();
}

void LiveRecorder::counter(std::string_view name, std::string_view value) {
    m_buffer.counters[std::string(name)] = std::string(value);
    counted();
}

Status LiveRecorder::keep(Status status) {
    if (!status.ok() && m_status.ok()) m_status = status;
    return status;
}

Status LiveRecorder::flush() {
    if (m_waiting == 0) return {};
    if (m_lost_rows > 0) m_buffer.counters["recorder.lost_rows"] = fmt::format("{}", m_lost_rows);
    Status written = m_file.append(m_rank_id, m_buffer);
    if (written.ok()) {
        // Kept after a fault: rows that come later count on their numbers.
        m_buffer.names.clear();
        m_buffer.tracks.clear();
    } else {
        m_lost_rows += static_cast<std::int64_t>(m_waiting);
    }
    m_waiting = 0;
    m_buffer.events.clear();
    m_buffer.memory.clear();
    m_buffer.clock.clear();
    m_buffer.steps.clear();
    m_buffer.expert_load.clear();
    m_buffer.counters.clear();
    return keep(std::move(written));
}

Status LiveRecorder::finish(RunOutcome outcome, std::string_view reason) {
    if (m_finished) return m_status;
    m_finished = true;
    (void)flush();
    (void)keep(m_file.endRun(m_run_id, outcome, reason));
    (void)keep(m_file.close());
    return m_status;
}

}  // namespace piper
