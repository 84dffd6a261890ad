// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/alltoall/wire.h"
#include "core/base/json.h"
#include "core/base/result.h"
#include "kernels/transport/transport.h"

namespace piper::app {

/// One way to do what all contestants do.
struct Contestant {
    std::string name;
    std::function<Status()> run;
};

/// Node by node, of one run: payload at the transport.
struct NodeTraffic {
    std::int64_t sent = 0, received = 0, messages = 0;
};

struct ContestResult {
    std::string name;
    std::vector<double> seconds;                   ///< [rounds] of the slowest rank
    NodeTraffic busiest;                           ///< of the node with most bytes in or out, a run
    std::int64_t messages = 0;                     ///< all ranks, a run
    double payload_bytes = 0.0, wire_bytes = 0.0;  ///< sent between nodes, all nodes, a run
    double sent_again = 0.0;                       ///< TCP segments, all nodes, a run
};

/// Runs the contestants in turn, `rounds` times, each round beginning with another one; a round is
/// one pair for every two of them. Collective; every rank gets the same result.
[[nodiscard]] Result<std::vector<ContestResult>> holdContest(Communicator& world,
                                                             std::vector<Contestant> contestants,
                                                             std::int64_t rounds);

/// What is printed of a contest: the first contestant is the baseline; a contestant of the same
/// algorithm as the baseline gives the noise floor. rate: bytes a second of a node's link, 0:
/// unknown.
[[nodiscard]] Json contestJson(const std::vector<ContestResult>& results, double rate);
void printContest(const std::string& title, const Json& contest);

}  // namespace piper::app
