// SPDX-License-Identifier: Apache-2.0
#include "core/cost/device_rates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace piper {

namespace {

// Spreads (log2) seen when constants or tables were carried to a device (docs/formulas.md):
constexpr double kLeastSpread = 0.03;    ///< repeated rows of one table
constexpr double kSameDieSpread = 0.20;  ///< A100 SXM's table asked for the A100-PCIe's rows
constexpr double kSharedSpread = 0.26;   ///< constants with the device's own sustained share
constexpr double kOtherSpread = 0.40;    ///< the same with the share of a relative
constexpr double kAssumedSpread = 0.78;  ///< nothing known of the device: a factor of two
constexpr double kBand = 1.28;           ///< standard deviations that hold four rows of five

/// Bytes a cast to eight bits or fewer moves per element of the activation: BF16 read, a row-wise
/// and a column-wise copy written.
constexpr double kCastBytes = 4.0;

bool eightBitsOrFewer(Precision p) {
    return elementBytes(p).value <= 1.0;
}

/// Peak of the precision; else the slowest listed one, as not known.
double peakOf(const DeviceSpec& device, Precision precision, bool& known) {
    const auto found = device.peak.find(precision);
    known = found != device.peak.end();
    if (known) return found->second.value;
    double slowest = 0.0;
    for (const auto& [other, rate] : device.peak)
        slowest = slowest == 0.0 ? rate.value : std::min(slowest, rate.value);
    return slowest;
}

KernelLibrary libraryOf(const DeviceSpec& device, Precision precision) {
    if (precision == Precision::Fp8Block) return KernelLibrary::DeepGemm;
    return device.kernels == "te" ? KernelLibrary::TransformerEngine : KernelLibrary::TrtLlm;
}

/// A time from the constants alone.
void rateConstants(MatrixRates& rates, const Chip& chip, Precision precision) {
    const PeakShare share = sustainedShare(chip, precision);
    const bool guessed = precision == Precision::Fp32 || precision == Precision::Tf32 ||
                         precision == Precision::Nvfp4;
    if (chip.die == Die::Unknown || !rates.peak_known) {
        rates.kind = EvidenceKind::Assumed;
        rates.spread = kAssumedSpread;
        return;
    }
    rates.kind = guessed ? EvidenceKind::Assumed : EvidenceKind::VendorPeak;
    rates.spread = share.published ? kSharedSpread : kOtherSpread;
    const Precision capped = precision == Precision::Fp8Block ? Precision::Fp8 : precision;
    rates.sustained_rate = rates.site.peak * sustainedShare(chip, capped).value;
}

struct Remembered {
    const KernelTable* gemm = nullptr;
    const KernelTable* grouped = nullptr;
    double peak = 0.0, bandwidth = 0.0, share = 0.0;
    KernelShape shape;
    KernelTime time;
};
constexpr std::size_t kRemembered = 512;

std::size_t slotOf(const KernelShape& s) {
    std::uint64_t h = std::bit_cast<std::uint64_t>(s.m) * 0x9E3779B97F4A7C15ULL;
    h ^= std::bit_cast<std::uint64_t>(s.n) * 0xC2B2AE3D27D4EB4FULL;
    h ^= std::bit_cast<std::uint64_t>(s.k) * 0x165667B19E3779F9ULL;
    h ^= std::bit_cast<std::uint64_t>(s.groups) * 0x27D4EB2F165667C5ULL;
    h ^= std::bit_cast<std::uint64_t>(s.output_bytes);
    return (h ^ (h >> 29)) >> 20 & (kRemembered - 1);
}

KernelTime tableTime(const MatrixRates& rates, const KernelShape& shape) {
    if (shape.groups > 1.0 && rates.grouped) return rates.grouped->time(shape, rates.site);
    if (shape.groups <= 1.0 || rates.site.gemm.host_group_seconds <= 0.0)
        return rates.gemm ? rates.gemm->time(shape, rates.site)
                          : KernelTime{kernelSeconds(rates.site, shape), 0.0, false};
    // A loop over groups: each a call of its own.
    KernelShape one = shape;
    one.kind = KernelKind::Gemm;
    one.groups = 1.0;
    KernelTime time = tableTime(rates, one);
    time.seconds = shape.groups * std::max(time.seconds, rates.site.gemm.host_group_seconds);
    return time;
}

KernelTime rememberedTime(const MatrixRates& rates, const KernelShape& shape) {
    thread_local std::vector<Remembered> memory(kRemembered);
    Remembered& slot = memory[slotOf(shape)];
    const KernelSite& s = rates.site;
    if (slot.shape == shape && slot.gemm == rates.gemm && slot.grouped == rates.grouped &&
        slot.peak == s.peak && slot.bandwidth == s.bandwidth && slot.share == s.gemm.peak_share)
        return slot.time;
    slot = {rates.gemm, rates.grouped,          s.peak, s.bandwidth, s.gemm.peak_share,
            shape,      tableTime(rates, shape)};
    return slot.time;
}

/// A CPU or a device without numbers, nothing measured: 0.7 of the peak for large problems, falling
/// below 256 rows.
RatedTime plainTime(const MatrixRates& rates, const KernelShape& s) {
    const double smallest = std::min({s.m, s.n, s.k});
    const double efficiency = 0.7 * smallest / (smallest + 256.0);
    double seconds = rates.site.gemm.call_seconds;
    if (rates.site.peak > 0.0)
        seconds = std::max(seconds, s.flops() / (rates.site.peak * efficiency));
    if (rates.site.bandwidth > 0.0)
        seconds = std::max(seconds, s.groups * rates.site.element_bytes *
                                        (s.m * s.k + s.k * s.n + s.m * s.n) / rates.site.bandwidth);
    return {seconds, EvidenceKind::Assumed, kAssumedSpread, rates.site.peak <= 0.0};
}

KernelShape shapeOf(const MatrixRates& rates, const GemmWork& w, double gradient_bytes) {
    KernelShape s;
    s.kind = w.groups > 1 ? KernelKind::GroupedGemm : KernelKind::Gemm;
    s.groups = static_cast<double>(w.groups);
    std::int64_t m = w.m;
    // Kernels round the rows of a group up.
    if (!w.accumulates) m = (m + rates.row_padding - 1) / rates.row_padding * rates.row_padding;
    s.m = static_cast<double>(m);
    s.n = static_cast<double>(w.n);
    s.k = static_cast<double>(w.k);
    s.backward = w.accumulates;
    if (w.accumulates) {
        if (s.m > s.n) std::swap(s.m, s.n);
        s.output_bytes = 2.0 * gradient_bytes;
    } else {
        s.output_bytes = std::max(2.0, rates.site.element_bytes);
    }
    return s;
}

}  // namespace

