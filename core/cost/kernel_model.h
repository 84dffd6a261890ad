// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/cluster/cluster.h"

// Seconds of one GPU kernel from a few constants with a physical meaning. Published points are
// divided by these models and the ratios interpolated (kernel_tables.h); devices without points
// take the model alone. Constants and the rows that fix them: docs/formulas.md.
namespace piper {

/// The silicon: devices that share it share published points, scaled by peak and bandwidth.
enum class Die : std::uint8_t { Unknown, Ga100, Gh100, Gb100, Gb110, Mi200, Mi300, Mi355 };

struct Chip {
    Die die = Die::Unknown;
    double units = 132.0;     ///< multiprocessors or compute units of the device
    double bf16_share = 0.7;  ///< best share of the dense BF16 peak over long runs
    double fp8_share = 0.0;   ///< the same at FP8; 0: not published
    bool published = false;   ///< bf16_share is measured on this very device
};
[[nodiscard]] Chip chipOf(std::string_view device_name);

/// Devices of one architecture, whatever their memory, links or board.
enum class DeviceGeneration : std::uint8_t { Other, Ampere, Hopper, Blackwell };
[[nodiscard]] DeviceGeneration deviceGeneration(std::string_view device_name);

enum class KernelKind : std::uint8_t { Gemm, GroupedGemm, FusedMoe, Attention };
inline constexpr std::array<std::string_view, 4> kKernelKinds = {"gemm", "grouped", "fused_moe",
                                                                 "attention"};

/// Whose kernels: the software a table was measured with.
enum class KernelLibrary : std::uint8_t { TrtLlm, Vllm, TransformerEngine, DeepGemm, Other };
inline constexpr std::array<std::string_view, 5> kKernelLibraries = {"trtllm", "vllm", "te",
                                                                     "deepgemm", "other"};

/// Sizes of one call.
/// Gemm, GroupedGemm: `groups` problems C[m,n] (+)= A[m,k] B[k,n]; `backward` marks a weight
/// gradient, which is added to C of `output_bytes` an element (read and written).
/// FusedMoe: groups experts on the rank, m rows an expert, n expert width, k hidden size, `ep`.
/// Attention: groups = batch * heads, m = seq_len, n, k = head dimensions of q, k and of v,
/// context = mean keys of a query (half of seq_len when causal), `backward` the whole backward.
struct KernelShape {
    KernelKind kind = KernelKind::Gemm;
    bool backward = false;
    double groups = 1.0, m = 1.0, n = 1.0, k = 1.0;
    double output_bytes = 2.0;
    double ep = 1.0;
    double context = 0.0;
    bool operator==(const KernelShape&) const = default;

    /// FLOPs as executed: a fused attention backward recomputes the scores (2.5 forwards).
    [[nodiscard]] double flops() const;
};

/// How one matrix kernel spends its time.
struct GemmConstants {
    double peak_share = 0.7;        ///< of the dense peak inside a tile
    double bandwidth_share = 0.8;   ///< of the data sheet's memory bandwidth
    double feed = 160e9;            ///< operand bytes per second and unit from the last cache
    double wave_seconds = 1e-6;     ///< filling and draining one wave of tiles
    double call_seconds = 3e-6;     ///< launch to first tile
    double all_rows_share = 0.0;    ///< fused MoE: passes over the rows of all ep ranks
    double host_group_seconds = 0;  ///< a loop over groups: the host's time for one
};

struct AttentionConstants {
    double peak_share = 0.5;
    double call_seconds = 3e-5;
    double key_seconds = 1.5e-8;  ///< one tile of queries walks its keys one after the other
};

/// A device with the numbers of its data sheet and a library's constants.
struct KernelSite {
    double peak = 0.0;       ///< FLOP/s
    double bandwidth = 0.0;  ///< bytes per second
    double units = 132.0;
    double element_bytes = 2.0;
    GemmConstants gemm;
    std::array<AttentionConstants, 2> attention;  ///< forward, backward
};

/// Constants of a library's kernels on a die at a precision; nullopt where nothing is published.
[[nodiscard]] std::optional<GemmConstants> gemmConstants(Die die, KernelLibrary library,
                                                         KernelKind kind, Precision precision,
                                                         bool pcie);
/// Constants of any other device: its die's or the nearest die's, with its own share of the peak.
[[nodiscard]] GemmConstants familyConstants(const Chip& chip, Precision precision);
/// nullopt: nothing published for the die.
[[nodiscard]] std::optional<std::array<AttentionConstants, 2>> attentionConstants(Die die);
[[nodiscard]] std::array<AttentionConstants, 2> assumedAttention();

/// Share of the precision's dense peak that its best GEMMs keep over long runs. `published` says
/// whether it was measured on this device at this precision.
struct PeakShare {
    double value = 0.7;
    bool published = false;
};
[[nodiscard]] PeakShare sustainedShare(const Chip& chip, Precision precision);

/// Seconds of one call, from the constants alone. Grows with every size.
[[nodiscard]] double kernelSeconds(const KernelSite& site, const KernelShape& shape);

/// Rows that kernels of a precision round a group up to (TransformerEngine).
[[nodiscard]] std::int64_t rowPadding(Precision precision);

/// What a memory-bound kernel does: how near it comes to the data sheet's bandwidth differs.
enum class MemoryKind : std::uint8_t { Elementwise, Permute, CrossEntropy };
struct BandwidthShare {
    double value = 0.8;
    bool published = false;  ///< measured on this die
};
[[nodiscard]] BandwidthShare bandwidthShare(Die die, MemoryKind kind);

}  // namespace piper
