// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/plan/plan.h"
#include "core/resources/exchange.h"

namespace piper {

/// What bounds an exchange.
struct ExchangeLinks {
    BytesPerSecond node = BytesPerSecond(12.5e6);  ///< of a node's link, each direction
    BytesPerSecond local = BytesPerSecond(5e9);    ///< of one rank to its node mates
    BytesPerSecond copy = BytesPerSecond(5e9);     ///< of one rank in its own memory
    Seconds message = Seconds(20e-6);              ///< a rank's time for one message
    Seconds latency = Seconds(20e-6);              ///< of a message between nodes on its way
};
/// Of a group with so many ranks on each node: its share of the node's link.
[[nodiscard]] ExchangeLinks exchangeLinks(const ClusterSpec& cluster, double ranks_per_node);

/// Of one or more exchanges, one after the other. Source: docs/alltoall.md, "Cost".
struct ExchangeCost {
    double node_bytes = 0.0;       ///< over the busiest node's link, in its busier direction
    double rank_messages = 0.0;    ///< of the rank that sends most
    double inside_messages = 0.0;  ///< of these, to node mates
    double local_bytes = 0.0;      ///< of the rank that moves most inside its node
    double copied_bytes = 0.0;     ///< of the rank that packs and unpacks most
    double exchanges = 1.0;
    std::int64_t hops = 1;  ///< of a row that goes furthest
    Seconds link, messages, local, copies;
    Seconds stages;  ///< of what goes over links, copies apart

    /// Fills the times.
    void price(const ExchangeLinks& links);
    /// Messages start while earlier ones are on the wire: of a stage the longer of both counts, and
    /// stages (inside the node, between nodes) follow each other; with one hop all is one stage.
    [[nodiscard]] Seconds total() const;
    /// "the link of a node limits (8.68 MB, 0.694 s of 0.695 s)"; `node` names which one.
    [[nodiscard]] std::string limit(const std::string& node = "a node") const;
};

/// Hops of a row that goes furthest.
[[nodiscard]] std::int64_t hopsOf(AllToAllAlgorithm algorithm);

/// Bytes that a rank of a node with `local` ranks copies on the way, beside what every algorithm
/// does, when it sends so many to other nodes and inside its node: each station of several packs,
/// the last one unpacks. Under node and rail rows that stay on the node are packed too, and one of
/// `local` rows that cross is not handed on. Source: docs/alltoall.md, "Cost".
[[nodiscard]] double copiedBytes(AllToAllAlgorithm algorithm, double between, double inside,
                                 double local);

/// What an exchange is, as a measured point names it.
struct ExchangeSetting {
    std::int64_t ranks = 1, nodes = 1;
    std::int64_t tokens = 1;  ///< of each rank
    double row_bytes = 1.0;
    std::int64_t topk = 1;
    std::int64_t reach = 1;  ///< nodes a token may have experts on
    double imbalance = 1.0;
    bool tokens_move = true;  ///< deduplicating algorithms can run
};

/// Whether two points were measured of the same setting, by whatever algorithm.
[[nodiscard]] bool sameSetting(const ExchangePoint& a, const ExchangePoint& b);

/// The fastest algorithm of the measured setting nearest to `setting`. Nothing where none is near:
/// ranks or nodes twice as many or few, bytes four times, or one node against several.
struct MeasuredChoice {
    AllToAllAlgorithm algorithm = AllToAllAlgorithm::Flat;
    ExchangePoint point;                  ///< it, with its time
    std::optional<Seconds> flat, vendor;  ///< at the same setting
};
[[nodiscard]] std::optional<MeasuredChoice> measuredChoice(const MeasuredCurves& curves,
                                                           const ExchangeSetting& setting);

/// By the formulas, for even loads; the first of equals is the simpler one.
struct FormulaChoice {
    AllToAllAlgorithm algorithm = AllToAllAlgorithm::Flat;
    ExchangeCost cost, flat;
};
[[nodiscard]] FormulaChoice formulaChoice(const ExchangeSetting& setting, std::int64_t num_experts,
                                          const ExchangeLinks& links);

/// The same for `bytes` between all pairs of ranks, moved once; never one that moves tokens.
[[nodiscard]] FormulaChoice pairsChoice(std::int64_t ranks, std::int64_t nodes, std::int64_t bytes,
                                        const ExchangeLinks& links);

/// What our worker runs in an ep group of so many ranks and nodes. Auto: the measured table of the
/// plan's cluster, or else the formulas over its links; what the plan names as chooseAlgorithm.
/// Asked by the worker, which knows its nodes, and by the model.
[[nodiscard]] AlgorithmChoice chooseExchange(const Plan& plan, std::int64_t ranks,
                                             std::int64_t nodes);
/// The same without the words.
[[nodiscard]] AllToAllAlgorithm pickExchange(const Plan& plan, std::int64_t ranks,
                                             std::int64_t nodes);
/// The choice for a setting on a cluster, in words.
[[nodiscard]] AlgorithmChoice chooseFor(const ClusterSpec& cluster, const ExchangeSetting& setting,
                                        std::int64_t num_experts);

}  // namespace piper
