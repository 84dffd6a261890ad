// SPDX-License-Identifier: Apache-2.0
#include "core/run/device_comparison.h"

#include <algorithm>
#include <cmath>

namespace piper {
namespace {

/// Windows that differ by less are called equal.
constexpr double kEqualWindows = 0.02;

double mean(std::int64_t sum, std::int64_t count) {
    return count > 0 ? static_cast<double>(sum) / static_cast<double>(count) : 0.0;
}

void compareKernels(const DeviceStatistics& a, const DeviceStatistics& b, DeviceComparison& out) {
    std::map<std::string, DeviceRow> rows;
    for (const KernelTotal& k : a.by_name) {
        rows[k.name].a_count = k.count;
        rows[k.name].a_sum_ns = k.sum_ns;
    }
    for (const KernelTotal& k : b.by_name) {
        rows[k.name].b_count = k.count;
        rows[k.name].b_sum_ns = k.sum_ns;
    }
    for (auto& [name, row] : rows) {
        row.key = name;
        if (row.b_count == 0) out.only_in_a.push_back("kernel " + name);
        if (row.a_count == 0) out.only_in_b.push_back("kernel " + name);
        out.kernels.push_back(std::move(row));
    }
    std::stable_sort(
        out.kernels.begin(), out.kernels.end(), [](const DeviceRow& x, const DeviceRow& y) {
            return std::abs(x.b_sum_ns - x.a_sum_ns) > std::abs(y.b_sum_ns - y.a_sum_ns);
        });
}

void compareClasses(const DeviceStatistics& a, const DeviceStatistics& b, DeviceComparison& out) {
    const auto row = [&](const char* key, auto count, auto sum) {
        out.classes.push_back({key, count(a), count(b), sum(a), sum(b)});
    };
    using S = const DeviceStatistics&;
    row(
        "compute", [](S s) { return s.kernels - s.communication.count; },
        [](S s) { return s.kernel_sum_ns - s.communication.sum_ns; });
    row(
        "communication", [](S s) { return s.communication.count; },
        [](S s) { return s.communication.sum_ns; });
    row(
        "memcpy", [](S s) { return s.memcpy; }, [](S s) { return s.memcpy_sum_ns; });
    row(
        "memset", [](S s) { return s.memset; }, [](S s) { return s.memset_sum_ns; });
    row(
        "idle", [](S) { return std::int64_t{0}; }, [](S s) { return s.idle_in_span_ns; });
}

void compareRanks(const DeviceStatistics& a, const DeviceStatistics& b, DeviceComparison& out) {
    const auto find = [](const DeviceStatistics& s, RankId rank) {
        return std::find_if(s.ranks.begin(), s.ranks.end(),
                            [&](const RankDeviceTime& t) { return t.rank == rank; });
    };
    for (const RankDeviceTime& t : a.ranks) {
        const std::string key = fmt::format("rank {}", t.rank.value);
        const auto other = find(b, t.rank);
        if (other == b.ranks.end())
            out.only_in_a.push_back(key);
        else
            out.ranks.push_back(
                {key, t.kernels, other->kernels, t.kernel_sum_ns, other->kernel_sum_ns});
    }
    for (const RankDeviceTime& t : b.ranks)
        if (find(a, t.rank) == a.ranks.end())
            out.only_in_b.push_back(fmt::format("rank {}", t.rank.value));
}

/// Means over the ranks that worked, in seconds.
struct MeanTime {
    double span = 0.0, compute = 0.0, exposed = 0.0, idle = 0.0;
};

MeanTime meanTime(const DeviceStatistics& s) {
    MeanTime out;
    double ranks = 0.0;
    for (const RankDeviceTime& t : s.ranks) {
        if (t.span_ns == 0) continue;
        ranks += 1.0;
        out.span += static_cast<double>(t.span_ns);
        out.compute += static_cast<double>(t.compute_union_ns);
        out.exposed += static_cast<double>(t.exposed_communication_ns);
        out.idle += static_cast<double>(t.span_ns - t.busy_union_ns);
    }
    for (double* value : {&out.span, &out.compute, &out.exposed, &out.idle})
        *value = ranks > 0.0 ? *value / ranks / 1e9 : 0.0;
    return out;
}

Attribution attribute(const DeviceStatistics& a, const DeviceStatistics& b) {
    const MeanTime in_a = meanTime(a), in_b = meanTime(b);
    Attribution out;
    out.step_a_seconds = in_a.span;
    out.step_b_seconds = in_b.span;
    out.compute_seconds = in_b.compute - in_a.compute;
    out.exposed_communication_seconds = in_b.exposed - in_a.exposed;
    out.bubble_seconds = in_b.idle - in_a.idle;
    out.rest_seconds = out.difference() - (out.compute_seconds + out.exposed_communication_seconds +
                                           out.bubble_seconds);
    return out;
}

std::string worldOf(const Run& run) {
    const auto found = run.notes.find("world");
    return found == run.notes.end() ? std::string() : found->second;
}

void warn(const Run& a, const DeviceStatistics& in_a, const Run& b, const DeviceStatistics& in_b,
          DeviceComparison& out) {
    const std::string world_a = worldOf(a), world_b = worldOf(b);
    if (world_a != world_b && !world_a.empty() && !world_b.empty())
        out.warnings.push_back(
            fmt::format("not comparable: ranks of jobs of {} and of {} ranks", world_a, world_b));
    const auto sameRank = [](const RankDeviceTime& x, const RankDeviceTime& y) {
        return x.rank == y.rank;
    };
    if (!std::equal(in_a.ranks.begin(), in_a.ranks.end(), in_b.ranks.begin(), in_b.ranks.end(),
                    sameRank))
        out.warnings.push_back("the traces are of different ranks");
    if (in_a.devices != in_b.devices)
        out.warnings.push_back(
            fmt::format("number of devices differs: {} against {}", in_a.devices, in_b.devices));
    const double span_a = out.attribution.step_a_seconds, span_b = out.attribution.step_b_seconds;
    if (span_a == 0.0 || span_b == 0.0) {
        out.warnings.push_back(
            fmt::format("run '{}' has no device work", span_a == 0.0 ? a.name : b.name));
        return;
    }
    if (std::abs(span_a - span_b) > kEqualWindows * span_a)
        out.warnings.push_back(fmt::format(
            "windows differ: {:.3f} ms against {:.3f} ms; compare means per launch, not sums",
            span_a * 1e3, span_b * 1e3));
    else if (in_a.kernels != in_b.kernels)
        out.warnings.push_back(fmt::format(
            "equal windows hold different amounts of work: {} against {} kernels; compare means "
            "per launch",
            in_a.kernels, in_b.kernels));
}

}  // namespace

double DeviceRow::aMean() const {
    return mean(a_sum_ns, a_count);
}

double DeviceRow::bMean() const {
    return mean(b_sum_ns, b_count);
}

DeviceComparison compareDevices(const Run& a, const DeviceStatistics& in_a, const Run& b,
                                const DeviceStatistics& in_b) {
    DeviceComparison out;
    compareKernels(in_a, in_b, out);
    compareClasses(in_a, in_b, out);
    compareRanks(in_a, in_b, out);
    out.attribution = attribute(in_a, in_b);
    warn(a, in_a, b, in_b, out);
    return out;
}

}  // namespace piper
