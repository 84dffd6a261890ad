// SPDX-License-Identifier: Apache-2.0
#include "core/run/communication_match.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace piper {
namespace {

/// [rank] -> number of its group; -1 for a rank in none.
std::vector<std::int32_t> groupOf(const CommunicationGroups::Groups& groups, std::size_t ranks) {
    std::vector<std::int32_t> out(ranks, -1);
    for (std::size_t g = 0; g < groups.size(); ++g)
        for (const std::size_t rank : groups[g])
            if (rank < ranks) out[rank] = static_cast<std::int32_t>(g);
    return out;
}

bool isCollective(const Event& e) {
    return isCommunication(e.phase) && e.phase != Phase::PpComm && !isMark(e.category);
}

/// What makes two records one collective.
using CollectiveKey =
    std::tuple<std::int32_t, std::int32_t, Phase, std::int32_t, std::int32_t, OperationKind, Pass,
               std::int32_t, std::int32_t, std::int32_t, std::int32_t>;

CollectiveKey keyOf(const Event& e, std::int32_t stage, std::int32_t group) {
    // Replicas of weights may lie on other stages, in programs of their own.
    if (e.phase == Phase::DpComm)
        return {e.step, group, e.phase, -1, -1, e.kind, e.pass, e.layer.value, -1, -1, -1};
    if (e.operation >= 0)
        return {e.step, group, e.phase, stage, e.operation, e.kind, e.pass, -1, -1, -1, -1};
    return {e.step,
            group,
            e.phase,
            stage,
            -1,
            e.kind,
            e.pass,
            e.layer.value,
            e.micro_batch.value,
            e.chunk.value,
            e.model_chunk.value};
}

class Matcher {
public:
    Matcher(const Run& run, const CommunicationGroups& groups, const std::vector<RankClock>& clocks)
        : m_run(run), m_clocks(clocks) {
        const std::size_t n = run.ranks.size();
        for (const auto& [phase, list] :
             {std::pair{Phase::Dispatch, &groups.ep}, std::pair{Phase::Combine, &groups.ep},
              std::pair{Phase::TpComm, &groups.tp}, std::pair{Phase::CpComm, &groups.cp},
              std::pair{Phase::DpComm, &groups.dp}, std::pair{Phase::PpComm, &groups.pp}})
            m_groups[static_cast<std::size_t>(phase)] = groupOf(*list, n);
        for (const RankTimeline& rank : run.ranks) {
            m_out.collective_of.emplace_back(rank.events.size(), -1);
            m_out.message_of.emplace_back(rank.events.size(), -1);
        }
    }

    CommunicationMatch match() {
        for (std::size_t r = 0; r < m_run.ranks.size(); ++r)
            for (std::size_t i = 0; i < m_run.ranks[r].events.size(); ++i) sort({r, i});
        for (auto& [key, members] : m_collectives) addCollectives(members);
        for (auto& [key, ends] : m_messages) addMessages(ends);
        return std::move(m_out);
    }

private:
    using Member = Collective::Member;
    struct MessageEnds {
        std::vector<Member> sends, receives;
    };
    using MessageKey = std::tuple<std::int32_t, std::int32_t, std::int32_t, Pass>;

    [[nodiscard]] const Event& eventAt(EventPlace p) const {
        return m_run.ranks[p.rank].events[p.event];
    }

    void sort(EventPlace place) {
        const Event& e = eventAt(place);
        if (!isCommunication(e.phase) || isMark(e.category)) return;
        const std::int32_t group = m_groups[static_cast<std::size_t>(e.phase)][place.rank];
        if (group < 0) return;
        const RankClock& clock = m_clocks[place.rank];
        const Member member{place, clock.toCommon(e.start_ns), clock.toCommon(e.end_ns())};
        if (isCollective(e)) {
            const std::int32_t stage = m_run.ranks[place.rank].stage.value;
            m_collectives[keyOf(e, stage, group)].push_back(member);
        } else if (e.kind == OperationKind::Send || e.kind == OperationKind::Receive) {
            MessageEnds& ends = m_messages[{e.step, group, e.micro_batch.value, e.pass}];
            (e.kind == OperationKind::Send ? ends.sends : ends.receives).push_back(member);
        }
    }

    /// The i-th records of a key on each rank are one collective.
    void addCollectives(std::vector<Member>& members) {
        std::map<std::size_t, std::size_t> seen;
        std::vector<Collective> found;
        for (const Member& m : members) {
            const std::size_t which = seen[m.place.rank]++;
            if (found.size() <= which) found.resize(which + 1);
            found[which].members.push_back(m);
        }
        for (Collective& c : found) {
            if (c.members.size() < 2) continue;
            const Event& e = eventAt(c.members.front().place);
            c.phase = e.phase;
            c.kind = e.kind;
            c.step = e.step;
            c.layer = e.layer;
            for (std::size_t i = 0; i < c.members.size(); ++i) {
                if (c.members[i].start_ns > c.members[c.last].start_ns) c.last = i;
                const EventPlace place = c.members[i].place;
                m_out.collective_of[place.rank][place.event] =
                    static_cast<std::int32_t>(m_out.collectives.size());
            }
            m_out.collectives.push_back(std::move(c));
        }
    }

    void addMessages(MessageEnds& ends) {
        std::stable_sort(ends.sends.begin(), ends.sends.end(),
                         [](const Member& a, const Member& b) { return a.start_ns < b.start_ns; });
        std::stable_sort(ends.receives.begin(), ends.receives.end(),
                         [](const Member& a, const Member& b) { return a.end_ns < b.end_ns; });
        if (ends.sends.size() != ends.receives.size()) {
            m_out.unmatched_receives += std::ssize(ends.receives);
            return;
        }
        for (std::size_t i = 0; i < ends.receives.size(); ++i) {
            const Member& receive = ends.receives[i];
            if (receive.place.rank == ends.sends[i].place.rank) {
                ++m_out.unmatched_receives;
                continue;
            }
            m_out.message_of[receive.place.rank][receive.place.event] =
                static_cast<std::int32_t>(m_out.messages.size());
            m_out.messages.push_back({ends.sends[i].place, receive.place, ends.sends[i].start_ns,
                                      receive.start_ns, receive.end_ns});
        }
    }

    const Run& m_run;
    const std::vector<RankClock>& m_clocks;
    std::array<std::vector<std::int32_t>, kNumPhases> m_groups;
    std::map<CollectiveKey, std::vector<Member>> m_collectives;
    std::map<MessageKey, MessageEnds> m_messages;
    CommunicationMatch m_out;
};

}  // namespace

std::int64_t Collective::firstStart() const {
    std::int64_t first = members.front().start_ns;
    for (const Member& m : members) first = std::min(first, m.start_ns);
    return first;
}

CommunicationGroups groupsByStage(const Run& run) {
    std::map<std::int32_t, std::vector<std::size_t>> stages;
    for (std::size_t r = 0; r < run.ranks.size(); ++r)
        stages[run.ranks[r].stage.value].push_back(r);
    CommunicationGroups out;
    for (const auto& [stage, ranks] : stages) {
        for (CommunicationGroups::Groups* groups : {&out.ep, &out.tp, &out.cp, &out.dp})
            groups->push_back(ranks);
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            if (out.pp.size() <= i) out.pp.emplace_back();
            out.pp[i].push_back(ranks[i]);
        }
    }
    return out;
}

CommunicationMatch matchCommunication(const Run& run, const CommunicationGroups& groups,
                                      const std::vector<RankClock>& clocks) {
    return Matcher(run, groups, clocks).match();
}

}  // namespace piper
