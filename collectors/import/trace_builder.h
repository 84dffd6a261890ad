// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "collectors/import/import_report.h"
#include "core/run/name_table.h"
#include "core/run/run.h"

namespace piper {

/// Gathers the records of one rank of a foreign trace and brings them into our form: names and
/// tracks numbered, overlapping records of a track on rows of their own, begin and end records
/// joined, steps found, times from the first record on.
class TraceBuilder {
public:
    /// The number of the track of these, a new one for a new combination.
    std::int32_t track(std::string_view process, std::string_view thread, std::int32_t device = -1,
                       std::int64_t stream = -1);
    std::int32_t name(std::string_view text) { return m_names.intern(text); }
    /// Makes room for about so many records.
    void reserve(std::size_t records);
    /// Adds a record with its time as the trace gives it.
    void add(const Event& event) { m_events.push_back(event); }
    /// Opens a range of a thread; close() ends the innermost open one and stores it on the track
    /// it names. False when there is none.
    void open(std::string_view process, std::string_view thread, const Event& event);
    bool close(std::string_view process, std::string_view thread, std::int64_t end_ns);
    /// Names as metadata records give them; the thread "" is the process itself.
    void nameProcess(std::string_view process, std::string_view name);
    void nameThread(std::string_view process, std::string_view thread, std::string_view name);

    [[nodiscard]] ImportCounters& counters() { return m_counters; }

    /// The rank, its events ordered by track, row and start. Times count from `origin_ns`, the
    /// start of its first record with a length, which is also its counter "first_timestamp_ns".
    struct Built {
        RankTimeline rank;
        std::int64_t origin_ns = 0;
        ImportCounters counters;
    };
    [[nodiscard]] Built finish();

private:
    std::vector<Event>& openOf(std::string_view process, std::string_view thread);
    void closeLeftOvers();
    void fromOrigin(std::int64_t origin_ns);
    void countFlows();
    [[nodiscard]] std::int64_t originOf() const;
    void sortByTrack();
    void assignRows();
    void nameTracks();
    void findSteps(RankTimeline& rank) const;

    NameTable m_names;
    NameTable m_track_keys, m_open_keys;
    std::vector<Track> m_tracks;
    std::vector<Event> m_events;
    std::vector<std::vector<Event>> m_open;  ///< [open key]: by thread, innermost last
    std::map<std::string, std::string, std::less<>> m_process_names, m_thread_names;
    std::string m_key;
    ImportCounters m_counters;
};

}  // namespace piper
