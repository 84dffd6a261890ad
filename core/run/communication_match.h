// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/run/rank_clock.h"
#include "core/run/run.h"

namespace piper {

/// Who communicates with whom: lists of positions in Run::ranks.
struct CommunicationGroups {
    using Groups = std::vector<std::vector<std::size_t>>;
    Groups ep, tp, cp, dp;
    Groups pp;  ///< the ranks of one pipeline
};

/// For a run without a plan: the ranks of a stage are one group of ep, tp, cp and dp; the i-th
/// ranks of the stages are a pipeline.
[[nodiscard]] CommunicationGroups groupsByStage(const Run& run);

/// An event of a rank: positions in Run::ranks and in its events.
struct EventPlace {
    std::size_t rank = 0;
    std::size_t event = 0;
};

/// One collective as its members saw it, times on rank 0's clock.
struct Collective {
    struct Member {
        EventPlace place;
        std::int64_t start_ns = 0;
        std::int64_t end_ns = 0;
    };
    Phase phase = Phase::Dispatch;
    OperationKind kind = OperationKind::Dispatch;
    std::int32_t step = 0;
    LayerId layer;
    std::vector<Member> members;  ///< one a rank of the group that recorded it, by rank
    std::size_t last = 0;         ///< of `members`: who started last

    [[nodiscard]] std::int64_t firstStart() const;
    [[nodiscard]] std::int64_t lastStart() const { return members[last].start_ns; }
    /// First to last arrival.
    [[nodiscard]] std::int64_t skew() const { return lastStart() - firstStart(); }
};

/// A message of the pipeline.
struct Message {
    EventPlace send, receive;
    std::int64_t send_start_ns = 0;  ///< on rank 0's clock
    std::int64_t receive_start_ns = 0, receive_end_ns = 0;
};

/// The communication of a run put together from what each rank recorded of it.
///
/// Ranks of a stage run one program: a collective is known by step, stage, phase and the number of
/// its operation, or its kind, pass, layer, micro-batch and chunks where it has no number. Messages
/// of a micro-batch pass stage after stage, so that its i-th receive of a pass belongs to its i-th
/// send within a pipeline.
struct CommunicationMatch {
    std::vector<Collective> collectives;  ///< of two members and more
    std::vector<Message> messages;
    std::int64_t unmatched_receives = 0;
    /// [rank][event]: in `collectives`, or in `messages` for a receive; -1 for others.
    std::vector<std::vector<std::int32_t>> collective_of, message_of;
};

[[nodiscard]] CommunicationMatch matchCommunication(const Run& run,
                                                    const CommunicationGroups& groups,
                                                    const std::vector<RankClock>& clocks);

}  // namespace piper
