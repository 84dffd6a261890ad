// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/enum_text.h"
#include "core/base/units.h"
#include "core/cluster/cluster.h"
#include "core/plan/plan.h"

namespace piper {

/// What was called. Dispatch and combine are those of libraries that send a token once to a node
/// (DeepEP normal, HybridEP, UCCL-EP); the low-latency ones send every row straight to its expert.
/// The two networks-only exchanges are UCCL's: rows go straight to the receiver's NIC
/// (cross-rail), or over the neighbour on the receiver's rail (rail-aligned).
enum class CallKind {
    AllToAll,
    AllReduce,
    AllGather,
    ReduceScatter,
    Dispatch,
    Combine,
    LowLatencyDispatch,
    LowLatencyCombine,
    CrossRailAllToAll,
    RailAllToAll,
    NodeAllToAll,  ///< inside the node, then gathered a node pair, then spread inside the node
    PointToPoint
};
[[nodiscard]] constexpr bool isExpertParallel(CallKind kind) {
    return kind >= CallKind::Dispatch && kind <= CallKind::LowLatencyCombine;
}

/// Devices whose scale-up links behave alike.
enum class LinkFamily { Unknown, Ampere, Hopper, Blackwell, RackScale, Pcie, Cdna2, Cdna3 };
/// By a name of the catalogue or of a published table.
[[nodiscard]] LinkFamily linkFamily(std::string_view device);

/// One link level as a group of ranks sees it.
struct LinkStep {
    std::int64_t members = 1;  ///< of the group inside one domain, the asking one included
    double bandwidth = 0.0;    ///< bytes per second and device, over the tapers below it
    double latency = 0.0;      ///< seconds of one message as the cluster states it
    bool network = false;      ///< NICs, not NVLink, xGMI or PCIe inside a node or rack
    bool slingshot = false;    ///< a network that RCCL uses less well
    bool measured = false;     ///< an achieved rate: no share of it is taken
};

/// Where a group lies, innermost level first.
struct CallPlace {
    LinkFamily family = LinkFamily::Unknown;
    std::int64_t ranks = 1;
    std::int64_t nodes = 1;
    std::array<LinkStep, 8> steps{};
    std::size_t num_steps = 0;

    [[nodiscard]] std::span<const LinkStep> levels() const { return {steps.data(), num_steps}; }
    /// Some of the group is reached over NICs only.
    [[nodiscard]] bool crossesNetwork() const;
};

/// How much is sent.
struct CallSize {
    /// nccl-tests' size: the whole buffer of a rank (all-gather: the gathered one; all-to-all: the
    /// rank's own part included). Expert-parallel kinds: tokens * topk * row. Point to point: the
    /// message.
    double bytes = 0.0;
    double row_bytes = 0.0;       ///< expert-parallel kinds
    double topk = 8.0;            ///< rows of one token
    std::int64_t node_limit = 0;  ///< nodes a token may reach, 0 without limit
};

/// The constants of one library on one family of devices; docs/formulas.md names the rows that fix
/// each. Two protocols: the low-latency one starts fast and moves data at a small share of the
/// link, the simple one pays `ramp` once and moves it at `share`.
struct LinkConstants {
    double launch;       ///< seconds before anything moves
    double step;         ///< seconds a step of a ring, or a peer of an all-to-all
    double ramp;         ///< seconds more before the simple protocol is in full flow
    double simple_step;  ///< as step, simple protocol
    double low_share;    ///< share of the link, low-latency protocol
    double share;        ///< share of the link, simple protocol
};

/// Time of the call by the constants of its library and family, without any measured curve.
/// 0 for a family without constants.
[[nodiscard]] Seconds modelCall(CallKind kind, const CallSize& size, const CallPlace& place);

/// Distinct among n domains that k picks reach, uniform: n (1 - (1 - 1/n)^k).
[[nodiscard]] double distinctDomains(double n, double k);

/// The levels of a catalogue device's usual cluster for a group of consecutive ranks over `nodes`.
/// A device that the catalogue does not have gets the usual links of its family.
[[nodiscard]] CallPlace usualPlace(std::string_view device, std::int64_t ranks, std::int64_t nodes);

}  // namespace piper
