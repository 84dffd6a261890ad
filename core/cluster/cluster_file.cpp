// SPDX-License-Identifier: Apache-2.0
// The cluster file: devices, nodes, link levels, measured curves.
#include "core/base/json.h"
#include "core/cluster/cluster.h"
#include "core/cluster/files.h"

namespace piper {
namespace {

constexpr int kFormatVersion = 1;

Result<std::map<Precision, FlopsPerSecond>> readPeaks(const Json& json, const std::string& where) {
    std::map<Precision, FlopsPerSecond> peaks;
    ObjectReader in(json, where);
    for (const EnumName<Precision>& row : enumNames<Precision>()) {
        if (in.hasValue(row.name))
            peaks[row.value] = FlopsPerSecond(in.number(row.name));
        else
            in.known(row.name);
    }
    PIPER_TRY(in.finish());
    return peaks;
}

Result<std::vector<Precision>> readPrecisions(const Json& json, const std::string& where) {
    std::vector<Precision> out;
    if (json.is_null()) return out;
    if (!json.is_array())
        return fail(ErrorCode::InvalidInput, "expected an array, found {}", json.type_name())
            .at(where);
    for (const Json& name : json) {
        if (!name.is_string())
            return fail(ErrorCode::InvalidInput, "expected names, found {}", name.dump()).at(where);
        Result<Precision> precision = parseEnum<Precision>(name.get<std::string>(), "precision");
        if (!precision.ok()) return std::move(precision).error().at(where);
        out.push_back(*precision);
    }
    return out;
}

Result<DeviceSpec> readDeviceObject(const Json& json, const std::string& where) {
    ObjectReader in(json, where);
    DeviceSpec d;
    d.name = in.string("name");
    d.kind = in.enumeration("kind", DeviceKind::Gpu);
    const Json& peaks = in.child("peak_flops_per_second");
    d.memory = Bytes(in.number("memory_bytes"));
    d.memory_bandwidth = BytesPerSecond(in.number("memory_bandwidth_bytes_per_second"));
    d.launch_overhead = Seconds(in.number("launch_overhead_seconds", 4e-6));
    d.source = in.string("source", "");
    d.kernels = in.string("kernels", "");
    const Json& evidence = in.child("evidence");
    const Json& assumed = in.child("assumed_peaks");
    PIPER_TRY(in.finish());
    if (!d.kernels.empty() && d.kernels != "te")
        return Error{ErrorCode::InvalidInput,
                     fmt::format("no kernel times are called \"{}\"", d.kernels),
                     in.path("kernels"), "", "use \"te\", or leave the key out"};
    PIPER_ASSIGN(d.assumed_peaks, readPrecisions(assumed, in.path("assumed_peaks")));
    PIPER_ASSIGN(d.peak, readPeaks(peaks, in.path("peak_flops_per_second")));
    PIPER_ASSIGN(d.evidence, readEvidence(evidence, in.path("evidence"),
                                          Evidence{EvidenceKind::Assumed, 0, 0, false}));
    return d;
}

Result<DeviceSpec> readDevice(const Json& json, const std::string& where) {
    if (!json.is_string()) return readDeviceObject(json, where);
    Result<DeviceSpec> device = findDevice(json.get<std::string>());
    if (!device.ok()) return std::move(device).error().at(where);
    return device;
}

Result<LinkLevel> readLevel(const Json& json, const std::string& where) {
    ObjectReader in(json, where);
    LinkLevel level;
    level.name = in.string("name");
    level.domain_devices = in.positiveInt("domain_devices");
    level.bandwidth = BytesPerSecond(in.number("bandwidth_bytes_per_second"));
    level.port_bandwidth =
        BytesPerSecond(in.number("port_bandwidth_bytes_per_second", level.bandwidth.value));
    level.latency = Seconds(in.number("latency_seconds", 5e-6));
    level.taper = in.number("taper", 1.0);
    level.source = in.string("source", "");
    const Json& evidence = in.child("evidence");
    PIPER_TRY(in.finish());
    PIPER_ASSIGN(level.evidence, readEvidence(evidence, in.path("evidence"), level.evidence));
    return level;
}

Result<std::vector<LinkLevel>> readLevels(const Json& json, const ClusterSpec& cluster,
                                          const std::string& fabric, const std::string& where) {
    if (json.is_null()) {
        const std::string device =
            fabric.empty() ? cluster.device.name : cluster.device.name + "@" + fabric;
        Result<std::vector<LinkLevel>> levels =
            defaultLevels(device, cluster.devices_per_node, cluster.nodes);
        if (levels.ok()) return levels;
        if (levels.error().code != ErrorCode::NotFound || findDevice(cluster.device.name).ok())
            return std::move(levels).error().at(where);
        return fail(ErrorCode::InvalidInput,
                    "missing, and '{}' is not in the catalogue, so there are no usual links",
                    cluster.device.name)
            .at(where);
    }
    if (!json.is_array())
        return fail(ErrorCode::InvalidInput, "expected an array, found {}", json.type_name())
            .at(where);
    std::vector<LinkLevel> levels;
    for (std::size_t i = 0; i < json.size(); ++i) {
        PIPER_ASSIGN(LinkLevel level, readLevel(json[i], fmt::format("{}[{}]", where, i)));
        levels.push_back(std::move(level));
    }
    return levels;
}

Json writeDevice(const DeviceSpec& device) {
    Json out;
    out["name"] = device.name;
    out["kind"] = toText(device.kind);
    Json peaks = Json::object();
    for (const auto& [precision, rate] : device.peak)
        peaks[std::string(toText(precision))] = rate.value;
    out["peak_flops_per_second"] = std::move(peaks);
    out["memory_bytes"] = device.memory.value;
    out["memory_bandwidth_bytes_per_second"] = device.memory_bandwidth.value;
    out["launch_overhead_seconds"] = device.launch_overhead.value;
    if (!device.kernels.empty()) out["kernels"] = device.kernels;
    out["source"] = device.source;
    out["evidence"] = writeEvidence(device.evidence);
    if (!device.assumed_peaks.empty()) {
        out["assumed_peaks"] = Json::array();
        for (const Precision precision : device.assumed_peaks)
            out["assumed_peaks"].push_back(toText(precision));
    }
    return out;
}

Json writeLevel(const LinkLevel& level) {
    return {{"name", level.name},
            {"domain_devices", level.domain_devices},
            {"bandwidth_bytes_per_second", level.bandwidth.value},
            {"port_bandwidth_bytes_per_second", level.port_bandwidth.value},
            {"latency_seconds", level.latency.value},
            {"taper", level.taper},
            {"source", level.source},
            {"evidence", writeEvidence(level.evidence)}};
}

Status sound(const ClusterSpec& cluster, std::string_view where) {
    std::vector<Error> errors = checkCluster(cluster);
    if (errors.empty()) return {};
    Error first = std::move(errors.front()).at(std::string(where));
    for (std::size_t i = 1; i < errors.size(); ++i)
        first.hint +=
            (first.hint.empty() ? "also: " : "; ") + errors[i].where + ": " + errors[i].message;
    return first;
}

}  // namespace

Result<Evidence> readEvidence(const Json& json, const std::string& where, Evidence fallback) {
    if (json.is_null()) return fallback;
    ObjectReader in(json, where);
    Evidence e;
    e.kind = in.enumeration("kind", fallback.kind);
    e.low = in.number("low", 0.0);
    e.high = in.number("high", 0.0);
    e.extrapolated = in.boolean("extrapolated", false);
    PIPER_TRY(in.finish());
    return e;
}

Json writeEvidence(const Evidence& evidence) {
    return {{"kind", toText(evidence.kind)},
            {"low", evidence.low},
            {"high", evidence.high},
            {"extrapolated", evidence.extrapolated}};
}

Result<ClusterSpec> readCluster(const Json& json, std::string_view where) {
    ObjectReader in(json, std::string(where));
    PIPER_TRY(checkFormatVersion(in, kFormatVersion));
    ClusterSpec cluster;
    cluster.name = in.string("name", "");
    const Json& device = in.child("device");
    cluster.devices_per_node = in.positiveInt("devices_per_node");
    cluster.nodes = in.positiveInt("nodes", 1);
    const std::string fabric = in.string("fabric", "");
    const Json& levels = in.child("levels");
    cluster.price_per_device_hour = in.number("price_per_device_hour", 0.0);
    const Json& curves = in.child("curves");
    PIPER_TRY(in.finish());
    if (device.is_null())
        return fail(ErrorCode::InvalidInput,
                    "missing; expected a device of the catalogue or an object with its numbers")
            .at(in.path("device"));
    PIPER_ASSIGN(cluster.device, readDevice(device, in.path("device")));
    PIPER_ASSIGN(cluster.levels, readLevels(levels, cluster, fabric, in.path("levels")));
    if (!curves.is_null()) {
        PIPER_ASSIGN(cluster.curves, readCurves(curves, in.path("curves")));
    }
    PIPER_TRY(sound(cluster, where));
    return cluster;
}

Result<ClusterSpec> readClusterText(std::string_view text, std::string_view where) {
    PIPER_ASSIGN(const Json json, parseJson(text, where));
    return readCluster(json, where);
}

Json writeCluster(const ClusterSpec& cluster) {
    Json out;
    out["format_version"] = kFormatVersion;
    out["name"] = cluster.name;
    out["device"] = writeDevice(cluster.device);
    out["devices_per_node"] = cluster.devices_per_node;
    out["nodes"] = cluster.nodes;
    Json levels = Json::array();
    for (const LinkLevel& level : cluster.levels) levels.push_back(writeLevel(level));
    out["levels"] = std::move(levels);
    out["price_per_device_hour"] = cluster.price_per_device_hour;
    if (!cluster.curves.empty()) out["curves"] = writeCurves(cluster.curves);
    return out;
}

}  // namespace piper
