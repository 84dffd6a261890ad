// SPDX-License-Identifier: Apache-2.0
#include "core/cost/efficiency.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace piper {

namespace {

constexpr std::size_t kColumns = 6;

struct Row {
    double log_m;
    std::array<double, kColumns> efficiency;
};

/// Columns: log2(n k) = 18, 20, 22, 24, 26, 28; medians over all shapes within one of it.
constexpr std::array<double, kColumns> kLogNk = {18, 20, 22, 24, 26, 28};

// Source: ai-dynamo/aiconfigurator 095f58a (Apache-2.0), h100_sxm/gemm/trtllm/1.3.0rc20, BF16,
// 3842 shapes with m 16..32768 and n, k 512..65536, over 989 TFLOP/s.
constexpr std::array<Row, 9> kHopper = {{
    {4, {0.004, 0.010, 0.023, 0.034, 0.041, 0.044}},
    {6, {0.015, 0.038, 0.089, 0.133, 0.160, 0.174}},
    {7, {0.029, 0.074, 0.168, 0.257, 0.309, 0.336}},
    {8, {0.056, 0.138, 0.289, 0.437, 0.563, 0.621}},
    {9, {0.109, 0.228, 0.408, 0.634, 0.726, 0.732}},
    {10, {0.193, 0.359, 0.539, 0.719, 0.752, 0.747}},
    {11, {0.293, 0.493, 0.653, 0.757, 0.783, 0.766}},
    {12, {0.434, 0.613, 0.716, 0.774, 0.791, 0.768}},
    {13, {0.534, 0.643, 0.756, 0.794, 0.803, 0.767}},
}};

// Source: the same, a100_sxm/gemm/trtllm/1.0.0, 2880 shapes, over 312 TFLOP/s.
constexpr std::array<Row, 9> kAmpere = {{
    {4, {0.007, 0.017, 0.038, 0.062, 0.075, 0.082}},
    {6, {0.027, 0.076, 0.166, 0.239, 0.287, 0.315}},
    {7, {0.046, 0.136, 0.278, 0.384, 0.485, 0.581}},
    {8, {0.104, 0.225, 0.391, 0.533, 0.671, 0.819}},
    {9, {0.173, 0.328, 0.492, 0.634, 0.734, 0.832}},
    {10, {0.281, 0.425, 0.573, 0.692, 0.821, 0.842}},
    {11, {0.378, 0.493, 0.655, 0.774, 0.840, 0.835}},
    {12, {0.423, 0.588, 0.723, 0.821, 0.838, 0.836}},
    {13, {0.457, 0.655, 0.778, 0.834, 0.834, 0.836}},
}};

struct Point {
    double log_x, efficiency;
};

// Source: MooreThreads/SimuMax 4dcaae5 configs/system (B200, BF16, 514 shapes, medians by m) over
// 2250 TFLOP/s; n and k are 160..57344 there, so only m is a column.
constexpr std::array<Point, 5> kBlackwell = {
    {{7, 0.227}, {8, 0.267}, {9, 0.470}, {11, 0.487}, {12, 0.496}}};

// Grouped GEMM by rows per group. Hopper: fused MoE forward, both GEMMs with permute and activation
// (aiconfigurator 095f58a, h100_sxm/moe, ep = 1, 16 model shapes, median over h x ffn);
// Blackwell, Ampere: group_matmul of SimuMax 4dcaae5.
constexpr std::array<Point, 11> kHopperGrouped = {{{2, 0.012},
                                                   {3, 0.024},
                                                   {4, 0.048},
                                                   {5, 0.090},
                                                   {6, 0.168},
                                                   {7, 0.297},
                                                   {8, 0.446},
                                                   {9, 0.550},
                                                   {10, 0.566},
                                                   {11, 0.669},
                                                   {12, 0.669}}};
constexpr std::array<Point, 5> kBlackwellGrouped = {
    {{7, 0.148}, {8, 0.246}, {9, 0.324}, {10, 0.391}, {11, 0.469}}};
constexpr std::array<Point, 2> kAmpereGrouped = {{{9, 0.630}, {10, 0.666}}};

// Source: sdp_fwd, sdp_bwd of SimuMax 4dcaae5 at 4096 tokens by heads. Its figures count the full
// square (efficiencies above 1 appear); halved here to causal-half FLOPs.
constexpr std::array<Point, 6> kBlackwellAttention = {
    {{2, 0.084}, {3, 0.156}, {4, 0.290}, {5, 0.366}, {6, 0.439}, {7, 0.444}}};
constexpr std::array<Point, 6> kBlackwellAttentionBackward = {
    {{2, 0.172}, {3, 0.323}, {4, 0.368}, {5, 0.393}, {6, 0.393}, {7, 0.393}}};
constexpr std::array<Point, 6> kAmpereAttention = {
    {{2, 0.257}, {3, 0.391}, {4, 0.494}, {5, 0.536}, {6, 0.560}, {7, 0.560}}};
constexpr std::array<Point, 6> kAmpereAttentionBackward = {
    {{2, 0.337}, {3, 0.381}, {4, 0.401}, {5, 0.441}, {6, 0.450}, {7, 0.450}}};

/// Geometric over log m, so that time grows with m between rows too; below the table the rate falls
/// with m (each row costs the same time).
Efficiency interpolate(std::span<const Point> table, double log_x) {
    if (log_x <= table.front().log_x)
        return {table.front().efficiency * std::exp2(log_x - table.front().log_x),
                log_x < table.front().log_x};
    if (log_x >= table.back().log_x)
        return {table.back().efficiency, log_x > table.back().log_x + 3.0};
    std::size_t i = 1;
    while (table[i].log_x < log_x) ++i;
    const double t = (log_x - table[i - 1].log_x) / (table[i].log_x - table[i - 1].log_x);
    const double left = std::log2(table[i - 1].efficiency);
    return {std::exp2(std::lerp(left, std::log2(table[i].efficiency), t)), false};
}

Efficiency interpolate(std::span<const Row> table, double log_m, double log_nk) {
    const double column = std::clamp((log_nk - kLogNk.front()) / 2.0, 0.0, kColumns - 1.0);
    const auto left = std::min(static_cast<std::size_t>(column), kColumns - 2);
    std::array<Point, 16> line{};
    for (std::size_t r = 0; r < table.size(); ++r)
        line[r] = {table[r].log_m,
                   std::lerp(table[r].efficiency[left], table[r].efficiency[left + 1],
                             column - static_cast<double>(left))};
    Efficiency out = interpolate(std::span<const Point>(line).first(table.size()), log_m);
    out.extrapolated |= log_nk < kLogNk.front() - 1.0 || log_nk > kLogNk.back() + 4.0;
    return out;
}

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

}  // namespace