Evidence RatedTime::evidence() const {
    const double width = std::exp2(kBand * spread);
    return {kind, seconds / width, seconds * width, extrapolated};
}

MatrixRates matrixRates(const DeviceSpec& device, Precision precision) {
    MatrixRates rates;
    const Chip chip = chipOf(device.name);
    rates.site.peak = peakOf(device, precision, rates.peak_known);
    rates.site.bandwidth = device.memory_bandwidth.value;
    rates.site.units = chip.units;
    rates.site.element_bytes = elementBytes(precision).value;
    rates.site.gemm = familyConstants(chip, precision);
    if (device.kind == DeviceKind::Cpu || rates.site.peak <= 0.0)
        rates.site.gemm.call_seconds = device.launch_overhead.value;
    rates.row_padding = rowPadding(precision);
    rates.quantises = eightBitsOrFewer(precision);
    rateConstants(rates, chip, precision);
    if (device.kind == DeviceKind::Cpu || !rates.peak_known) return rates;
    const Precision listed = precision == Precision::Fp16 ? Precision::Bf16 : precision;
    const KernelLibrary library = libraryOf(device, precision);
    rates.gemm = findPublishedTable(KernelKind::Gemm, library, listed, device.name);
    rates.grouped = findPublishedTable(KernelKind::GroupedGemm, library, listed, device.name);
    if (!rates.gemm) return rates;
    rates.exact = sameDevice(rates.gemm->key().device, device.name);
    rates.site.gemm = rates.gemm->site().gemm;
    return rates;
}

RatedTime gemmTime(const MatrixRates& rates, const GemmWork& work, double gradient_bytes) {
    const KernelShape shape = shapeOf(rates, work, gradient_bytes);
    if (rates.site.peak <= 0.0 || rates.site.bandwidth <= 0.0) return plainTime(rates, shape);
    const KernelTime time = rememberedTime(rates, shape);
    RatedTime out{time.seconds, rates.kind, rates.spread, time.outside || !rates.peak_known};
    if (rates.gemm) {
        out.kind = rates.exact ? EvidenceKind::Published : EvidenceKind::VendorPeak;
        out.spread = std::max(kLeastSpread,
                              rates.exact ? time.spread : std::hypot(time.spread, kSameDieSpread));
    }
    // Short runs of one kernel find higher clocks than a step keeps.
    if (rates.sustained_rate > 0.0)
        out.seconds = std::max(out.seconds, shape.flops() / rates.sustained_rate);
    if (rates.quantises && !work.accumulates)
        out.seconds += shape.groups * shape.m * shape.k * kCastBytes /
                       (rates.site.bandwidth * rates.site.gemm.bandwidth_share);
    return out;
}

