// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/alltoall/contest.h"
#include "core/base/json_fwd.h"
#include "core/base/result.h"
#include "kernels/alltoall/wire_format.h"
#include "kernels/transport/transport.h"

namespace piper::app {

struct BenchOptions {
    std::int64_t pairs = 9;
    double rate_mbit = 0.0;    ///< of a node's link, for the bound
    double message_us = 20.0;  ///< explain: a rank's time for one message
    std::vector<std::string> algorithms;
    // moe
    std::int64_t tokens = 192, hidden = 1024, topk = 8, experts = 64, node_limit = 0;
    double zipf = 0.0;
    std::string wire = "fp32";
    std::vector<std::int64_t> racks;
    std::string cluster;  ///< explain, tune: a cluster file with links and a measured table
    // tune: the settings are all combinations, with the other values of moe
    std::vector<std::int64_t> hiddens = {64, 512, 4096}, topks = {2, 8}, node_limits = {0};
    std::vector<double> zipfs = {0.0};
    // pairs
    std::vector<std::int64_t> sizes = {64, 256, 1024, 4096, 16384, 65536};

    [[nodiscard]] double rate() const { return rate_mbit * 1e6 / 8.0; }
};

/// Dispatch and combine of (token, expert) rows: results are checked, then timed. Collective; the
/// document is the same on every rank.
[[nodiscard]] Result<Json> benchMoe(Communicator& world, const BenchOptions& options);
/// Dispatch and combine by these algorithms, the first twice, with the load that the tokens make.
struct MoeContest {
    std::vector<ContestResult> results;
    double imbalance = 1.0;  ///< rows of the hottest rank over the mean
};
[[nodiscard]] Result<MoeContest> holdMoeContest(Communicator& world, const BenchOptions& options,
                                                std::vector<std::string> algorithms);
/// Times what a plan can name under each setting and puts the points into the cluster file's
/// measured table, in place of those of the same settings. Collective; rank 0 reads and writes.
/// Errors: NotFound or InvalidInput for the file, before anything is timed.
[[nodiscard]] Result<Json> tuneMoe(Communicator& world, const BenchOptions& options);

/// What every algorithm would take for the same tokens by its closed form, and why the fastest one
/// is; with a cluster file also what a plan's auto takes there. Nothing is timed.
[[nodiscard]] Result<Json> explainMoe(Communicator& world, const BenchOptions& options);
/// Plain exchange of the same number of bytes between all pairs of ranks.
[[nodiscard]] Result<Json> benchPairs(Communicator& world, const BenchOptions& options);

}  // namespace piper::app
