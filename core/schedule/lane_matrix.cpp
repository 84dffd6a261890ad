// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lane_matrix.h"

#include <algorithm>

#include "core/schedule/slot_builder.h"

namespace piper {
namespace {

Port portOf(Lane lane) {
    switch (lane) {
        case Lane::Ep:
            return Port::Ep;
        case Lane::TpCp:
            return Port::TpCp;
        case Lane::Pp:
            return Port::Send;
        case Lane::Dp:
            return Port::Dp;
        default:
            return Port::Compute;
    }
}

void raise(PortTimes& target, const PortTimes& other) {
    for (std::size_t i = 0; i < kNumPorts; ++i) target[i] = std::max(target[i], other[i]);
}

PortTimes onlyInput(Port port) {
    PortTimes row;
    row.fill(kNever);
    row[at(port)] = 0;
    return row;
}

}  // namespace

std::int64_t freeAt(const PortTimes& lanes) {
    std::int64_t out = 0;
    for (Port port : {Port::Compute, Port::Ep, Port::TpCp, Port::Dp})
        out = std::max(out, lanes[at(port)]);
    return out;
}

PortTimes LaneMatrix::apply(const PortTimes& in) const {
    PortTimes out;
    for (std::size_t o = 0; o < kNumPorts; ++o) {
        std::int64_t latest = kNever;
        for (std::size_t i = 0; i < kNumPorts; ++i) latest = std::max(latest, in[i] + rows[o][i]);
        out[o] = latest;
    }
    return out;
}

LaneMatrix LaneMatrix::identity() {
    LaneMatrix matrix;
    for (std::size_t p = 0; p < kNumPorts; ++p) matrix.rows[p] = onlyInput(static_cast<Port>(p));
    return matrix;
}

std::vector<LaneStep> laneSteps(const SlotTemplate& slot) {
    std::vector<LaneStep> out;
    out.reserve(slot.operations.size());
    for (const Operation& op : slot.operations) {
        using Kind = LaneStep::Kind;
        LaneStep& step = out.emplace_back();
        step.kind = op.key.kind == OperationKind::Receive ? Kind::Receive
                    : isHandOver(op)                      ? Kind::HandOver
                    : op.key.kind == OperationKind::Send  ? Kind::Send
                                                          : Kind::Work;
        step.port = portOf(op.lane);
        step.arrival = arrivalPort(memberOf(op));
        step.after = op.dependencies;
    }
    return out;
}

LaneMatrix laneMatrix(std::span<const LaneStep> steps, bool blocking_messages,
                      std::span<const std::int64_t> durations_ns) {
    LaneMatrix matrix = LaneMatrix::identity();
    std::vector<PortTimes> ends(steps.size());
    const auto raiseBy = [&](PortTimes& lane, const LaneStep& step) {
        for (const std::int32_t id : step.after)
            raise(lane, id == kComputeBefore ? onlyInput(Port::Compute)
                                             : ends[static_cast<std::size_t>(id)]);
    };
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const LaneStep& step = steps[i];
        if (step.kind == LaneStep::Kind::Receive) {
            ends[i] = onlyInput(step.arrival);
            continue;
        }
        if (step.kind == LaneStep::Kind::HandOver) {
            ends[i].fill(kNever);
            raiseBy(ends[i], step);
        } else {
            PortTimes& lane = matrix.row(step.port);
            if (blocking_messages && step.port == Port::Compute)
                raise(lane, matrix.row(Port::Send));
            raiseBy(lane, step);
            for (std::int64_t& time : lane)
                if (time != kNever) time += durations_ns[i];
            ends[i] = lane;
        }
        if (step.kind != LaneStep::Kind::Work) matrix.row(step.arrival) = ends[i];
    }
    return matrix;
}

LaneMatrix laneMatrix(const SlotTemplate& slot, std::span<const std::int64_t> durations_ns) {
    return laneMatrix(laneSteps(slot), slot.blocking_messages, durations_ns);
}

IsolatedTimes isolatedTimes(const SlotTemplate& slot,
                            const std::vector<std::int64_t>& durations_ns) {
    IsolatedTimes out;
    out.start_ns.assign(slot.operations.size(), 0);
    out.end_ns = out.start_ns;
    PortTimes lanes{};
    for (std::size_t i = 0; i < slot.operations.size(); ++i) {
        const Operation& op = slot.operations[i];
        if (op.key.kind == OperationKind::Receive) continue;
        std::int64_t own = 0;
        std::int64_t& lane = isHandOver(op) ? own : lanes[at(portOf(op.lane))];
        if (slot.blocking_messages && op.lane == Lane::Compute)
            lane = std::max(lane, lanes[at(Port::Send)]);
        for (std::int32_t id : op.dependencies)
            if (id != kComputeBefore)
                lane = std::max(lane, out.end_ns[static_cast<std::size_t>(id)]);
        out.start_ns[i] = lane;
        lane += durations_ns[i];
        out.end_ns[i] = lane;
        if (op.key.kind != OperationKind::Send) out.span_ns = std::max(out.span_ns, lane);
    }
    return out;
}

}  // namespace piper
