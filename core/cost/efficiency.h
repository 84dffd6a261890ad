// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace piper {

// Published efficiencies (share of the dense peak) by shape; tables in efficiency.cpp with sources.

enum class DeviceFamily { Unknown, Ampere, Hopper, Blackwell };
[[nodiscard]] DeviceFamily deviceFamily(std::string_view device_name);

struct Efficiency {
    double value = 0.0;         ///< 0: nothing published
    bool extrapolated = false;  ///< outside the table
};

/// A GEMM of m rows against an n x k matrix; the smallest of the three sizes acts as m.
[[nodiscard]] Efficiency publishedGemmEfficiency(DeviceFamily family, double m, double n, double k);
/// A grouped GEMM with m rows a group.
[[nodiscard]] Efficiency publishedGroupedEfficiency(DeviceFamily family, double m, double n,
                                                    double k);
/// Fused causal attention at 4096 tokens by batch * heads; share of peak in causal-half FLOPs.
[[nodiscard]] Efficiency publishedAttentionEfficiency(DeviceFamily family, double batch_heads,
                                                      bool backward);

}  // namespace piper
