// SPDX-License-Identifier: Apache-2.0
#include "core/cost/host_link.h"

#include <algorithm>

#include "core/cost/curves.h"
#include "core/resources/work.h"

namespace piper {

namespace {

/// Achieved shares: copies of pinned memory, and the vectorized passes of CPU Adam.
constexpr double kLinkShare = 0.85, kMemoryShare = 0.7;

struct Rates {
    double link_gb_s, memory_gb_s;
};

Rates ratesOf(std::string_view name) {
    const auto is = [&](std::string_view part) { return name.starts_with(part); };
    if (is("MI250X")) return {36.0, 25.6};
    if (is("GH200")) return {450.0, 512.0};
    if (is("GB")) return {225.0, 256.0};
    if (is("A100") || is("L40S")) return {31.5, 51.2};
    return {63.0, 76.8};
}

}  // namespace

HostLink hostLink(const DeviceSpec& device) {
    if (device.kind == DeviceKind::Cpu) return {};
    const Rates rates = ratesOf(device.name);
    return {gbps(rates.link_gb_s * kLinkShare), gbps(rates.memory_gb_s * kMemoryShare)};
}

Seconds hostCopy(const DeviceSpec& device, Bytes bytes) {
    const HostLink host = hostLink(device);
    return host.link.value > 0.0 ? bytes / host.link : Seconds();
}

Cost hostOptimizer(const Plan& plan, double parameters) {
    const HostLink host = hostLink(plan.cluster.device);
    if (parameters <= 0.0 || host.link.value <= 0.0) return {};
    const StateBytes state = stateBytes(plan);
    const Seconds copies = Bytes(parameters * std::max(state.gradients, state.weights)) / host.link;
    const Seconds pass = Bytes(parameters * optimizerStepBytes(state)) / host.memory;
    return costOf(std::max(copies, pass), EvidenceKind::Assumed, false);
}

}  // namespace piper
