// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/enum_text.h"
#include "core/base/evidence.h"
#include "core/base/units.h"

namespace piper {
namespace {

std::string scaled(double value, double step, std::span<const std::string_view> units) {
    std::size_t i = 0;
    while (i + 1 < units.size() && std::abs(value) >= step) {
        value /= step;
        ++i;
    }
    if (i == 0) return fmt::format("{:.0f} {}", value, units[0]);
    return fmt::format("{:.{}f} {}", value,
                       std::abs(value) < 10    ? 2
                       : std::abs(value) < 100 ? 1
                                               : 0,
                       units[i]);
}

std::size_t editDistance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t above = row[j];
            row[j] =
                std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
            diagonal = above;
        }
    }
    return row[b.size()];
}

}  // namespace

std::string humanBytes(Bytes b) {
    static constexpr std::string_view units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    return scaled(b.value, 1024.0, units);
}

std::string humanSeconds(Seconds s) {
    static constexpr std::string_view units[] = {"ns", "us", "ms", "s"};
    return scaled(s.value * 1e9, 1000.0, units);
}

std::string humanFlopsPerSecond(FlopsPerSecond f) {
    static constexpr std::string_view units[] = {"FLOP/s",  "KFLOP/s", "MFLOP/s",
                                                 "GFLOP/s", "TFLOP/s", "PFLOP/s"};
    return scaled(f.value, 1000.0, units);
}

std::string humanBytesPerSecond(BytesPerSecond r) {
    static constexpr std::string_view units[] = {"B/s", "KB/s", "MB/s", "GB/s", "TB/s"};
    return scaled(r.value, 1000.0, units);
}

std::string humanFlops(Flops f) {
    static constexpr std::string_view units[] = {"FLOP",  "KFLOP", "MFLOP", "GFLOP",
                                                 "TFLOP", "PFLOP", "EFLOP", "ZFLOP"};
    return scaled(f.value, 1000.0, units);
}

std::string nearestWord(std::string_view word, std::span<const std::string_view> candidates) {
    std::string_view best;
    std::size_t best_distance = static_cast<std::size_t>(-1);
    for (std::string_view candidate : candidates) {
        // A word cut short means the whole one: "dp_grad" is "dp_grad_reduce", not "tp".
        const std::size_t distance =
            word.size() > 2 && candidate.starts_with(word) ? 0 : editDistance(word, candidate);
        if (distance < best_distance) {
            best_distance = distance;
            best = candidate;
        }
    }
    return std::string(best);
}

std::string joinWords(std::span<const std::string_view> words) {
    return fmt::format("{}", fmt::join(words.begin(), words.end(), ", "));
}

template <>
std::span<const EnumName<EvidenceKind>> enumNames<EvidenceKind>() {
    static constexpr EnumName<EvidenceKind> rows[] = {{EvidenceKind::Measured, "measured"},
                                                      {EvidenceKind::Published, "published"},
                                                      {EvidenceKind::VendorPeak, "vendor_peak"},
                                                      {EvidenceKind::Assumed, "assumed"}};
    return rows;
}

}  // namespace piper
