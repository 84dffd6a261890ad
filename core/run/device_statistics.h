// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/run/communication_rule.h"
#include "core/run/device_idle.h"
#include "core/run/name_table.h"
#include "core/run/rank_clock.h"
#include "core/run/run.h"

namespace piper {

/// Kernels of one kind: a name, or all that a rule takes for communication.
struct KernelTotal {
    std::string name;
    std::int64_t count = 0;
    std::int64_t sum_ns = 0;
    std::int64_t union_ns = 0;  ///< per device, summed over devices; of a rule only
    std::int64_t min_ns = 0, max_ns = 0;
};

/// What the devices of one rank did.
struct RankDeviceTime {
    RankId rank;
    std::int64_t kernels = 0;
    std::int64_t kernel_sum_ns = 0;
    std::int64_t communication_sum_ns = 0;
    std::int64_t busy_union_ns = 0;             ///< kernels, copies and sets
    std::int64_t compute_union_ns = 0;          ///< kernels that are no communication
    std::int64_t exposed_communication_ns = 0;  ///< communication outside compute
    std::int64_t span_ns = 0;                   ///< first start to last end of each device, summed
};

/// Sums over the device work of a run (definitions: docs/formats.md). Sums and unions differ
/// where work overlaps; both are kept, each over all devices.
struct DeviceStatistics {
    std::int64_t events = 0;
    std::int64_t memcpy = 0, memset = 0, kernels = 0;
    std::int64_t memcpy_sum_ns = 0, memset_sum_ns = 0;
    std::int64_t kernel_sum_ns = 0, kernel_union_ns = 0, busy_union_ns = 0;
    KernelTotal nccl, communication;
    /// Percent of the union of communication that lies under other kernels; nothing without
    /// communication.
    std::optional<double> overlap_nccl_pct, overlap_communication_pct;
    std::int64_t same_stream_overlaps = 0;
    std::int64_t gpu_span_ns = 0, idle_in_span_ns = 0;
    DeviceIdle idle;  ///< summed over devices
    std::int64_t streams = 0, devices = 0;
    std::vector<KernelTotal> by_name;  ///< largest sum first
    std::vector<RankDeviceTime> ranks;
};

/// Takes the events of a run in any order, keeps those of devices as intervals.
class DeviceAccumulator {
public:
    explicit DeviceAccumulator(CommunicationRule rule) : m_rule(std::move(rule)) {}

    /// The rank whose events follow: its names, tracks, offset and counters are used.
    void beginRank(const RankTimeline& header);
    void add(std::span<const Event> events);
    [[nodiscard]] DeviceStatistics finish();

private:
    struct Work {
        std::int64_t begin = 0, end = 0;
        std::int64_t correlation = -1;
        std::int32_t name = 0, stream = 0, rank = 0;
        EventCategory category = EventCategory::Kernel;
    };
    struct Device {
        std::vector<Work> work;
    };
    /// A call of the host's interface to the device; the order is that of the fields.
    struct Launch {
        std::int32_t rank = 0;
        std::int64_t correlation = 0;
        std::int64_t end = 0;
        auto operator<=>(const Launch&) const = default;
    };
    struct Place {
        std::int32_t device = -1, stream = -1;
    };

    [[nodiscard]] Place placeOf(const Event& e);
    void addNames(DeviceStatistics& out);
    void addDevice(Device& device, DeviceStatistics& out);
    [[nodiscard]] std::optional<std::int64_t> launchOf(const Work& w) const;
    [[nodiscard]] std::vector<DevicePiece> piecesOf(const std::vector<Work>& work) const;
    void addOverlap(const Device& device, const std::vector<bool>& rule, KernelTotal& total,
                    std::int64_t& covered_ns) const;
    void addRankTime(const Device& device, std::int32_t number, RankDeviceTime& rank) const;

    CommunicationRule m_rule;
    NameTable m_names, m_device_keys, m_stream_keys;
    std::vector<bool> m_nccl, m_communication;  ///< [name]
    std::vector<Device> m_devices;
    std::vector<Launch> m_launches;
    std::vector<RankId> m_ranks;
    // of the current rank
    std::vector<std::int32_t> m_name_of;  ///< [its name]
    std::vector<Place> m_place_of;        ///< [its track], -1 not met yet
    std::vector<Track> m_tracks;
    std::vector<std::string> m_rank_names;
    RankClock m_clock{RankTimeline{}};
    std::string m_devices_of;  ///< whose numbers its devices have
    std::int64_t m_events = 0;
};

}  // namespace piper
