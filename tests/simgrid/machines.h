// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

/// The simulated clusters, eight ranks a node. Bandwidths in bytes a second and direction.
struct Machine {
    std::string_view name;
    std::size_t nics;  ///< of a node; NIC i serves the ranks [i, i + 1) * 8 / nics
    double nic;        ///< of one
    double port;       ///< of a rank inside its node
    double twin;       ///< of a rank to the other one of its pair; 0: as to all
    double taper;      ///< of a group of kGroupNodes nodes to the others; 0: one switch
    bool rails;        ///< NIC i on a switch of its own, rails joined by a spine
};
constexpr std::size_t kRanksPerNode = 8, kGroupNodes = 16;
constexpr double us = 1e-6, GB = 1e9;
constexpr double kNicLatency = 1.5 * us, kSwitchLatency = 0.5 * us;  ///< out, in
constexpr double kSpineLatency = 0.5 * us, kGroupLatency = 0.25 * us, kInsideLatency = 0.7 * us;
constexpr double kCopyRate = PIPER_SIMULATED_COPY_RATE;  ///< of a rank in its own memory

/// Frontier-like: pairs of GCDs at 200 GB/s, others at 50; four NICs of 25 GB/s. H100: NVLink of
/// 450 GB/s a rank; a NIC of 50 GB/s a rank. Ethernet: one NIC of 25 Gb/s; 10 GB/s a rank inside.
constexpr std::array<Machine, 3> kMachines = {{
    {"frontier", 4, 25 * GB, 50 * GB, 200 * GB, 1.75, false},
    {"h100", 8, 50 * GB, 450 * GB, 0.0, 0.0, true},
    {"ethernet", 1, 25e9 / 8, 10 * GB, 0.0, 0.0, false},
}};
constexpr const Machine* machineOf(std::string_view name) {
    for (const Machine& m : kMachines)
        if (m.name == name) return &m;
    return nullptr;
}