DeviceFamily deviceFamily(std::string_view name) {
    if (contains(name, "B200") || contains(name, "B300")) return DeviceFamily::Blackwell;
    if (contains(name, "H100") || contains(name, "H200") || contains(name, "H800"))
        return DeviceFamily::Hopper;
    if (contains(name, "A100") || contains(name, "A800")) return DeviceFamily::Ampere;
    return DeviceFamily::Unknown;
}

Efficiency publishedGemmEfficiency(DeviceFamily family, double m, double n, double k) {
    const double smallest = std::min({m, n, k});
    const double log_m = std::log2(smallest);
    const double log_nk = std::log2(m * n * k / smallest);
    switch (family) {
        case DeviceFamily::Hopper:
            return interpolate(kHopper, log_m, log_nk);
        case DeviceFamily::Ampere:
            return interpolate(kAmpere, log_m, log_nk);
        case DeviceFamily::Blackwell:
            return interpolate(kBlackwell, log_m);
        case DeviceFamily::Unknown:
            return {};
    }
    return {};
}

Efficiency publishedGroupedEfficiency(DeviceFamily family, double m, double n, double k) {
    const double log_m = std::log2(std::min({m, n, k}));
    switch (family) {
        case DeviceFamily::Hopper:
            return interpolate(kHopperGrouped, log_m);
        case DeviceFamily::Ampere: {
            // Few rows were not published: the plain GEMM's shape below them.
            if (log_m >= kAmpereGrouped.front().log_x) return interpolate(kAmpereGrouped, log_m);
            Efficiency plain = publishedGemmEfficiency(family, m, n, k);
            plain.extrapolated = true;
            return plain;
        }
        case DeviceFamily::Blackwell:
            return interpolate(kBlackwellGrouped, log_m);
        case DeviceFamily::Unknown:
            return {};
    }
    return {};
}

Efficiency publishedAttentionEfficiency(DeviceFamily family, double batch_heads, bool backward) {
    const double log_heads = std::log2(batch_heads);
    if (family == DeviceFamily::Blackwell)
        return interpolate(backward ? std::span<const Point>(kBlackwellAttentionBackward)
                                    : std::span<const Point>(kBlackwellAttention),
                           log_heads);
    if (family == DeviceFamily::Ampere)
        return interpolate(backward ? std::span<const Point>(kAmpereAttentionBackward)
                                    : std::span<const Point>(kAmpereAttention),
                           log_heads);
    return {};
}

}  // namespace piper
