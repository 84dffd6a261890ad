// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/evidence.h"
#include "core/base/json_fwd.h"
#include "core/base/result.h"
#include "core/base/units.h"

namespace piper {

enum class Precision { Fp32, Tf32, Bf16, Fp16, Fp8, Fp8Block, Mxfp8, Nvfp4 };
enum class DeviceKind { Gpu, Cpu };

/// Bytes of one element as stored for a GEMM operand of this precision (scales not counted).
[[nodiscard]] Bytes elementBytes(Precision precision);

/// One accelerator (or one CPU rank) with the numbers a data sheet gives.
struct DeviceSpec {
    std::string name;
    DeviceKind kind = DeviceKind::Gpu;
    std::map<Precision, FlopsPerSecond> peak;  ///< dense matrix rate by precision
    Bytes memory;                              ///< capacity
    BytesPerSecond memory_bandwidth;
    Seconds launch_overhead = microseconds(4);  ///< of one kernel or GEMM call
    /// Whose published kernel times stand for this device: "" the usual ones, "te" those measured
    /// with TransformerEngine on one machine (SimuMax). docs/formulas.md, "Time of a kernel".
    std::string kernels;
    std::string source;
    Evidence evidence{EvidenceKind::VendorPeak, 0, 0, false};
    std::vector<Precision> assumed_peaks;  ///< rates of `peak` that `source` does not state

    [[nodiscard]] Result<FlopsPerSecond> peakFor(Precision precision) const;
    /// Evidence of that rate: the device's, or assumed.
    [[nodiscard]] Evidence peakEvidence(Precision precision) const;
};

/// One level of the interconnect, innermost first: "nvlink", "ib", "ethernet", "shared_memory".
/// A group of `domain_devices` consecutive devices is joined by this level.
struct LinkLevel {
    std::string name;
    std::int64_t domain_devices = 1;    ///< devices inside one domain of this level
    BytesPerSecond bandwidth;           ///< per device and direction when all send at once
    BytesPerSecond port_bandwidth;      ///< per device and direction when one device sends alone
    Seconds latency = microseconds(5);  ///< one message
    double taper = 1.0;                 ///< >= 1: bandwidth out of this domain is divided by it
    std::string source;
    Evidence evidence{EvidenceKind::VendorPeak, 0, 0, false};
};

/// One measured point of a GEMM: groups equal problems of m x n x k (groups 1: plain GEMM).
struct GemmPoint {
    Precision precision = Precision::Bf16;
    std::int64_t groups = 1;
    std::int64_t m = 1, n = 1, k = 1;
    FlopsPerSecond rate;  ///< achieved
};

/// One measured point of a memory-bound copy (read + write bytes together).
struct MemoryPoint {
    Bytes size;
    BytesPerSecond rate;
};

enum class CollectiveKind { AllToAll, AllReduce, AllGather, ReduceScatter, PointToPoint };

/// One measured point of a collective: time of one call.
/// message: bytes per pair for AllToAll, bytes of the whole buffer of a rank otherwise.
struct CollectivePoint {
    CollectiveKind kind = CollectiveKind::AllToAll;
    std::string algorithm;  ///< "" when the library chose
    std::int64_t ranks = 1;
    std::int64_t ranks_per_node = 1;
    Bytes message;
    Seconds time;
};

/// One measured point of moving (token, expert) rows: routing, dispatch and combine of one layer by
/// one algorithm of docs/alltoall.md. Points that differ in nothing else are a choice.
struct ExchangePoint {
    std::string algorithm;  ///< "vendor", or a name of the plan's algorithms
    std::int64_t ranks = 1, nodes = 1;
    std::int64_t tokens = 1;  ///< of each rank
    Bytes row;                ///< one row on the wire
    std::int64_t topk = 1;
    std::int64_t node_limit = 0;  ///< nodes a token may reach, 0: any
    double imbalance = 1.0;       ///< rows of the hottest rank over the mean
    Seconds time;
};

/// One measured point of causal attention: batch sequences, heads, seq_len, head_dim.
struct AttentionPoint {
    Precision precision = Precision::Bf16;
    std::int64_t batch = 1, heads = 1, seq_len = 1, head_dim = 1;
    bool backward = false;
    FlopsPerSecond rate;  ///< causal-half FLOPs over time
};

/// Element-wise and per-row work of the worker that is not a GEMM, as seconds per byte moved.
struct OverheadPoint {
    std::string operation;  ///< phase or operation name, e.g. "router", "optimizer"
    Bytes size;             ///< bytes of the operation's operands
    Seconds time;
};

/// What the worker's operations of one kind take inside a training step over what their calls take
/// when each is timed alone: operands that other operations left cold, the work between the calls.
struct OperationPoint {
    std::string operation;  ///< phase name
    std::string kind;       ///< operation kind name
    double ratio = 1.0;
};

/// Curves measured on this very cluster; empty when nothing was measured.
struct MeasuredCurves {
    std::string measured_at;  ///< ISO date and time
    std::string host;         ///< a label, not an address
    std::vector<GemmPoint> gemm;
    std::vector<AttentionPoint> attention;
    std::vector<MemoryPoint> memory;
    std::vector<CollectivePoint> collective;
    std::vector<ExchangePoint> exchange;
    std::vector<OverheadPoint> overhead;
    std::vector<OperationPoint> operation;
    [[nodiscard]] bool empty() const {
        return gemm.empty() && attention.empty() && memory.empty() && collective.empty() &&
               exchange.empty() && overhead.empty() && operation.empty();
    }
};

/// Devices, nodes and links a plan runs on.
struct ClusterSpec {
    std::string name;
    DeviceSpec device;
    std::int64_t devices_per_node = 1;
    std::int64_t nodes = 1;
    std::vector<LinkLevel> levels;       ///< innermost first; the last spans the cluster
    double price_per_device_hour = 0.0;  ///< currency units, 0 unknown
    MeasuredCurves curves;

