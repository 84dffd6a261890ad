// SPDX-License-Identifier: Apache-2.0
#include "core/run/device_statistics.h"

#include <algorithm>
#include <limits>
#include <set>

#include "core/run/merged_length.h"
#include "core/run/time_range.h"

namespace piper {
namespace {

void count(KernelTotal& total, std::int64_t duration) {
    total.min_ns = total.count == 0 ? duration : std::min(total.min_ns, duration);
    total.max_ns = total.count == 0 ? duration : std::max(total.max_ns, duration);
    ++total.count;
    total.sum_ns += duration;
}

std::optional<double> percent(std::int64_t part, std::int64_t whole) {
    if (whole == 0) return std::nullopt;
    return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void DeviceAccumulator::beginRank(const RankTimeline& header) {
    m_ranks.push_back(header.rank);
    m_rank_names = header.names;
    m_tracks = header.tracks;
    static const RankTimeline kRight;
    m_clock = RankClock(inTimeRange(header.offset_ns) ? header : kRight);
    m_name_of.assign(header.names.size() + 1, -1);
    m_place_of.assign(header.tracks.size() + 1, {});
    const auto shared = header.counters.find("devices_shared");
    m_devices_of = shared == header.counters.end() ? fmt::format("rank {}", header.rank.value)
                                                   : fmt::format("file {}", shared->second);
}

/// Devices are numbered within a rank, unless its file numbers them for all its ranks: then the
/// counter "devices_shared" is the number of that file. Streams are numbered by their process.
DeviceAccumulator::Place DeviceAccumulator::placeOf(const Event& e) {
    const auto index =
        std::min(static_cast<std::size_t>(e.track < 0 ? 0 : e.track + 1), m_place_of.size() - 1);
    Place& place = m_place_of[index];
    if (place.device >= 0) return place;
    const Track none;
    const Track& track = index > 0 ? m_tracks[index - 1] : none;
    const std::string device = fmt::format("{}/{}", m_devices_of, track.device);
    place.device = m_device_keys.intern(device);
    place.stream = m_stream_keys.intern(
        track.stream >= 0 ? fmt::format("{}/{}/stream {}", device, track.process, track.stream)
                          : fmt::format("{}/{}/thread {}", device, track.process, track.thread));
    if (m_devices.size() < m_device_keys.size()) m_devices.resize(m_device_keys.size());
    return place;
}

void DeviceAccumulator::add(std::span<const Event> events) {
    m_events += static_cast<std::int64_t>(events.size());
    const auto rank = static_cast<std::int32_t>(m_ranks.size()) - 1;
    for (const Event& e : events) {
        if (!inTimeRange(e.start_ns) || !inTimeRange(e.duration_ns)) continue;
        if (e.category == EventCategory::Runtime && e.correlation >= 0)
            m_launches.push_back({rank, e.correlation, m_clock.toCommon(e.end_ns())});
        if (!isDeviceWork(e.category)) continue;
        const Place place = placeOf(e);
        const auto local =
            std::min(static_cast<std::size_t>(e.name < 0 ? 0 : e.name + 1), m_name_of.size() - 1);
        std::int32_t& name = m_name_of[local];
        if (name < 0) name = m_names.intern(local > 0 ? m_rank_names[local - 1] : std::string());
        const std::int64_t start = m_clock.toCommon(e.start_ns);
        m_devices[static_cast<std::size_t>(place.device)].work.push_back(
            {start, start + e.duration_ns, e.correlation, name, place.stream, rank, e.category});
    }
}

void DeviceAccumulator::addNames(DeviceStatistics& out) {
    std::vector<KernelTotal> totals(m_names.size());
    for (const std::string& text : m_names.names()) {
        m_nccl.push_back(isNcclName(text));
        m_communication.push_back(m_rule.matches(text));
    }
    for (const Device& device : m_devices)
        for (const Work& w : device.work) {
            if (w.category != EventCategory::Kernel) continue;
            const auto name = static_cast<std::size_t>(w.name);
            const std::int64_t duration = w.end - w.begin;
            count(totals[name], duration);
            if (m_nccl[name]) count(out.nccl, duration);
            if (m_communication[name]) count(out.communication, duration);
            RankDeviceTime& rank = out.ranks[static_cast<std::size_t>(w.rank)];
            ++rank.kernels;
            rank.kernel_sum_ns += duration;
            if (m_communication[name]) rank.communication_sum_ns += duration;
        }
    for (std::size_t i = 0; i < totals.size(); ++i) {
        if (totals[i].count == 0) continue;
        totals[i].name = m_names[i];
        out.by_name.push_back(std::move(totals[i]));
    }
    std::stable_sort(
        out.by_name.begin(), out.by_name.end(),
        [](const KernelTotal& a, const KernelTotal& b) { return a.sum_ns > b.sum_ns; });
}

void DeviceAccumulator::addDevice(Device& device, DeviceStatistics& out) {
    std::vector<Work>& work = device.work;
    std::sort(work.begin(), work.end(), [](const Work& a, const Work& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    const auto isKernel = [](const Work& w) { return w.category == EventCategory::Kernel; };
    std::map<std::int32_t, std::int64_t> latest;
    for (const Work& w : work) {
        if (!isKernel(w)) {
            const bool copy = w.category == EventCategory::Memcpy;
            ++(copy ? out.memcpy : out.memset);
            (copy ? out.memcpy_sum_ns : out.memset_sum_ns) += w.end - w.begin;
            continue;
        }
        ++out.kernels;
        out.kernel_sum_ns += w.end - w.begin;
        const auto [it, fresh] = latest.try_emplace(w.stream, w.end);
        out.same_stream_overlaps += !fresh && w.begin < it->second ? 1 : 0;
        it->second = std::max(it->second, w.end);
    }
    const DeviceIdle idle = deviceIdle(piecesOf(work));
    const std::int64_t idle_ns = idle.waiting_launch_ns + idle.unknown_ns;
    out.busy_union_ns += idle.span_ns - idle_ns;
    out.idle_in_span_ns += idle_ns;
    out.kernel_union_ns += idle.compute_ns + idle.waiting_communication_ns;
    out.idle.add(idle);
}

/// The first end of a call with the work's correlation; a driver's call within one of the runtime
/// shares it.
std::optional<std::int64_t> DeviceAccumulator::launchOf(const Work& w) const {
    if (w.correlation < 0) return std::nullopt;
    const Launch wanted{w.rank, w.correlation, std::numeric_limits<std::int64_t>::min()};
    const auto found = std::lower_bound(m_launches.begin(), m_launches.end(), wanted);
    if (found == m_launches.end() || found->rank != w.rank || found->correlation != w.correlation)
        return std::nullopt;
    return found->end;
}

std::vector<DevicePiece> DeviceAccumulator::piecesOf(const std::vector<Work>& work) const {
    std::vector<DevicePiece> pieces;
    pieces.reserve(work.size());
    for (const Work& w : work) {
        const bool kernel = w.category == EventCategory::Kernel;
        pieces.push_back({w.begin, w.end, kernel,
                          kernel && m_communication[static_cast<std::size_t>(w.name)],
                          launchOf(w)});
    }
    return pieces;
}

/// Communication by one rule on one device: its union and how much of it lies under other kernels.
void DeviceAccumulator::addOverlap(const Device& device, const std::vector<bool>& rule,
                                   KernelTotal& total, std::int64_t& covered_ns) const {
    const auto is = [&](const Work& w, bool wanted) {
        return w.category == EventCategory::Kernel &&
               rule[static_cast<std::size_t>(w.name)] == wanted;
    };
    const auto inside = mergedWhere(device.work, [&](const Work& w) { return is(w, true); });
    const auto others = mergedWhere(device.work, [&](const Work& w) { return is(w, false); });
    total.union_ns += mergedLength(inside);
    covered_ns += intersectionLength(inside, others);
}

/// The share of one rank in a device's work.
void DeviceAccumulator::addRankTime(const Device& device, std::int32_t number,
                                    RankDeviceTime& rank) const {
    const auto own = [&](const Work& w) { return w.rank == number; };
    const auto kernel = [&](const Work& w, bool communication) {
        return own(w) && w.category == EventCategory::Kernel &&
               m_communication[static_cast<std::size_t>(w.name)] == communication;
    };
    const auto compute = mergedWhere(device.work, [&](const Work& w) { return kernel(w, false); });
    const auto talk = mergedWhere(device.work, [&](const Work& w) { return kernel(w, true); });
    rank.busy_union_ns += mergedLength(mergedWhere(device.work, own));
    rank.compute_union_ns += mergedLength(compute);
    rank.exposed_communication_ns += mergedLength(talk) - intersectionLength(talk, compute);
    std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = 0;
    for (const Work& w : device.work) {
        if (!own(w)) continue;
        end = begin > w.begin && begin == std::numeric_limits<std::int64_t>::max()
                  ? w.end
                  : std::max(end, w.end);
        begin = std::min(begin, w.begin);
    }
    rank.span_ns += end - begin;
}

DeviceStatistics DeviceAccumulator::finish() {
    DeviceStatistics out;
    out.events = m_events;
    for (RankId rank : m_ranks) out.ranks.emplace_back().rank = rank;
    addNames(out);
    std::sort(m_launches.begin(), m_launches.end());
    std::int64_t nccl_covered = 0, communication_covered = 0;
    std::optional<Interval> span;
    for (Device& device : m_devices) {
        if (device.work.empty()) continue;
        ++out.devices;
        addDevice(device, out);
        std::set<std::int32_t> ranks;
        for (const Work& w : device.work) {
            ranks.insert(w.rank);
            if (!span) span = Interval{w.begin, w.end};
            span = Interval{std::min(span->begin, w.begin), std::max(span->end, w.end)};
        }
        addOverlap(device, m_nccl, out.nccl, nccl_covered);
        addOverlap(device, m_communication, out.communication, communication_covered);
        for (std::int32_t rank : ranks)
            addRankTime(device, rank, out.ranks[static_cast<std::size_t>(rank)]);
    }
    out.overlap_nccl_pct = percent(nccl_covered, out.nccl.union_ns);
    out.overlap_communication_pct = percent(communication_covered, out.communication.union_ns);
    if (span) out.gpu_span_ns = span->end - span->begin;
    out.streams = static_cast<std::int64_t>(m_stream_keys.size());
    return out;
}

}  // namespace piper
