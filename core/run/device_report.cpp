// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cmath>

#include "core/base/csv.h"
#include "core/base/json.h"
#include "core/run/report.h"

namespace piper {
namespace {

constexpr std::size_t kNamedKernels = 50;
constexpr std::string_view kNcclTests = "nccl_tests.";

/// Four decimals, null for nothing.
Json percentOf(const std::optional<double>& value) {
    return value ? Json(std::round(*value * 1e4) / 1e4) : Json();
}

/// A number where the text is one; a whole one with every digit.
Json valueOf(const std::string& text) {
    std::int64_t exact = 0;
    const char* end = text.data() + text.size();
    const auto [stop, fault] = std::from_chars(text.data(), end, exact);
    if (fault == std::errc() && stop == end && stop != text.data()) return exact;
    const Result<std::int64_t> whole = parseWhole(text);
    if (whole.ok()) return *whole;
    const std::optional<double> number = numberIn(text);
    return number ? Json(*number) : Json(text);
}

Json rankRows(const Run& header, const DeviceStatistics& s) {
    Json rows = Json::array();
    for (std::size_t r = 0; r < s.ranks.size() && r < header.ranks.size(); ++r) {
        const RankDeviceTime& t = s.ranks[r];
        rows.push_back({{"rank", t.rank.value},
                        {"offset_ns", header.ranks[r].offset_ns},
                        {"kernels", t.kernels},
                        {"kernel_sum_ns", t.kernel_sum_ns},
                        {"communication_sum_ns", t.communication_sum_ns},
                        {"compute_union_ns", t.compute_union_ns},
                        {"exposed_communication_ns", t.exposed_communication_ns},
                        {"busy_union_ns", t.busy_union_ns},
                        {"span_ns", t.span_ns}});
    }
    return rows;
}

/// Every part with what it is a part of.
Json idleJson(const DeviceIdle& idle) {
    return {{"devices", idle.devices},
            {"span_ns", idle.span_ns},
            {"compute_ns", idle.compute_ns},
            {"waiting_communication_ns", idle.waiting_communication_ns},
            {"copying_ns", idle.copying_ns},
            {"waiting_launch_ns", idle.launchesKnown() ? Json(idle.waiting_launch_ns) : Json()},
            {"unknown_ns", idle.unknown_ns},
            {"work", idle.pieces},
            {"work_with_launch", idle.pieces_with_launch}};
}

std::string idleText(const DeviceIdle& idle) {
    const auto share = [&](std::int64_t ns) {
        return idle.span_ns > 0
                   ? 100.0 * static_cast<double>(ns) / static_cast<double>(idle.span_ns)
                   : 0.0;
    };
    const std::string launch =
        idle.launchesKnown() ? fmt::format("waiting for a launch {:.2f} %, nothing known {:.2f} %",
                                           share(idle.waiting_launch_ns), share(idle.unknown_ns))
                             : fmt::format("nothing known {:.2f} % (no launches are recorded)",
                                           share(idle.unknown_ns));
    return fmt::format(
        "of {:.3f} ms from first to last work, over {} devices: compute {:.2f} %, waiting for "
        "communication {:.2f} %, copies {:.2f} %, {}\n",
        static_cast<double>(idle.span_ns) / 1e6, idle.devices, share(idle.compute_ns),
        share(idle.waiting_communication_ns), share(idle.copying_ns), launch);
}

/// Numbers are summed over ranks, texts are those of the first rank that has one.
Json countersOf(const Run& header) {
    Json out = Json::object();
    for (const RankTimeline& rank : header.ranks)
        for (const auto& [name, text] : rank.counters) {
            const Json value = valueOf(text);
            const bool sum =
                out.contains(name) && value.is_number_integer() && out[name].is_number_integer();
            std::int64_t total = 0;
            if (!out.contains(name))
                out[name] = value;
            else if (sum && name != "first_timestamp_ns" && name != "devices_shared" &&
                     !__builtin_add_overflow(out[name].get<std::int64_t>(),
                                             value.get<std::int64_t>(), &total))
                out[name] = total;
        }
    return out;
}

/// Records of a file that ends a range in a record of its own count too.
std::int64_t eventsOf(const Run& header, std::int64_t stored) {
    std::int64_t total = 0;
    bool all = !header.ranks.empty();
    for (const RankTimeline& rank : header.ranks) {
        const auto found = rank.counters.find("trace_events");
        all = all && found != rank.counters.end();
        if (all) total += parseWhole(found->second).ok() ? *parseWhole(found->second) : 0;
    }
    return all ? total : stored;
}

/// Of a name that may be kilobytes of templates: what fits a line. kernels_by_name has all of it.
std::string shownName(std::string_view name) {
    constexpr std::size_t kCharacters = 90;
    std::size_t end = 0, taken = 0;
    const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
    for (; end < name.size(); ++end)
        if (!continues(name[end]) && ++taken > kCharacters) break;
    return std::string(name.substr(0, end));
}

}  // namespace

void addDeviceStatistics(const Run& header, const DeviceStatistics& s, Json& out) {
    out["events_total"] = eventsOf(header, s.events);
    out["ranks"] = header.ranks.size();
    out["devices"] = s.devices;
    out["streams"] = s.streams;
    out["memcpy"] = s.memcpy;
    out["memset"] = s.memset;
    out["kernels"] = s.kernels;
    out["kernel_sum_ns"] = s.kernel_sum_ns;
    out["kernel_union_ns"] = s.kernel_union_ns;
    for (const auto& [key, total] :
         {std::pair{"nccl", &s.nccl}, std::pair{"comm_ext", &s.communication}}) {
        out[fmt::format("{}_kernels", key)] = total->count;
        out[fmt::format("{}_sum_ns", key)] = total->sum_ns;
        out[fmt::format("{}_union_ns", key)] = total->union_ns;
    }
    out["overlap_nccl_pct"] = percentOf(s.overlap_nccl_pct);
    out["overlap_comm_ext_pct"] = percentOf(s.overlap_communication_pct);
    out["same_stream_overlaps"] = s.same_stream_overlaps;
    out["gpu_span_ns"] = s.gpu_span_ns;
    out["distinct_kernel_names"] = s.by_name.size();
    if (s.devices > 0) {
        out["busy_union_ns"] = s.busy_union_ns;
        out["idle_in_span_ns"] = s.idle_in_span_ns;
        out["idle_by_cause"] = idleJson(s.idle);
        out["top_kernel"] = s.by_name.empty() ? "" : shownName(s.by_name.front().name);
        out["top_kernel_sum_ns"] = s.by_name.empty() ? 0 : s.by_name.front().sum_ns;
        out["device_time"] = rankRows(header, s);
        Json kernels = Json::array();
        for (const KernelTotal& k :
             std::span(s.by_name).first(std::min(s.by_name.size(), kNamedKernels)))
            kernels.push_back({{"name", k.name},
                               {"count", k.count},
                               {"sum_ns", k.sum_ns},
                               {"min_ns", k.min_ns},
                               {"max_ns", k.max_ns}});
        out["kernels_by_name"] = std::move(kernels);
    }
    out["counters"] = countersOf(header);
    for (const auto& [name, text] : header.notes)
        if (name.starts_with(kNcclTests)) out[name.substr(kNcclTests.size())] = valueOf(text);
}

std::string deviceTable(const Run& header, const DeviceStatistics& s) {
    std::string out;
    const auto ms = [](std::int64_t ns) { return static_cast<double>(ns) / 1e6; };
    if (s.devices > 0) {
        out += fmt::format(
            "{} kernels, {} copies, {} sets on {} devices, {} streams\n"
            "busy {:.3f} ms of {:.3f} ms between first and last (idle {:.3f} ms over all devices)\n"
            "kernels: sum {:.3f} ms, union {:.3f} ms\n"
            "communication: {} kernels, sum {:.3f} ms, union {:.3f} ms",
            s.kernels, s.memcpy, s.memset, s.devices, s.streams, ms(s.busy_union_ns),
            ms(s.gpu_span_ns), ms(s.idle_in_span_ns), ms(s.kernel_sum_ns), ms(s.kernel_union_ns),
            s.communication.count, ms(s.communication.sum_ns), ms(s.communication.union_ns));
        if (s.overlap_communication_pct)
            out += fmt::format(", {:.2f} % under other kernels", *s.overlap_communication_pct);
        out += "\n" + idleText(s.idle);
    } else if (const auto format = header.notes.find("format");
               format != header.notes.end() &&
               (format->second == "chrome" || format->second == "nsys")) {
        out += "no GPU kernels, copies or sets\n";
    }
    for (const RankTimeline& rank : header.ranks)
        for (const auto& [name, value] : rank.counters)
            out += fmt::format("rank {} {}: {}\n", rank.rank.value, name, value);
    return out;
}

}  // namespace piper