    [[nodiscard]] std::int64_t numDevices() const { return devices_per_node * nodes; }
};

/// Our cluster file. `"device": "H100 SXM"` takes the catalogue's numbers; an object gives them.
/// Errors: InvalidInput with the key's path.
[[nodiscard]] Result<ClusterSpec> readCluster(const Json& json, std::string_view where);
[[nodiscard]] Result<ClusterSpec> readClusterText(std::string_view text, std::string_view where);
[[nodiscard]] Json writeCluster(const ClusterSpec& cluster);

/// Every broken rule of the numbers themselves; empty when sound.
[[nodiscard]] std::vector<Error> checkCluster(const ClusterSpec& cluster);

/// The bundled catalogue: every device with a source for its numbers.
[[nodiscard]] const std::vector<DeviceSpec>& deviceCatalogue();
/// By name, in any case, or by a usual short name ("H100").
/// Errors: NotFound names the nearest known device.
[[nodiscard]] Result<DeviceSpec> findDevice(std::string_view name);
/// The usual cluster of a catalogue device: its intra-node and inter-node links. MI250X GCD gives
/// Frontier's levels; the CPU entry gives ranks of one machine joined by shared memory.
/// "DEVICE@ethernet" is the same devices with plain Ethernet between the nodes (or racks).
/// Errors: NotFound as findDevice, or for an unknown fabric; InvalidInput for nodes below 1.
[[nodiscard]] Result<ClusterSpec> defaultCluster(std::string_view device, std::int64_t nodes);
/// The usual links of that catalogue device ("DEVICE" or "DEVICE@ethernet") over so many devices;
/// the last level spans them all.
[[nodiscard]] Result<std::vector<LinkLevel>> defaultLevels(std::string_view device,
                                                           std::int64_t devices_per_node,
                                                           std::int64_t nodes);

}  // namespace piper