RatedTime fusedMoeTime(const MatrixRates& rates, const KernelTable* table,
                       const KernelShape& shape) {
    if (rates.site.peak <= 0.0 || rates.site.bandwidth <= 0.0) return plainTime(rates, shape);
    KernelSite site = rates.site;
    if (const auto fused = gemmConstants(Die::Gh100, KernelLibrary::TrtLlm, KernelKind::FusedMoe,
                                         Precision::Bf16, false)) {
        const double share = site.gemm.peak_share;
        site.gemm = *fused;
        site.gemm.peak_share = share;
    }
    if (!table)
        return {kernelSeconds(site, shape), rates.kind, std::hypot(rates.spread, kSameDieSpread),
                !rates.peak_known};
    site.gemm = table->site().gemm;
    const KernelTime time = table->time(shape, site);
    return {
        time.seconds, rates.exact ? EvidenceKind::Published : EvidenceKind::VendorPeak,
        std::max(kLeastSpread, rates.exact ? time.spread : std::hypot(time.spread, kSameDieSpread)),
        time.outside};
}

AttentionRates attentionRates(const DeviceSpec& device, Precision precision) {
    AttentionRates rates;
    const Chip chip = chipOf(device.name);
    const bool low = eightBitsOrFewer(precision) && device.peak.contains(Precision::Bf16);
    const Precision used = low ? Precision::Bf16 : precision;
    rates.site.peak = peakOf(device, used, rates.peak_known);
    rates.site.bandwidth = device.memory_bandwidth.value;
    rates.site.units = chip.units;
    const auto known = attentionConstants(chip.die);
    rates.site.attention = known.value_or(assumedAttention());
    rates.kind = known && rates.peak_known ? EvidenceKind::VendorPeak : EvidenceKind::Assumed;
    rates.spread = known && rates.peak_known ? kSharedSpread : kOtherSpread;
    const bool half = used == Precision::Bf16 || used == Precision::Fp16;
    if (device.kind == DeviceKind::Gpu && half && rates.peak_known)
        rates.table = findPublishedTable(KernelKind::Attention, KernelLibrary::TransformerEngine,
                                         Precision::Bf16, device.name);
    if (rates.table && sameDevice(rates.table->key().device, device.name))
        rates.kind = EvidenceKind::Published;
    return rates;
}

RatedTime attentionTime(const AttentionRates& rates, const AttentionWork& w) {
    const double rows = static_cast<double>(w.batch * w.heads);
    KernelShape s{KernelKind::Attention,
                  w.backward,
                  rows,
                  static_cast<double>(w.seq_len),
                  static_cast<double>(w.qk_head_dim),
                  static_cast<double>(w.v_head_dim),
                  2.0,
                  1.0,
                  0.0};
    s.context = w.flops.value / ((w.backward ? 2.0 : 1.0) * 2.0 * rows * s.m * (s.n + s.k));
    RatedTime out{0.0, rates.kind, rates.spread, !rates.peak_known};
    if (rates.table) {
        const KernelTime time = rates.table->time(s, rates.site);
        out.seconds = time.seconds;
        out.extrapolated |= time.outside;
        out.spread = std::max(kLeastSpread, rates.kind == EvidenceKind::Published
                                                ? time.spread
                                                : std::hypot(time.spread, kSameDieSpread));
    } else {
        out.seconds = kernelSeconds(rates.site, s);
    }
    return out;
}

RatedTime unfusedAttentionTime(const MatrixRates& rates, const AttentionWork& w, double queries) {
    const double keys = static_cast<double>(w.seq_len);
    const double qk = static_cast<double>(w.qk_head_dim), v = static_cast<double>(w.v_head_dim);
    const auto batched = [&](double m, double n, double k) {
        KernelShape s;
        s.groups = static_cast<double>(w.batch * w.heads);
        s.m = m;
        s.n = n;
        s.k = k;
        return rates.site.bandwidth > 0.0 ? kernelSeconds(rates.site, s)
                                          : plainTime(rates, s).seconds;
    };
    RatedTime out{0.0, EvidenceKind::Assumed, kOtherSpread, !rates.peak_known};
    if (w.backward)
        out.seconds = batched(keys, v, queries) + batched(queries, keys, v) +
                      batched(queries, qk, keys) + batched(keys, qk, queries);
    else
        out.seconds = batched(queries, keys, qk) + batched(queries, v, keys);
    return out;
}

Bytes softmaxBytes(const AttentionWork& w, double queries, double element_bytes) {
    // Scores read, weights written; backward: weights and their gradients read, one written.
    const double scores =
        static_cast<double>(w.batch * w.heads) * queries * static_cast<double>(w.seq_len);
    return Bytes((w.backward ? 3.0 : 2.0) * scores * element_bytes);
}

}  // namespace piper
